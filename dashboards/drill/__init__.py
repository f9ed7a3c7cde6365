"""Drills: makes the condition of each alert true, and checks that it fires, is notified and resolves."""
