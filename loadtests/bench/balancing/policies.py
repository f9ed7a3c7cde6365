"""The compared policies, as values of the gateway chart."""

DEFAULT = "least-request"
KEEPING = "least-request, no ejection"

POLICIES: dict[str, dict] = {
    DEFAULT: {"balancing": {"policy": "least-request"}},
    "least-request-p2c": {"balancing": {"policy": "least-request-p2c"}},
    "round-robin": {"balancing": {"policy": "round-robin"}},
    "load-aware": {"balancing": {"policy": "load-aware"}},
    KEEPING: {
        "balancing": {"policy": "least-request"},
        "outliers": {"failurePercent": 0},
    },
}
"""Below `upstream`, by the name in the tables."""

ONLY = {KEEPING: ("failing",)}
"""What is measured in some scenarios alone."""
