"""The report of `lanes`: a table for each row, and a reading that follows from the figures."""

from collections.abc import Callable, Iterator
from statistics import median

from loadtests.bench.experiment.servers import CORELANE
from loadtests.bench.lanes import tables
from loadtests.bench.machine import others
from loadtests.bench.text import spread, table

FLOOR = "floor"

TARGET_CPU = 1.10
"""Most CPU time per request, in that of the floor."""

TARGET_KIB = 12.0
"""Most resident memory of an idle connection."""

Sample = dict
Row = dict[str, list[Sample]]


def wrong(record: dict) -> int:
    """Requests without the right answer, in all rows and rounds."""
    return sum(sample["wrong"] for sample in _measured(record))


def markdown(record: dict) -> str:
    """The whole report."""
    parts = [
        "# Corelane's server beside its peers",
        (
            "Written by `make bench BENCH=lanes`. A figure is the median of the rounds, with the lowest and "
            "the highest in brackets."
        ),
        _setting(record),
        "## Reading",
        "\n".join(f"- {sentence}" for sentence in reading(record)),
    ]
    for row, results in record["results"].items():
        parts += [f"## {tables.TITLES[row]}", tables.METHODS[row](record)]
        parts += tables.TABLES[row](results)
    parts += ["## How it is measured", _method(record)]
    return "\n\n".join(parts) + "\n"


def brief(row: str, sample: Sample) -> str:
    """One measurement in a line, for who watches."""
    if row == "cpu":
        text = f"{sample['cpu_us']:.2f} µs of CPU, {sample['requests_per_second']:.0f} requests/s"
    elif row == "memory":
        text = f"{sample['kib_per_connection']:.1f} KiB"
    elif row == "few":
        rates = (f"{count}: {part['requests_per_second']:.0f}" for count, part in sample.items())
        return f"requests/s with {', '.join(rates)} connections"
    else:
        fast, slow = (tables.latency(kind, "99")(sample) for kind in ("hello", "work"))
        text = f"p99 {fast:.2f} ms fast, {slow:.2f} ms slow"
    return f"{text}, {sample['wrong']} wrong"


def reading(record: dict) -> list[str]:
    """What the figures say, in sentences."""
    results = record["results"]
    sentences = [
        sentence
        for row, tell in _READINGS.items()
        if row in results and (sentence := tell(results[row]))
    ]
    return [*sentences, _disturbance(record), _failures(record)]


def _read_cpu(row: Row) -> str:
    if CORELANE not in row or FLOOR not in row:
        return ""
    ratios = tables.ratios(row, CORELANE, FLOOR, tables.cpu_us)
    met = "meets" if median(ratios) <= TARGET_CPU else "misses"
    mine = _median(row, CORELANE, tables.cpu_us)
    cheaper = [
        n for n in row if n not in (CORELANE, FLOOR) and _median(row, n, tables.cpu_us) < mine
    ]
    return (
        f"CPU per request: {CORELANE} takes {spread(ratios, 2)} times the floor, which {met} the "
        f"target of {TARGET_CPU:.2f}. Cheaper are {', '.join(cheaper) or 'none of the peers'}."
    )


def _read_mixed_one(row: Row) -> str:
    return _read_mixed("Mixed load on one CPU", row)


def _read_mixed_two(row: Row) -> str:
    return _read_mixed("Mixed load on two CPUs", row)


def _read_mixed(title: str, row: Row) -> str:
    fast, slow = tables.latency("hello", "99"), tables.latency("work", "99")
    order = sorted(row, key=lambda name: _median(row, name, fast))
    told = ", ".join(f"{name} {_median(row, name, fast):.1f}" for name in order)
    least = min(row, key=lambda name: _median(row, name, slow))
    return (
        f"{title}, p99 of the fast requests in ms: {told}. "
        f"The slow ones have their lowest p99, {_median(row, least, slow):.1f} ms, with {least}."
    )


def _read_few(row: Row) -> str:
    sentences = []
    for count in next(iter(row.values()))[0]:
        rate = tables.part(count, tables.rate)
        order = sorted(row, key=lambda name, rate=rate: -_median(row, name, rate))
        told = ", ".join(f"{name} {_median(row, name, rate):,.0f}" for name in order)
        sentences.append(f"{count} connections on two CPUs, requests/s: {told}.")
    return " ".join(sentences)


def _read_memory(row: Row) -> str:
    order = sorted(row, key=lambda name: _median(row, name, tables.kib))
    told = ", ".join(f"{name} {_median(row, name, tables.kib):.1f}" for name in order)
    sentence = f"KiB of an idle connection: {told}."
    if CORELANE in row:
        met = "meets" if _median(row, CORELANE, tables.kib) <= TARGET_KIB else "misses"
        sentence += f" {CORELANE} {met} the target of {TARGET_KIB:.0f}."
    return sentence


_READINGS: dict[str, Callable[[Row], str]] = {
    "cpu": _read_cpu,
    "mixed-one": _read_mixed_one,
    "mixed-two": _read_mixed_two,
    "few": _read_few,
    "memory": _read_memory,
}


def _median(row: Row, name: str, quantity: tables.Quantity) -> float:
    return median(map(quantity, row[name]))


def _disturbance(record: dict) -> str:
    samples = [sample for sample in _measured(record) if "others_cores" in sample]
    if not samples:
        return "What other processes took was not measured."
    shares = [sample["others_cores"] + sample["stolen_cores"] for sample in samples]
    return others(shares)


def _failures(record: dict) -> str:
    total = sum(sample["requests"] for sample in _measured(record))
    return f"{wrong(record) or 'None'} of {total:,} requests got a wrong answer or none."


def _measured(record: dict) -> Iterator[Sample]:
    """Every run of the generator; a sample of `few` holds several."""
    for row, results in record["results"].items():
        for samples in results.values():
            for sample in samples:
                yield from sample.values() if row == "few" else [sample]


def _setting(record: dict) -> str:
    machine, load = record["machine"], record["load_average"]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    rows = {
        "date": machine["date"],
        "machine": f"{machine['cpu']}, {machine['cores']} cores, {machine['kernel']}",
        "sources": machine["sources"],
        "versions": versions,
        "build": f"cargo's profile {record['profile']}; {CORELANE} and the frameworks with mimalloc, the others with "
        "the system's allocator",
        "rounds": str(record["plan"]["rounds"]),
        "load average": f"{_load(load['before'])} before, {_load(load['after'])} after",
    }
    return table(["", ""], [[name, text] for name, text in rows.items()])


def _load(averages: list[float]) -> str:
    return " ".join(f"{average:.2f}" for average in averages)


def _method(record: dict) -> str:
    first, second = record["cpus"]
    return (
        f"Each measurement starts its server anew, pinned with taskset: to CPU {first}, with the "
        f"generator on CPU {second}, or to both. The servers of a row take turns within a round, "
        "and ratios are taken within the round, so that a slow phase of the machine meets all. The "
        "generator (`loadtests/bench/generator`) has one thread, checks every status and body, "
        "and warms the server up with the same load; the counters are read before the first and "
        "after the last measured request, with none in flight.\n\n"
        "CPU time is the CPU clock of each process (clock_getcpuclockid(3)): nanoseconds, as in "
        "/proc/PID/task/*/schedstat, and with the threads that have ended. The schedstat of the "
        "threads that live is beside it as a check. In loopback the sender's CPU does the TCP work "
        "of both sides, for every server alike.\n\n"
        "Open loop: the arrivals are Poisson, seeded with the number of the round, so every server "
        "of a round gets the same trace. A request takes the connection that has been free for "
        "longest, or waits in the generator when none is; its latency counts from when it was due."
    )
