"""The figures of the published test of the same load, on its authors' machines."""

from dataclasses import dataclass

SOURCE = "Pauley, A High Concurrency HTTP Server Architecture, 2019"

REQUESTS = 30_000


@dataclass(frozen=True)
class Published:
    """One of its three modes; what it does not tell is None."""

    title: str
    seconds: float
    sd_ms: float
    p50_ms: float | None = None
    connect_p99_ms: float | None = None
    errors: int | None = None


MODES = {
    "one-lane": Published("one thread, many slots", 293.0, 2421.0),
    "one-slot": Published(
        "many threads, one slot each", 96.0, 1094.0, p50_ms=2300.0, connect_p99_ms=130.0, errors=3
    ),
    "many-many": Published("many threads, many slots", 87.1, 719.0, connect_p99_ms=6.0),
}
