"""The balancing policies, and which shapes and scenarios they are measured with."""

DEFAULT = "least-request"
KEEPING = "least-request, no ejection"

DIRECT = "direct"
"""No gateway: what the lanes of one replica carry."""

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
"""Below `upstream`, by the name in the tables."""

WITHOUT_SLOW_LANES = (HELD, DIRECT_HELD)
"""Their replicas have no slow lanes."""

ONLY = {KEEPING: ("failing",), HELD: ("mixed",), DIRECT_HELD: ("mixed",)}
"""What is measured in some scenarios alone."""

LARGE = 30
"""Pairs of a gateway and a replica from which on a small machine has room for few policies."""

STEADY = ("homogeneous", "half", "mixed")
"""The scenarios of large shapes."""


def is_large(replicas: int, gateways: int) -> bool:
    """Whether a small machine has room for few policies only."""
    return replicas * gateways >= LARGE


def policies(replicas: int, gateways: int) -> dict[str, dict]:
    """Those that a shape is measured with."""
    if not gateways:
        return {DIRECT: {}, DIRECT_HELD: {}}
    if not is_large(replicas, gateways):
        return POLICIES
    return {name: POLICIES[name] for name in (DEFAULT, HELD)}


def fits(scenario: str, replicas: int, gateways: int) -> bool:
    """Whether a shape is measured with a scenario."""
    if not gateways:
        return scenario == "mixed"
    return not is_large(replicas, gateways) or scenario in STEADY
