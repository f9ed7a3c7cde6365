"""Measures two kinds of requests on one CPU, and how much long requests delay short requests.

Also measures how much CPU long requests receive when short requests could use all of it.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from loadtests.bench.competitors.competitor import Subject, work_reply
from loadtests.bench.competitors.test_bed import CompetitorsBed
from loadtests.bench.experiment.generator import Generator
from loadtests.bench.experiment.plan import Row

BUSY = 0.7

OVER = 1.5

HELLO_MS = 0.02
"""Approximate time of `/hello` including the wake-up: almost nothing compared with long requests.
"""

OPEN, ALONE, SATURATED, STARVING = "open", "alone", "saturated", "starving"

SECONDS = {OPEN: 3.0, ALONE: 1.2, SATURATED: 1.8, STARVING: 2.5}

WARM_UP, BRIEFLY = 0.6, 0.5
"""Warm-up seconds before each load, for learning request costs, and seconds for measuring the cost
of short requests.
"""

CROWD = 512
"""Connections for short requests. Whenever a long request finishes, this many short requests are
waiting.
"""

SENDERS = 4

QUANTILES = {"p50": "50", "p99": "99", "p999": "99.9", "max": "100"}


@dataclass(frozen=True)
class Mix:
    name: str
    share: float
    long_ms: float
    short_ms: float = 0.0
    """0 selects `/hello`."""

    def rate(self, busy: float) -> float:
        """Requests per second that keep this share of a CPU busy."""
        mean = self.share * self.long_ms + (1 - self.share) * (self.short_ms or HELLO_MS)
        return round(1e3 * busy / mean, 1)

    def options(self, bed: CompetitorsBed) -> Mapping[str, object]:
        options = {"ops": bed.ops(self.long_ms), "work_share": self.share}
        if not self.short_ms:
            return options
        # A separate path, because servers distinguish kinds by route.
        ops = bed.ops(self.short_ms)
        file = bed.folder / f"work-{ops}"
        if not file.exists():
            file.write_bytes(work_reply(ops))
        return {**options, "page": f"/work/short?ops={ops}", "file": file}


FIRST = Mix("10% of 7 ms", 0.1, 7.0)

CROWDED = Mix("crowded", 0.0, FIRST.long_ms, 0.05)
"""Short requests that cost the server more than they cost the generator, so that one CPU can send
1.5 times the capacity.
"""

MIXES = {
    mix.name: mix
    for mix in (
        FIRST,
        Mix("2% x 20", 0.02, 20.0, 1.0),
        Mix("10% x 10", 0.1, 10.0, 1.0),
        Mix("1% x 100", 0.01, 100.0, 1.0),
    )
}


def measure(bed: CompetitorsBed, subject: Subject, number: int) -> Iterator[Row]:
    for mix in MIXES.values():
        rate, options = mix.rate(BUSY), {**mix.options(bed), "seed": number}
        yield _open(bed, subject, mix, OPEN, rate=rate, **options)
        alone = {**options, "work_share": 0.0, "rate": rate * (1 - mix.share)}
        yield _open(bed, subject, mix, ALONE, **alone)
    options = {**FIRST.options(bed), "seed": number, "rate": FIRST.rate(OVER)}
    yield _open(bed, subject, FIRST, SATURATED, **options)
    yield _starving(bed, subject, number)


def _open(bed: CompetitorsBed, subject: Subject, mix: Mix, loop: str, **options: object) -> Row:
    """Open loop: latencies are measured from a request's due time."""
    times = {"seconds": bed.plan.seconds(SECONDS[loop]), "warm_up": bed.plan.seconds(WARM_UP, 0.2)}
    row = bed.load(subject.process, "open", **times, **options)
    return {
        "of": mix.name,
        "loop": loop,
        **row,
        "requests_per_second": (row["requests"] - row["wrong"]) / row["seconds"],
        "cheap_ms": latency(row, "hello"),
        "expensive_ms": latency(row, "work"),
    }


def _starving(bed: CompetitorsBed, subject: Subject, number: int) -> Row:
    """Long requests, one at a time on a few connections, next to short requests at 1.5 times the
    CPU's capacity.
    """
    process = subject.process
    seconds, options = bed.plan.seconds(SECONDS[STARVING]), CROWDED.options(bed)
    short = {"page": options["page"], "file": options["file"]}
    times = {"seconds": bed.plan.seconds(BRIEFLY), "warm_up": bed.plan.seconds(BRIEFLY, 0.1)}
    each_us = bed.load(process, "closed", spin=True, **times, **short)["cpu_us"]
    # Based on CPU time: responses per second would also depend on other processes.
    short |= {"rate": round(OVER * 1e6 / each_us, 1), "seed": number, "cut": True}
    loads = {
        "open": {**short, "work_share": 0.0, "connections": CROWD},
        "closed": {"ops": options["ops"], "connections": SENDERS},
    }
    with ExitStack() as stack:
        program, place = bed.programs.generator, bed.beside(subject, first=True)
        cheap, dear = (
            stack.enter_context(
                Generator(
                    program, place, mode, process.address, seconds=seconds, warm_up=0.1, **load
                )
            )
            for mode, load in loads.items()
        )
        cheap.tell("")
        dear.tell("")
        found, beside = dear.answer(), cheap.answer()
    done, cheaply = (load["requests"] - load["wrong"] for load in (found, beside))
    silent = found["faults"].get("silence", 0)
    return {
        "of": FIRST.name,
        "loop": STARVING,
        "requests": found["requests"] + beside["requests"],
        "wrong": found["wrong"] + beside["wrong"],
        "offered": (beside["requests"] + beside["cut"]) * each_us / 1e6 / seconds,
        "share": done * FIRST.long_ms / 1e3 / found["seconds"],
        "expensive_per_second": done / found["seconds"],
        "expensive_ms": latency(found, "work"),
        "refused": found["wrong"] - silent,
        "unanswered": silent,
        "cheap_share": cheaply * each_us / 1e6 / beside["seconds"],
        "cheap_ms": latency(beside, "hello"),
    }


def latency(row: Row, kind: str) -> Mapping[str, float]:
    """Milliseconds by percentile; empty if no response was right."""
    found = row["latency_us"].get(kind)
    return {name: found[key] / 1e3 for name, key in QUANTILES.items()} if found else {}
