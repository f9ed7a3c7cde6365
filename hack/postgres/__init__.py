"""Runs a disposable PostgreSQL for tests, benchmarks and `make up DATABASE=postgres`."""
