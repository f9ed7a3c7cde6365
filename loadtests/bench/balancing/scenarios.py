"""What happens to the replicas, and under which load."""

from dataclasses import dataclass

SERVICE_MS = 10.0
"""Mean time that a request holds a replica's lane."""

SLO_MS = 10 * SERVICE_MS

SLOW = 20
"""How much longer a slow request takes than a fast one, where there are both."""

SLOW_SHARE = 0.05

REFERENCE = 70
"""The load at which every policy is measured, whether or not it can carry it."""

WARM_UP = 1.0

CLIMB = (50, 60, 70, 80, 90)


@dataclass(frozen=True)
class Event:
    """At a time in seconds, a command for one replica: a line, or `stop` and `start`."""

    at: float
    line: str


@dataclass(frozen=True)
class Scenario:
    """One kind of load or trouble; it is the last replica that has the trouble."""

    name: str
    title: str
    seconds: float = 7.0
    """Measured, after the warm-up."""
    speed: float = 1.0
    mixed: bool = False
    events: tuple[Event, ...] = ()
    over: float = 0.0
    """From when recovery counts: the end of the trouble, or its begin where the policy must end it."""
    ladder: tuple[float, ...] = ()
    """Offered loads, in percent of what the replicas could do together at full speed."""
    load: float | None = None
    """The load where there is no ladder."""
    seeds: int = 2
    """How many are measured at the most; three where it decides."""
    of_others: bool = False
    """Whether `load` counts without the last replica."""

    @property
    def service_ms(self) -> tuple[float, float]:
        """How long `/hello` and `/work` take; their mean is SERVICE_MS."""
        if not self.mixed:
            return SERVICE_MS, SERVICE_MS
        fast = SERVICE_MS / (1 - SLOW_SHARE + SLOW_SHARE * SLOW)
        return fast, fast * SLOW


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("homogeneous", "All replicas alike", ladder=(70, 80, 90, 95)),
        Scenario(
            "half", "One replica with half the capacity", speed=0.5, ladder=(40, *CLIMB), seeds=3
        ),
        Scenario(
            "antagonist",
            "One replica preempted to 0.4 half of the time",
            seconds=8.0,
            events=(Event(1.0, "speed 0.4"), Event(5.0, "speed 1")),
            over=5.0,
            ladder=(30, 40, *CLIMB),
            seeds=3,
        ),
        Scenario(
            "mixed", "5% of the requests 20 times as long", mixed=True, ladder=(30, 40, *CLIMB)
        ),
        Scenario(
            "joining",
            "A replica joins an overloaded fleet",
            seconds=9.0,
            events=(Event(3.0, "start"),),
            over=3.0,
            load=110,
            of_others=True,
        ),
        Scenario(
            "failing",
            "A replica fails fast for 5 s",
            seconds=11.0,
            events=(Event(3.0, "fail 1"), Event(8.0, "fail 0")),
            over=3.0,
            load=60,
        ),
    )
}


def rate(scenario: Scenario, load: float, replicas: int) -> float:
    """Requests per second of a load in percent."""
    counted = replicas - 1 if scenario.of_others else replicas
    return load / 100 * counted * 1000 / SERVICE_MS


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
