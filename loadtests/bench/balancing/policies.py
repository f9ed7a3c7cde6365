"""What is compared: values of the gateway chart, as somebody would set them."""

DEFAULT = "least-request"
EJECTING = "least-request, ejecting"

POLICIES: dict[str, dict] = {
    DEFAULT: {"balancing": {"policy": "least-request"}},
    "least-request-p2c": {"balancing": {"policy": "least-request-p2c"}},
    "round-robin": {"balancing": {"policy": "round-robin"}},
    "load-aware": {"balancing": {"policy": "load-aware"}},
    "load-aware, in flight": {
        "balancing": {"policy": "load-aware", "loadAware": {"metrics": ["named_metrics.in_flight"]}}
    },
}
"""Below `upstream`, by the name in the tables."""
