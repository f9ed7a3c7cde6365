"""The balancing policies, and the shapes and scenarios of the measurements."""

DEFAULT = "least-request"
KEEPING = "least-request, no ejection"

DIRECT = "direct"

HELD = "least-request, held lanes"
DIRECT_HELD = "direct, held lanes"

POLICIES: dict[str, dict] = {
    DEFAULT: {"balancing": {"policy": "least-request"}},
    "least-request-p2c": {"balancing": {"policy": "least-request-p2c"}},
    "round-robin": {"balancing": {"policy": "round-robin"}},
    "load-aware": {"balancing": {"policy": "load-aware"}},
    KEEPING: {
        "balancing": {"policy": "least-request"},
        "outliers": {"failurePercent": 0},
    },
    HELD: {"balancing": {"policy": "least-request"}},
}

WITHOUT_SLOW_LANES = (HELD, DIRECT_HELD)

ONLY = {KEEPING: ("failing",), HELD: ("mixed",), DIRECT_HELD: ("mixed",)}

LARGE = 30
"""With this many gateway-replica pairs or more, a small machine can run only a few policies."""

STEADY = ("homogeneous", "half", "mixed")


def is_large(replicas: int, gateways: int) -> bool:
    """Whether a small machine can run only a few policies of this shape."""
    return replicas * gateways >= LARGE


def policies(replicas: int, gateways: int) -> dict[str, dict]:
    if not gateways:
        return {DIRECT: {}, DIRECT_HELD: {}}
    if not is_large(replicas, gateways):
        return POLICIES
    return {name: POLICIES[name] for name in (DEFAULT, HELD)}


def fits(scenario: str, replicas: int, gateways: int) -> bool:
    if not gateways:
        return scenario == "mixed"
    return not is_large(replicas, gateways) or scenario in STEADY
