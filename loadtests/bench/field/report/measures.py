"""What is measured, where a record has it, and how it is told."""

from dataclasses import dataclass, replace

OWN = "own cost"
"""What the server itself takes: CPU time, throughput from one CPU, memory, start, size."""

LATENCY = "latency"

Sample = dict


@dataclass(frozen=True)
class Measure:
    """One quantity of a sample."""

    key: str
    title: str
    unit: str
    digits: int
    path: tuple[str, ...]
    """Where a sample has it."""
    kind: str = LATENCY
    more_is_better: bool = False
    scale: float = 1.0
    """Of the unit in the record's."""

    @property
    def head(self) -> str:
        """The head of its column."""
        return f"{self.title}, {self.unit}" if self.unit else self.title

    def of(self, sample: Sample) -> float | None:
        """Its value; None where the sample has none."""
        found = sample
        for name in self.path:
            if not isinstance(found, dict) or found.get(name) is None:
                return None
            found = found[name]
        return found * self.scale


def _latencies(
    path: tuple[str, ...], before: str = "", key: str = "", digits: int = 2
) -> tuple[Measure, ...]:
    names = {"p50": "p50", "p99": "p99", "p999": "p99.9", "max": "max"}
    return tuple(
        Measure(key + name, before + title, "ms", digits, (*path, name))
        for name, title in names.items()
    )


CPU = Measure("cpu", "CPU per request", "µs", 2, ("closed", "cpu_us"), OWN)
RATE = Measure("rate", "requests/s", "", 0, ("closed", "requests_per_second"), OWN, True)
THOUSANDS = replace(RATE, title="1,000 requests/s", digits=1, scale=1e-3)
"""Where there is little room."""

BUSY = Measure("busy", "CPU busy", "", 2, ("closed", "busy"))
OPEN_RATE = Measure("open_rate", "rate", "", 0, ("open", "rate"))
OPEN_BUSY = Measure("open_busy", "CPU busy", "", 2, ("open", "busy"))
OPEN = _latencies(("open", "latency_ms"))
P99 = OPEN[1]
CELLS = (CPU, RATE, *OPEN)

DATABASE = Measure("database", "database's CPU", "µs", 1, ("closed", "database_us"))
LOAD = Measure("load", "load p99", "ms", 2, ("open", "kinds", "load", "p99"))
SAVE = Measure("save", "save p99", "ms", 2, ("open", "kinds", "save", "p99"))
"""Of `projects` alone."""

FAST = _latencies(("fast",), "brief ", "fast_")
SLOW = _latencies(("slow",), "dear ", "slow_")
MIXED = (*FAST, *SLOW)

START = Measure("start", "start to first reply", "ms", 1, ("start_ms",), OWN)
RESIDENT = Measure(
    "resident", "resident when idle", "MiB", 1, ("resident_kib",), OWN, scale=1 / 1024
)
CONNECTION = Measure("connection", "idle connection", "KiB", 2, ("kib_per_connection",), OWN)
IDLE = (START, RESIDENT, CONNECTION)

PROGRAM = Measure("program", "program", "MB", 1, ("program_bytes",), OWN, scale=1e-6)
RUNTIME = Measure("runtime", "what it runs on", "MB", 1, ("runtime_bytes",), OWN, scale=1e-6)
TOTAL = Measure("installed", "installed", "MB", 1, ("total_bytes",), OWN, scale=1e-6)

C10K_RATE = Measure("rate", "requests/s", "", 0, ("requests_per_second",), OWN, True)
C10K = (C10K_RATE, *_latencies(("latency_ms",), digits=0))

PROXY_CPU = Measure("cpu", "CPU per request", "µs", 2, ("cpu_us",), OWN)
PROXY_RATE = Measure("rate", "requests/s", "", 0, ("requests_per_second",), OWN, True)
PROXY_CPU_AT_RATE = Measure("cpu_at_rate", "CPU at the rate", "µs", 2, ("cpu_us_at_rate",), OWN)
PROXIES = (PROXY_CPU, PROXY_RATE, PROXY_CPU_AT_RATE, *_latencies(("latency_ms",)))
