"""What the figures say, in sentences: one suspect after the other."""

from collections.abc import Callable, Iterator
from statistics import median

from loadtests.bench.machine import others
from loadtests.bench.text import spread
from loadtests.bench.threads import backlog, offline, published, reuse, tables
from loadtests.bench.threads.backlog import Arm
from loadtests.bench.threads.matrix import Cell
from loadtests.bench.threads.shapes import BACKLOG, ONE, Lanes, Pool, Shape
from loadtests.bench.threads.tables import LINE_NS, cores, cpu_us, of, queue_ns, rates, ratios

SIXTEEN = Pool(16)


def sentences(record: dict) -> list[str]:
    """The parts that were measured."""
    makers: dict[str, Callable[[dict], Iterator[str]]] = {
        "matrix": _matrix,
        "queue": _queue,
        "one-cpu": _one_cpu,
        "backlog": _backlog,
        "company": _company,
        "reuse": _reuse,
    }
    found = [each for part in record["samples"] for each in makers[part](record)]
    return [*found, failures(record), disturbance(record)]


def all_samples(record: dict) -> Iterator[dict]:
    """Those with requests."""
    for part in record["samples"].values():
        for samples in part.values():
            yield from (sample for sample in samples if "requests" in sample)


def failures(record: dict) -> str:
    """Whether every request had the right answer."""
    wrong = sum(sample["wrong"] for sample in all_samples(record))
    total = sum(sample["requests"] for sample in all_samples(record))
    return f"{wrong or 'None'} of {total:,} requests got a wrong answer or none."


def disturbance(record: dict) -> str:
    """How quiet the machine was where nothing else was to run."""
    shares = [
        sample["others_cores"] + sample["stolen_cores"]
        for part in ("matrix", "one-cpu", "backlog")
        for samples in record["samples"].get(part, {}).values()
        for sample in samples
    ]
    return others(shares) if shares else "Only parts without a server were measured."


def _matrix(record: dict) -> Iterator[str]:
    shapes = [shape for shape in tables.measured_shapes(record) if shape != ONE]
    found = [
        (median(tables.speed_ups(record, cell, shape)), cell, shape)
        for cell in tables.measured_cells(record)
        for shape in shapes
    ]
    _, cell, shape = max(found, key=lambda each: each[0])
    mine, base = (of(record, "matrix", cell.name, each.name) for each in (shape, ONE))
    over = sum(times > len(record["cpus"]) for times, *_ in found)
    yield (
        f"On {len(record['cpus'])} CPUs the greatest speed-up over one thread is "
        f"{spread(ratios(rates(mine), rates(base)), 2)}: {shape.name}, {_load(cell)}; "
        f"{over} of {len(found)} medians are above the number of CPUs. It is made of "
        f"{spread(ratios(cores(mine), cores(base)), 2)} times the cores and "
        f"{spread(ratios(cpu_us(base), cpu_us(mine)), 2)} times the requests from each second of CPU time."
    )
    yield from _dear(record, shapes)
    yield from _tiny(record)


def _dear(record: dict, shapes: list[Shape]) -> Iterator[str]:
    """What cannot be anything but computing."""
    iterations = max(record["plan"]["iterations"])
    dear = [cell for cell in tables.measured_cells(record) if cell.iterations == iterations]
    costs = [
        median(ratios(*(cpu_us(of(record, "matrix", cell.name, each)) for each in pair)))
        for cell in dear
        for shape in shapes
        for pair in [(shape.name, ONE.name)]
    ]
    few, many = (of(record, "matrix", cell.name, ONE.name) for cell in (dear[0], dear[-1]))
    yield (
        f"A request of {tables.short(iterations)} iterations takes one thread "
        f"{spread(cpu_us(few), 0)} µs of CPU time with {dear[0].connections:,} connections and "
        f"{spread(cpu_us(many), 0)} with {dear[-1].connections:,}: "
        f"{spread(ratios(cpu_us(many), cpu_us(few)), 2)} times. With more threads it takes "
        f"{min(costs):.2f} to {max(costs):.2f} times as much (medians of all shapes and connections)."
    )


def _tiny(record: dict) -> Iterator[str]:
    plan = record["plan"]
    if SIXTEEN.name not in plan["shapes"]:
        return
    for connections in plan["connections"]:
        cell = Cell(connections, min(plan["iterations"]))
        mine, one = (of(record, "matrix", cell.name, each.name) for each in (SIXTEEN, ONE))
        yield (
            f"{_load(cell)}: a pool of 16 has {spread(ratios(rates(mine), rates(one)), 2)} times the requests of "
            f"one thread, each for {spread(ratios(cpu_us(mine), cpu_us(one)), 2)} times the CPU time."
        )


def _load(cell: Cell) -> str:
    return f"{cell.connections:,} connections, {tables.short(cell.iterations)} iterations"


def _queue(record: dict) -> Iterator[str]:
    waiting = record["plan"]["waiting"]
    shortest, longest = min(waiting), max(waiting)
    needed = (published.ROWS[-1].one_each_ms - published.ROWS[0].one_each_ms) * 1e6
    for name, held in zip(("The queue", "The cache"), offline.BYTES, strict=True):
        few, many = (queue_ns(record, length, held) for length in (shortest, longest))
        more = [each - other for each, other in zip(many, few, strict=True)]
        misses = record["misses"][offline.Queue(longest, held).name]
        what = f"each with {held:,} bytes that are read" if held else "descriptors alone"
        priced = misses["ll_misses"] * LINE_NS
        yield (
            f"{name}: with {longest:,} waiting instead of {shortest}, {what}, a request takes "
            f"{spread(more, 0)} ns more CPU time; cachegrind counts {misses['d1_misses']:.2f} misses of the first "
            f"level in it and {misses['ll_misses']:.2f} of the last, {priced:,.0f} ns at {LINE_NS:.0f} ns each. "
            f"The published difference is {needed:,.0f} ns, {needed / max(*more, priced, 1.0):,.0f} times the larger of "
            "the two."
        )
    best = max(tables.offline_speed_ups(record), key=lambda each: median(each[2]))
    yield (
        f"Threads on that queue without sockets: the greatest speed-up is {spread(best[2], 2)} "
        f"({best[1]} threads, {best[0]:,} waiting), at {spread(best[3], 2)} times the CPU time of a request."
    )


def _one_cpu(record: dict) -> Iterator[str]:
    for name in dict.fromkeys(each.partition("; ")[0] for each in record["samples"]["one-cpu"]):
        mine, one = (of(record, "one-cpu", name, each.name) for each in (SIXTEEN, ONE))
        yield (
            f"The server on one CPU and the generator on the other, {name}: a pool of 16 has "
            f"{spread(ratios(rates(mine), rates(one)), 2)} times the requests of one thread."
        )


def _backlog(record: dict) -> Iterator[str]:
    for backlog_length in (BACKLOG, backlog.SHORT):
        one, many = (
            of(record, "backlog", Arm(shape, backlog_length).name) for shape in (ONE, SIXTEEN)
        )
        took = [[each["seconds"] for each in samples] for samples in (one, many)]
        again = [each["kernel"]["TCPSynRetrans"] for each in one]
        yield (
            f"The accept queue: {record['plan']['crowd']['connections']:,} connections at once, an accept "
            f"queue of {backlog_length:,}: one thread takes {spread(ratios(*took), 2)} times as long as a pool "
            f"of 16, computes for {spread(cores(one), 2)} of that time, and {spread(again, 0)} SYNs are sent again."
        )


def _company(record: dict) -> Iterator[str]:
    told = []
    for neighbours in (0, len(record["cpus"])):
        beside = f"{neighbours} beside"
        base = of(record, "company", beside, ONE.name)
        for shape in (SIXTEEN, Lanes(2)):
            mine = of(record, "company", beside, shape.name)
            times = spread(ratios(rates(mine), rates(base)), 2)
            cost = spread(ratios(cpu_us(mine), cpu_us(base)), 2)
            told.append(f"{shape.name} {times} with {neighbours} (CPU time of a request {cost})")
    yield f"Company: the speed-up by how many programs compute beside the server: {'; '.join(told)}."


def _reuse(record: dict) -> Iterator[str]:
    cell, shape = reuse.CELLS[0], reuse.SHAPES[0]
    new, kept = (of(record, "reuse", cell.name, way, shape.name) for way in reuse.WAYS)
    yield (
        f"Connections: a request on one of its own takes {shape.name} "
        f"{spread(ratios(cpu_us(new), cpu_us(kept)), 2)} times the CPU time of one on a connection that is kept "
        f"({_load(cell)})."
    )
