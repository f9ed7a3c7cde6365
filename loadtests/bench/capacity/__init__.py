"""The capacity model beside what is measured: the knee, and the p99 at 70% of it."""
