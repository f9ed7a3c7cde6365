"""The harness of all benchmarks: plan, interleaved rounds, record, report."""
