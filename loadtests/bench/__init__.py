"""Benchmarks: measurements in interleaved rounds, written to docs/results."""
