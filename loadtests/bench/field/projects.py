"""Projects on PostgreSQL: users load and save theirs, and check every byte."""

import contextlib
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from loadtests.bench.experiment.generator import Generator
from loadtests.bench.experiment.measurement import cpu_of
from loadtests.bench.field import warm
from loadtests.bench.field.bench import Bench, Seconds
from loadtests.bench.field.contender import Contender
from loadtests.bench.field.measures import Sample, counted, latency
from loadtests.bench.field.running import Database, Running, placed
from loadtests.bench.mixed.databases import Databases, Postgres, databases
from loadtests.bench.mixed.stack import PAGE, TOKEN

USERS = 64
TURNS = 10
"""Loads and saves of each user in the closed loop."""

KINDS = ("load", "save")
RATE = 300.0
"""Requests per second of the open loop, half of them saves, each of which is made durable."""


@dataclass
class Store:
    """A PostgreSQL on the CPU of the load, with a database for each contender."""

    postgres: Postgres
    folder: Path
    databases: int = 0
    used: dict[int, float] = field(default_factory=dict)

    @property
    def token_file(self) -> Path:
        """The token of who may write."""
        return self.folder / "token"

    def fresh(self) -> Database:
        """One more database."""
        self.databases += 1
        url = self.postgres.another(f"field_{self.databases}")
        password = self.postgres.running.password_file.read_text().strip()
        self.token_file.write_text(TOKEN)
        return Database(url.replace("@", f":{password}@", 1), self.token_file)

    def cpu_seconds(self) -> float:
        """CPU time of its processes, those that served a connection which has ended included."""
        self.used |= self.postgres.cpu_seconds()
        return sum(self.used.values())


@contextlib.contextmanager
def store(bench: Bench) -> Iterator[Store]:
    """Starts it on the CPU that the server does not have."""
    with (
        databases() as found,
        tempfile.TemporaryDirectory(prefix="bench-field-") as folder,
    ):
        yield Store(_postgres(found, bench), Path(folder))


def _postgres(found: Databases, bench: Bench) -> Postgres:
    with placed([bench.cpus[1]]):
        return found["postgres"]


def cell(
    bench: Bench,
    process: Running,
    contender: Contender,
    kept: Store,
    number: int,
    seconds: Seconds,
) -> Sample:
    """As fast as the users can, and then at a rate."""
    options = {"users": USERS, "page": PAGE, "token": kept.token_file, "seed": number}
    kept.postgres.checkpoint()
    place = bench.place()
    with Generator(bench.generator, place, "users", process.address, **options) as load:
        asked = json.dumps({"loop": "closed", "kinds": KINDS, "rounds": TURNS})
        _warm_up(load, asked, seconds.warm_up * contender.warm_up)
        closed = _closed(process, contender, kept, load, asked, seconds.settling)
        load.go_first()
        return {"closed": closed, "open": _open(process, kept, load, number, seconds.projects)}


def _warm_up(load: Generator, asked: str, seconds: float) -> None:
    begun = time.monotonic()
    while True:
        load.measure(asked)
        if time.monotonic() - begun >= seconds:
            return


def _closed(
    process: Running,
    contender: Contender,
    kept: Store,
    load: Generator,
    asked: str,
    settling: float,
) -> Sample:
    def measure() -> tuple[float, Sample]:
        before = kept.cpu_seconds()
        used, result = cpu_of(process, load, [kept], asked)
        return used, {**result, "database": kept.cpu_seconds() - before}

    used, result = warm.measured(process, contender, settling, measure)
    sample = counted(used, {**result, "wrong": result["errors"]})
    return {**sample, "database_us": result["database"] / result["requests"] * 1e6}


def _open(process: Running, kept: Store, load: Generator, number: int, seconds: float) -> Sample:
    part = {"loop": "open", "kinds": KINDS, "rate": RATE, "seconds": seconds, "seed": number}
    used, result = cpu_of(process, load, [kept], json.dumps(part))
    every = result["latency_ms"]["all"]
    return {
        "rate": RATE,
        "requests": result["requests"],
        "wrong": result["errors"],
        "seconds": result["seconds"],
        "latency_ms": latency(every, 1),
        "kinds": {kind: latency(result["latency_ms"].get(kind), 1) for kind in KINDS},
        "percentiles": _curve(every),
        "lag_us": result["lag_ms"].get("99", 0.0) * 1e3,
        "busy": used / result["seconds"],
        "others_cores": result["others_cores"] + result["stolen_cores"],
    }


def _curve(found: dict) -> list[list[float]]:
    """Percentiles that so many requests can tell apart, as the load generator's own curves."""
    numbers = [(float(name), ms) for name, ms in found.items() if name[0].isdigit()]
    return [
        [percent, ms]
        for percent, ms in sorted(numbers)
        if percent == 100 or (100 - percent) * found["count"] >= 100
    ]
