"""Request mixes, each with its own lane count and limit."""

from dataclasses import dataclass

KINDS = ("page", "load", "save")

USERS = 256


@dataclass(frozen=True)
class Cell:
    name: str
    mix: str
    works: tuple[tuple[float, float], ...] = ()
    """Milliseconds of `/work` and the share of requests that take this long; the others are
    `/hello`.
    """
    lanes: int = 1
    slots: int = 0
    """Slots per lane; 0 selects the server's default."""
    wait_ms: tuple[int, int] = (0, 0)
    """Time that each `/work` waits without occupying its lane: minimum, and maximum random
    addition.
    """
    low: float = 0.0
    """Requests per second of the calibration; 0 derives the rate from the works."""
    seconds: float = 6.0
    """Length of the open loop that measures the p99."""
    connections: int = 64

    @property
    def projects(self) -> bool:
        return self.mix == "projects"

    @property
    def limit(self) -> str:
        return f"{self.slots} slots" if self.slots else "lanes"

    def calibration_rate(self) -> float:
        """A low load: a sixth of the capacity that lanes or slots would have if handlers were the
        only cost.
        """
        if self.low:
            return self.low
        lane = sum(ms * share for ms, share in self.works) / 1e3
        most = self.lanes / lane
        if self.slots:
            held = lane + (self.wait_ms[0] + self.wait_ms[1] / 2) / 1e3
            most = min(most, self.lanes * self.slots / held)
        return most / 6


CELLS = (
    Cell("hello", "`/hello` alone", low=18000.0, seconds=2.0),
    Cell("work", "1 ms of work", works=((1.0, 1.0),), seconds=5.0),
    Cell("mixed", "90% `/hello`, 10% 7 ms of work", works=((7.0, 0.1),), seconds=8.0),
    Cell(
        "sizes",
        "three sizes of work: 60% 0.5 ms, 30% 1.5 ms, 10% 5 ms",
        works=((0.5, 0.6), (1.5, 0.3), (5.0, 0.1)),
        seconds=7.0,
    ),
    Cell("projects", "projects", low=4500.0, seconds=2.0, connections=USERS),
    Cell(
        "slots",
        "0.2 ms of work, then a 4 to 8 ms wait",
        works=((0.2, 1.0),),
        slots=4,
        wait_ms=(4, 4),
        seconds=7.0,
    ),
    # Hashed, because with this many connections the lanes are even.
    Cell(
        "work-two",
        "2 ms of work",
        works=((2.0, 1.0),),
        lanes=2,
        seconds=6.0,
        connections=512,
    ),
    Cell(
        "sizes-two",
        "three sizes of work: 60% 1 ms, 30% 3 ms, 10% 10 ms",
        works=((1.0, 0.6), (3.0, 0.3), (10.0, 0.1)),
        lanes=2,
        seconds=8.0,
        connections=512,
    ),
    Cell(
        "mixed-two",
        "90% `/hello`, 10% 14 ms of work",
        works=((14.0, 0.1),),
        lanes=2,
        seconds=8.0,
        connections=512,
    ),
)
"""Each work takes longer on two lanes, because the generator shares one of their CPUs and should
use little of it.
"""


USED = 0.7
"""Load for the p99 comparison, as a share of the predicted knee."""
