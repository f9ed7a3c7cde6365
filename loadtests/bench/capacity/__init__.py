"""The capacity model compared with measurements: the knee, and the p99 at 70% of it."""
