"""The report of `files`."""

from collections.abc import Iterator
from statistics import median

from loadtests.bench.files.servers import CORELANE, NGINX
from loadtests.bench.machine import others
from loadtests.bench.text import spread, table

TARGET = 1.0
"""Most CPU time of Corelane, in that of nginx with its cache."""

Sample = dict
Results = dict[str, list[Sample]]


def wrong(record: dict) -> int:
    """Requests without the right answer."""
    return sum(sample["wrong"] for sample in _samples(record))


def brief(sample: Sample) -> str:
    """One measurement in a line, for who watches."""
    return (
        f"{sample['cpu_us']:.2f} µs of CPU, {sample['requests_per_second']:.0f} requests/s, "
        f"{sample['wrong']} wrong"
    )


def markdown(record: dict) -> str:
    """The whole report."""
    parts = [
        "# Static files: Corelane's server beside others",
        (
            "Written by `make bench BENCH=files`. A figure is the median of the rounds, with the lowest and "
            "the highest in brackets; a ratio is taken within each round."
        ),
        _setting(record),
        "## Reading",
        "\n".join(f"- {sentence}" for sentence in reading(record)),
    ]
    for title, results in record["results"].items():
        parts += [f"## {title}", _table(results)]
    parts += ["## How it is measured", _method(record)]
    return "\n\n".join(parts) + "\n"


def reading(record: dict) -> list[str]:
    """What the figures say, in sentences."""
    found = []
    for title, results in record["results"].items():
        if CORELANE not in results or NGINX not in results:
            continue
        ratio = _ratios(results, CORELANE, NGINX)
        met = "meets" if median(ratio) <= TARGET else "misses"
        found.append(
            f"{title}: {CORELANE} takes {spread(ratio, 2)} times the CPU of {NGINX}, which {met} the "
            f"target of {TARGET:.2f}."
        )
    shares = [sample["others_cores"] + sample["stolen_cores"] for sample in _samples(record)]
    total = sum(sample["requests"] for sample in _samples(record))
    failures = f"{wrong(record) or 'None'} of {total:,} requests got a wrong answer or none."
    return [*found, others(shares), failures]


def _table(results: Results) -> str:
    base = NGINX if NGINX in results else next(iter(results))
    head = ["", "CPU, µs/request", f"× {base}", "requests/s", "server's CPU busy"]
    order = sorted(results, key=lambda name: median(_of(results, name, "cpu_us")))
    lines = [
        [
            name,
            spread(_of(results, name, "cpu_us"), 2),
            spread(_ratios(results, name, base), 2),
            spread(_of(results, name, "requests_per_second"), 0),
            f"{median(_of(results, name, 'busy')):.2f}",
        ]
        for name in order
    ]
    return table(head, lines)


def _of(results: Results, name: str, field: str) -> list[float]:
    return [sample[field] for sample in results[name]]


def _ratios(results: Results, name: str, base: str) -> list[float]:
    pairs = zip(_of(results, name, "cpu_us"), _of(results, base, "cpu_us"), strict=True)
    return [mine / other for mine, other in pairs]


def _samples(record: dict) -> Iterator[Sample]:
    for results in record["results"].values():
        for samples in results.values():
            yield from samples


def _setting(record: dict) -> str:
    machine = record["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    rows = {
        "date": machine["date"],
        "machine": f"{machine['cpu']}, {machine['cores']} cores, {machine['kernel']}",
        "sources": machine["sources"],
        "versions": versions,
        "build": f"cargo's profile {record['profile']}; {CORELANE} with mimalloc, the others with "
        "the system's allocator",
        "rounds": str(record["plan"]["rounds"]),
    }
    return table(["", ""], [[name, text] for name, text in rows.items()])


def _method(record: dict) -> str:
    plan, (first, second) = record["plan"], record["cpus"]
    return (
        f"A closed loop on {plan['connections']} keep-alive connections, {plan['seconds']:g} s for each "
        "file of each server in a round, after a warm-up. Each server has one thread and is started "
        f"anew in each round, pinned to CPU {first}; the generator has CPU {second} and checks every "
        "byte. Within a round the servers take turns. CPU time is the CPU clock of each process "
        "(clock_getcpuclockid(3)), read with no request in flight; in loopback the sender does TCP's "
        "work of both sides.\n\n"
        "nginx has one worker and writes no log; with `open_file_cache` it looks at the disk once a "
        "second (`open_file_cache_valid 1s`), as Corelane does about twice. Corelane's server names "
        "its replica and lane in each reply, counts and times each request; the others do not."
    )
