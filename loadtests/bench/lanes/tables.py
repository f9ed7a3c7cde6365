"""The tables of the report of `lanes`, one function for each row."""

from collections.abc import Callable
from statistics import median

from loadtests.bench.text import spread, table

Sample = dict
Row = dict[str, list[Sample]]
Quantity = Callable[[Sample], float]

TITLES = {
    "cpu": "CPU per request",
    "mixed-one": "Mixed load on one CPU",
    "mixed-two": "Mixed load on two CPUs",
    "few": "Few connections on two CPUs",
    "memory": "Memory of idle connections",
}


def cpu_us(sample: Sample) -> float:
    """CPU time per request in microseconds."""
    return sample["cpu_us"]


def rate(sample: Sample) -> float:
    """Requests per second."""
    return sample["requests_per_second"]


def kib(sample: Sample) -> float:
    """KiB of resident memory of each connection."""
    return sample["kib_per_connection"]


def latency(kind: str, percentile: str) -> Quantity:
    """A percentile of a kind of request in milliseconds."""
    return lambda sample: sample["latency_us"][kind][percentile] / 1e3


def part(name: str, quantity: Quantity) -> Quantity:
    """A quantity of one part of a sample that has several."""
    return lambda sample: quantity(sample[name])


def field(name: str) -> Quantity:
    """A field of a sample."""
    return lambda sample: sample[name]


def ratios(row: Row, name: str, base: str, quantity: Quantity) -> list[float]:
    """The quantity of one server in that of another, round by round."""
    pairs = zip(row[name], row[base], strict=True)
    return [quantity(sample) / quantity(other) for sample, other in pairs]


def _cpu(row: Row) -> list[str]:
    base = "floor" if "floor" in row else next(iter(row))
    head = ["", "CPU, µs/request", f"× {base}", "by threads, µs", "requests/s", "server's CPU busy"]
    lines = [
        [
            name,
            spread([*map(cpu_us, samples)], 2),
            spread(ratios(row, name, base, cpu_us), 2),
            f"{median(map(field('cpu_us_by_threads'), samples)):.2f}",
            spread([*map(rate, samples)], 0),
            f"{median(map(field('busy'), samples)):.2f}",
        ]
        for name, samples in _ordered(row, cpu_us)
    ]
    generator = [sample["generator_us"] for samples in row.values() for sample in samples]
    return [
        table([*head], lines),
        (
            f"The generator took {spread(generator, 2)} µs of its own CPU per request. Where the "
            "server's CPU is not busy, the generator was the limit, and waking up is part of the cost."
        ),
    ]


def _mixed(row: Row) -> list[str]:
    columns = {
        "fast p50, ms": latency("hello", "50"),
        "fast p99, ms": latency("hello", "99"),
        "fast p99.9, ms": latency("hello", "99.9"),
        "slow least, ms": latency("work", "0"),
        "slow p50, ms": latency("work", "50"),
        "slow p99, ms": latency("work", "99"),
        "slow p99.9, ms": latency("work", "99.9"),
    }
    base = next(iter(row))
    head = ["", *columns, f"fast p99, × {base}", "busy"]
    lines = [
        [
            name,
            *(spread([*map(quantity, samples)], 2) for quantity in columns.values()),
            spread(ratios(row, name, base, columns["fast p99, ms"]), 2),
            f"{median(map(field('busy'), samples)):.2f}",
        ]
        for name, samples in _ordered(row, columns["fast p99, ms"])
    ]
    samples = [sample for samples in row.values() for sample in samples]
    lag = [sample["lag_us"]["99"] for sample in samples]
    queued = sum(sample["queued"] for sample in samples)
    total = sum(sample["requests"] for sample in samples)
    return [
        table(head, lines),
        (
            f"The generator's own lag was {spread(lag, 0)} µs at p99; {queued:,} of {total:,} requests "
            "waited for a free connection."
        ),
    ]


def _few(row: Row) -> list[str]:
    tables = []
    base = list(row)[-1]
    for count in next(iter(row.values()))[0]:
        head = [f"{count} connections", "requests/s", f"× {base}", "p99, ms"]
        head += ["busiest lane's share", "busiest thread's share of CPU"]
        quantity = part(count, rate)
        lines = [
            [
                name,
                spread([*map(quantity, samples)], 0),
                spread(ratios(row, name, base, quantity), 2),
                spread([*map(part(count, latency("work", "99")), samples)], 2),
                _greatest(samples, count, "lane_shares"),
                _greatest(samples, count, "thread_shares"),
            ]
            for name, samples in row.items()
        ]
        tables.append(table(head, lines))
    return tables


def _greatest(samples: list[Sample], count: str, key: str) -> str:
    shares = [sample[count][key] for sample in samples]
    return spread([share[0] for share in shares], 2) if all(shares) else "–"


def _memory(row: Row) -> list[str]:
    lines = [
        [
            name,
            spread([*map(kib, samples)], 2),
            f"{median(map(field('kib_before'), samples)) / 1024:.1f}",
        ]
        for name, samples in _ordered(row, kib)
    ]
    return [table(["", "KiB per connection", "MiB before"], lines)]


def _ordered(row: Row, quantity: Quantity) -> list[tuple[str, list[Sample]]]:
    """The servers, the least quantity first."""
    return sorted(row.items(), key=lambda item: median(map(quantity, item[1])))


TABLES: dict[str, Callable[[Row], list[str]]] = {
    "cpu": _cpu,
    "mixed-one": _mixed,
    "mixed-two": _mixed,
    "few": _few,
    "memory": _memory,
}


def _method_cpu(record: dict) -> str:
    return (
        "`GET /hello` in a closed loop on 64 keep-alive connections, "
        f"{record['plan']['seconds']['cpu']:g} s a round after a warm-up. The floor is one epoll "
        "loop that reads, looks for the end of the head and writes a fixed reply as long as "
        "Corelane's."
    )


def _mix(record: dict, row: str) -> str:
    work, results = record["work"], record["results"][row]
    sample = next(iter(results.values()))[0]
    return (
        "Open loop on 64 keep-alive connections: 90% `/hello`, 10% `/work` of "
        f"{round(work['ops_per_ms'] * 7):,} iterations, which take 7 ms alone (what the "
        "least of the slow ones shows for each server); "
        f"{sample['rate']:,.0f} requests/s for {record['plan']['seconds'][row]:g} s a round, "
    )


def _method_one(record: dict) -> str:
    return (
        _mix(record, "mixed-one") + "a third of what keeps one CPU busy. Each server has one CPU "
        f"and one lane or thread. The generator has the other CPU, {_priority(record)}."
    )


def _method_two(record: dict) -> str:
    return (
        _mix(record, "mixed-two") + "60% of what keeps two CPUs busy. Each server has both CPUs "
        "and two lanes or threads, axum on tokio's multi-thread runtime. The generator shares the "
        f"CPUs, {_priority(record)}; it is the same for all."
    )


def _priority(record: dict) -> str:
    if record["generator_first"]:
        return "ahead of every other process (SCHED_FIFO), so that its own lag stays small"
    return "with the priority of any other process"


def _method_few(record: dict) -> str:
    return (
        "Closed loop, each request `/work` of 0.2 ms, on few connections that live for the whole "
        f"measurement ({record['plan']['seconds']['few']:g} s a round). Two lanes or threads on "
        "two CPUs, which the generator shares. A share of 0.50 is an even spread. The lane's share "
        "counts requests (`corelane-lane`), the thread's its CPU time."
    )


def _method_memory(_record: dict) -> str:
    return (
        "10,000 keep-alive connections, each after one `/hello`: the growth of the resident memory "
        "of the server's processes from 1 to 10,000 connections. Sockets in the kernel are not in "
        "it."
    )


METHODS: dict[str, Callable[[dict], str]] = {
    "cpu": _method_cpu,
    "mixed-one": _method_one,
    "mixed-two": _method_two,
    "few": _method_few,
    "memory": _method_memory,
}
