"""The tables of the report, and the figures that its sentences take from the samples."""

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from loadtests.bench.text import spread, table
from loadtests.bench.threads import backlog, company, offline, published, reuse
from loadtests.bench.threads.matrix import Cell, cells
from loadtests.bench.threads.offline import LINE_NS, Queue
from loadtests.bench.threads.shapes import ONE, SHAPES, Shape

Sample = dict


def short(count: int) -> str:
    """A round number as it is said: 10k, 5M."""
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if count >= unit and count % unit == 0:
            return f"{count // unit}{name}"
    return str(count)


def key(*names: str) -> str:
    """The name of something in the record."""
    return "; ".join(names)


def of(record: dict, part: str, *names: str) -> list[Sample]:
    """The samples of one thing, round by round."""
    return record["samples"][part][key(*names)]


def rates(samples: list[Sample]) -> list[float]:
    """Requests per second."""
    return [sample["requests_per_second"] for sample in samples]


def cores(samples: list[Sample]) -> list[float]:
    """Cores that the server had."""
    return [sample["server_cores"] for sample in samples]


def cpu_us(samples: list[Sample]) -> list[float]:
    """CPU time of the server for a request: the cores that it had, by its requests per second."""
    return [
        sample["server_cores"] / rate * 1e6 if (rate := sample["requests_per_second"]) else 0.0
        for sample in samples
    ]


def ratios(samples: list[float], base: list[float]) -> list[float]:
    """Round by round."""
    return [mine / other if other else 0.0 for mine, other in zip(samples, base, strict=True)]


def speed_ups(record: dict, cell: Cell, shape: Shape) -> list[float]:
    """Times the requests per second of one thread."""
    mine, base = (rates(of(record, "matrix", cell.name, each.name)) for each in (shape, ONE))
    return ratios(mine, base)


def measured_cells(record: dict) -> list[Cell]:
    """The rows of the matrix."""
    plan = record["plan"]
    return cells(tuple(plan["connections"]), tuple(plan["iterations"]))


def measured_shapes(record: dict) -> list[Shape]:
    """The columns of the matrix."""
    return [SHAPES[name] for name in record["plan"]["shapes"]]


def queue_ns(record: dict, length: int, held: int) -> list[float]:
    """CPU time of a request whose queue is so long and holds so much."""
    name = Queue(length, held).name
    return [sample["cpu_ns"] for sample in of(record, "queue", name)]


def beside_published() -> str:
    """The published figures, and what they say of one request."""
    head = ["requests", "connections", "threads", "one thread, ms", "many, ms", "speed-up"]
    head += ["one thread, ms each", "many, ms each", "against the 5.9 ms of the first row"]
    first = published.ROWS[0].one_each_ms
    rows = [
        [
            f"{row.requests:,}",
            f"{row.connections:,}",
            f"{row.threads}",
            f"{row.one_ms:,.0f}",
            f"{row.many_ms:,.1f}",
            f"{row.speed_up:.1f}×",
            f"{row.one_each_ms:.2f}",
            f"{row.many_each_ms:.3f}",
            f"{first / row.many_each_ms:.1f}×",
        ]
        for row in published.ROWS
    ]
    return table(head, rows)


def speed_up_table(record: dict) -> str:
    """Each shape's requests per second in times of those of one thread."""
    shapes = [shape for shape in measured_shapes(record) if shape != ONE]
    head = ["connections", "iterations", "one thread, requests/s", *(each.name for each in shapes)]
    rows = []
    for cell in measured_cells(record):
        base = rates(of(record, "matrix", cell.name, ONE.name))
        found = [spread(speed_ups(record, cell, shape), 2) for shape in shapes]
        rows.append([*_load(cell), f"{median(base):,.0f}", *found])
    return table(head, rows)


def cost_table(record: dict) -> str:
    """CPU time of a request, and cores."""
    shapes = measured_shapes(record)
    head = ["connections", "iterations", *(each.name for each in shapes)]
    rows = []
    for cell in measured_cells(record):
        found = []
        for shape in shapes:
            samples = of(record, "matrix", cell.name, shape.name)
            found.append(f"{median(cpu_us(samples)):,.1f} / {median(cores(samples)):.2f}")
        rows.append([*_load(cell), *found])
    return table(head, rows)


def _load(cell: Cell) -> list[str]:
    return [f"{cell.connections:,}", short(cell.iterations)]


def queue_table(record: dict) -> str:
    """What a request costs by the length of the queue and by what it holds."""
    head = ["waiting", "each holds", "CPU time, ns", "instructions", "reads and writes"]
    head += ["misses of D1", "misses of LL", f"of these at {LINE_NS:.0f} ns, ns"]
    rows = []
    for queue in offline.queues(record["plan"]["waiting"], record["plan"]["queue"]):
        misses = record["misses"][queue.name]
        rows.append(
            [
                f"{queue.length:,}",
                f"{queue.bytes:,} B" if queue.bytes else "its descriptor",
                spread(queue_ns(record, queue.length, queue.bytes), 0),
                f"{misses['instructions']:,.0f}",
                f"{misses['references']:,.0f}",
                f"{misses['d1_misses']:.3f}",
                f"{misses['ll_misses']:.3f}",
                f"{misses['ll_misses'] * LINE_NS:.1f}",
            ]
        )
    return table(head, rows)


def offline_speed_ups(record: dict) -> Iterator[tuple[int, int, list[float], list[float]]]:
    """Length, threads, speed-up and CPU time in times of one thread's."""
    for queue in offline.computing(record["plan"]["waiting"], 1):
        names = [queue.name, replace(queue, threads=1).name]
        mine, one = (of(record, "queue", name) for name in names)
        faster = ratios([each["wall_ns"] for each in one], [each["wall_ns"] for each in mine])
        dearer = ratios([each["cpu_ns"] for each in mine], [each["cpu_ns"] for each in one])
        yield queue.length, queue.threads, faster, dearer


def offline_table(record: dict) -> str:
    """Threads without sockets."""
    head = ["waiting", "threads", "speed-up", "CPU time of a request, times that of one thread"]
    rows = [
        [f"{length:,}", f"{threads}", spread(faster, 2), spread(dearer, 2)]
        for length, threads, faster, dearer in offline_speed_ups(record)
    ]
    return table(head, rows)


def one_cpu_table(record: dict) -> str:
    """Many threads on one CPU."""
    head = ["load", "", "requests/s", "times one thread's", "CPU time of a request, µs"]
    rows = []
    for name, samples in record["samples"]["one-cpu"].items():
        cell, _, shape = name.partition("; ")
        base = rates(of(record, "one-cpu", cell, ONE.name))
        found = [spread(rates(samples), 0), spread(ratios(rates(samples), base), 2)]
        rows.append([cell, shape, *found, spread(cpu_us(samples), 1)])
    return table(head, rows)


def backlog_table(record: dict) -> str:
    """The accept queue."""
    head = ["", "until the last answer, s", "server's CPU time, s", "its share of a core"]
    head += ["SYNs sent again", "overflows of the accept queue"]
    rows = []
    for arm in backlog.arms():
        samples = of(record, "backlog", arm.name)
        used = [each["server_cores"] * each["seconds"] for each in samples]
        counted = [
            spread([each["kernel"][name] for each in samples], 0)
            for name in ("TCPSynRetrans", "ListenOverflows")
        ]
        took = spread([each["seconds"] for each in samples], 2)
        rows.append([arm.name, took, spread(used, 2), spread(cores(samples), 2), *counted])
    return table(head, rows)


def company_table(record: dict) -> str:
    """Other programs on the same CPUs."""
    head = ["programs beside", "", "requests/s", "times one thread's", "cores"]
    head += ["CPU time of a request, µs"]
    rows = []
    for neighbours in (0, len(record["cpus"])):
        beside = f"{neighbours} beside"
        base = rates(of(record, "company", beside, ONE.name))
        for shape in company.SHAPES:
            samples = of(record, "company", beside, shape.name)
            found = [spread(rates(samples), 0), spread(ratios(rates(samples), base), 2)]
            rows.append(
                [
                    str(neighbours),
                    shape.name,
                    *found,
                    spread(cores(samples), 2),
                    spread(cpu_us(samples), 0),
                ]
            )
    return table(head, rows)


def reuse_table(record: dict) -> str:
    """A connection each, or kept alive."""
    head = ["iterations", "", "", "requests/s", "server, µs", "generator, µs"]
    rows = []
    for cell in reuse.CELLS:
        for shape in reuse.SHAPES:
            for way in reuse.WAYS:
                samples = of(record, "reuse", cell.name, way, shape.name)
                client = [
                    each["generator_cores"] / each["requests_per_second"] * 1e6 for each in samples
                ]
                found = [spread(rates(samples), 0), spread(cpu_us(samples), 1), spread(client, 1)]
                rows.append([short(cell.iterations), shape.name, way, *found])
    return table(head, rows)
