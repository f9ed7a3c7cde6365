"""Ports for the processes of a test: those of benchmarks that a test runs are drawn likewise."""

from loadtests.bench.free_ports import free_ports

__all__ = ["free_ports"]
