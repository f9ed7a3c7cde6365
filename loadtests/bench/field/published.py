"""The figures of the published test with 10,000 connections, on its author's machine."""

C10K = {
    "C10k.jl, published": {
        "percentiles": [[50, 106], [99, 6681], [100, 6704]],
        "requests_per_second": 1912,
        "failed": 0,
    },
    "Apache, published": {
        "percentiles": [[50, 89], [99, 1085], [100, 21092]],
        "requests_per_second": 614,
        "failed": 151,
    },
    "http-server, published": {
        "percentiles": [[50, 610], [99, 1952], [100, 2059]],
        "requests_per_second": 4084,
        "failed": 0,
    },
}
"""By who answered: `ab -n 13000 -c 10000` of a page of 10,831 bytes. C10k.jl's own test."""
