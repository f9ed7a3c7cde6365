"""Threads × connections × iterations: lanes, a shared queue with N threads, and one thread."""
