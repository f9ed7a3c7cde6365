"""The balancing policies, and the shapes and scenarios in which they are measured."""

DEFAULT = "least-request"
KEEPING = "least-request, no ejection"

DIRECT = "direct"
"""No gateway: the capacity of one replica's lanes."""

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
"""Values below `upstream`, by the name in the tables."""

WITHOUT_SLOW_LANES = (HELD, DIRECT_HELD)
"""Policies whose replicas have no slow lanes."""

ONLY = {KEEPING: ("failing",), HELD: ("mixed",), DIRECT_HELD: ("mixed",)}
"""Policies that are measured only in some scenarios."""

LARGE = 30
"""Number of gateway-replica pairs from which a small machine can run only few policies."""

STEADY = ("homogeneous", "half", "mixed")
"""The scenarios of large shapes."""


def is_large(replicas: int, gateways: int) -> bool:
    """Whether a small machine can run only few policies of this shape."""
    return replicas * gateways >= LARGE


def policies(replicas: int, gateways: int) -> dict[str, dict]:
    """Returns the policies with which a shape is measured."""
    if not gateways:
        return {DIRECT: {}, DIRECT_HELD: {}}
    if not is_large(replicas, gateways):
        return POLICIES
    return {name: POLICIES[name] for name in (DEFAULT, HELD)}


def fits(scenario: str, replicas: int, gateways: int) -> bool:
    """Whether a shape is measured in a scenario."""
    if not gateways:
        return scenario == "mixed"
    return not is_large(replicas, gateways) or scenario in STEADY
