"""The courses: how the load changes, as a multiple of its lowest rate."""

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, pi

MINUTE = 60


@dataclass(frozen=True)
class Course:
    """What happens, and what it is judged by."""

    name: str
    about: str
    minutes: int
    peak: float
    """The highest multiple; the fleet's size is what carries it."""
    factor: Callable[[float], float]
    """The multiple at a time in minutes."""
    dear: Callable[[float], bool] = lambda _: False
    """Whether the expensive mix is there."""
    slow: Callable[[float], bool] = lambda _: False
    """Whether a tenth of the replicas has half its speed."""
    blind: Callable[[float], bool] = lambda _: False
    """Whether no metric reaches the autoscaler."""
    target: float = 0.0
    """Least share of the requests in time; 0 for none."""

    @property
    def seconds(self) -> int:
        """Its length."""
        return self.minutes * MINUTE


def line(*points: tuple[float, float]) -> Callable[[float], float]:
    """Straight lines between (minute, multiple)."""

    def at(minute: float) -> float:
        before = points[0]
        for after in points[1:]:
            if minute < after[0]:
                share = (minute - before[0]) / (after[0] - before[0])
                return before[1] + share * (after[1] - before[1])
            before = after
        return before[1]

    return at


def between(first: float, last: float) -> Callable[[float], bool]:
    """Whether a minute is among these."""
    return lambda minute: first <= minute < last


def steady(_: float) -> float:
    """Always the same."""
    return 1.0


COURSES = (
    Course("steady", "the same rate", 60, 1, steady),
    Course(
        "ramp",
        "1 to 5 × in 10 min, and back in 10 min",
        40,
        5,
        line((0, 1), (5, 1), (15, 5), (25, 5), (35, 1), (40, 1)),
        target=0.995,
    ),
    Course(
        "step",
        "3 × at once, for 25 min",
        40,
        3,
        line((0, 1), (5, 1), (5, 3), (30, 3), (30, 1), (40, 1)),
        target=0.97,
    ),
    Course(
        "sawtooth",
        "six times 1 to 3 × in 5 min, and back at once",
        35,
        3,
        lambda minute: 1 + 2 * (minute % 5) / 5 if minute >= 5 else 1.0,
        target=0.995,
    ),
    Course(
        "night",
        "a wave of 6 h between 1 and 5 ×, four times as steep as a day's",
        6 * 60,
        5,
        lambda minute: 3 - 2 * cos(2 * pi * minute / (6 * 60)),
    ),
    Course(
        "flash",
        "10 × for 30 s",
        20,
        10,
        line((0, 1), (5, 1), (5, 10), (5.5, 10), (5.5, 1), (20, 1)),
    ),
    Course(
        "mix",
        "the same rate, twice as many expensive requests",
        30,
        2,
        steady,
        dear=between(5, 30),
        target=0.995,
    ),
    Course(
        "slow",
        "a tenth of the replicas at half their speed for 15 min",
        30,
        1,
        steady,
        slow=between(5, 20),
    ),
    Course(
        "blind",
        "no metrics for 5 min, in which the load grows by half",
        25,
        1.5,
        line((0, 1), (5, 1), (10, 1.5), (25, 1.5)),
        blind=between(5, 10),
    ),
)
