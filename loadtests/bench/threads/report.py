"""The report of `threads`: speed-ups, and the cores and CPU time that they are made of."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

from loadtests.bench.experiment import servers
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.page import LEGEND, Column, Page, cell, middle
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record

LONG = "10m"
"""No request times out while 1,000 expensive ones wait before it."""


@dataclass(frozen=True)
class Pool:
    """An accept loop with a shared queue and so many workers; without any, it answers itself."""

    workers: int

    @property
    def name(self) -> str:
        """Its name in tables."""
        return f"pool of {self.workers}" if self.workers else "one thread"

    def argv(self, programs: Programs, address: str, _folder: Path) -> list[str]:
        """How it is started."""
        return [str(programs.peers / "pool"), "--listen", address, "--threads", str(self.workers)]


@dataclass(frozen=True)
class Lanes:
    """corelane-server with so many lanes."""

    lanes: int
    placement: str = "hashed"

    @property
    def name(self) -> str:
        """Its name in tables."""
        return "1 lane" if self.lanes == 1 else f"{self.lanes} {self.placement} lanes"

    def argv(self, programs: Programs, address: str, _folder: Path) -> list[str]:
        """How it is started. Not pinned: the generator may use the same CPUs."""
        argv = servers.corelane(programs.server, address, self.lanes, self.placement, pin=False)
        for timeout in ("request", "header", "stall"):
            argv += [f"--timeouts.{timeout}", LONG]
        return argv


Shape = Pool | Lanes

ONE, TWO, SIXTEEN, LANES = Pool(0), Pool(2), Pool(16), Lanes(2)

SHAPES: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        *(ONE, Pool(1), TWO, Pool(4), SIXTEEN),
        *(Lanes(1), LANES, Lanes(2, "shared"), Lanes(2, "least-loaded")),
    )
}
"""By name."""


MATRIX, ONE_CPU, NEIGHBOURS = "matrix", "one-cpu", "neighbours"
"""The settings."""

TITLES = {
    ONE_CPU: "More threads without more CPUs",
    NEIGHBOURS: "Next to other programs",
}

METHODS = {
    ONE_CPU: (
        "The server has one CPU and the generator the other. Threads add no CPU here, so a speed-up could only come "
        "from the queue or the cache."
    ),
    NEIGHBOURS: (
        "Two programs that only compute run on the CPUs of the server. The scheduler shares CPUs among threads, so "
        "one thread gets a smaller share than sixteen."
    ),
}

Load = dict[str, str]
"""Labels: setting, connections, iterations."""


def page(title: str, record: Record) -> Page:
    """The whole report."""
    found = Page(title, record, LEGEND, LEAD)
    found.section("Reading")
    found.points([*_reading(record), *found.quality()])
    if _loads(record, MATRIX):
        found.plot(_plot(record))
        found.section("Speed-up", MATRIX_METHOD)
        _matrix(found, record, _speed_up)
        found.section("Requests per second", "Medians.")
        _matrix(found, record, _rate)
        found.section("CPU time of a request and cores of the server", COST_METHOD)
        _matrix(found, record, _cost)
    for setting, its in TITLES.items():
        if loads := _loads(record, setting):
            found.section(its, METHODS[setting])
            for load in loads.values():
                _shapes(found, record, load)
    found.section("How it is measured", METHOD)
    return found


def _loads(record: Record, setting: str) -> dict[str, Load]:
    """The measured loads of a setting by their names, with one thread to compare with."""
    labels = product(record.labels("connections"), record.labels("iterations"))
    loads = [{"setting": setting, "connections": each, "iterations": its} for each, its in labels]
    return {_name(load): load for load in loads if record.select(**load)}


def _name(load: Load) -> str:
    return f"{int(load['connections']):,} × {load['iterations']}"


def _ratios(record: Record, figure: str, load: Load, shape: str) -> list[float]:
    """A figure of a shape in that of one thread, round by round."""
    return record.ratios(figure, {"shape": shape}, {"shape": ONE.name}, **load)


def _speed_up(record: Record, load: Load, shape: str) -> str:
    return cell(_ratios(record, "requests_per_second", load, shape), 2)


def _cost(record: Record, load: Load, shape: str) -> str:
    us, cores = (record.values(each, **load, shape=shape) for each in ("cpu_us", "server_cores"))
    return f"{middle(us, 1)} / {middle(cores, 2)}"


def _rate(record: Record, load: Load, shape: str) -> str:
    return middle(record.values("requests_per_second", **load, shape=shape), 0)


def _matrix(found: Page, record: Record, of: Callable[[Record, Load, str], str]) -> None:
    """A line for each load and a column for each shape."""
    loads = _loads(record, MATRIX)

    def column(shape: str) -> Column:
        return (shape, lambda name: of(record, loads[name], shape))

    columns = [column(shape) for shape in record.labels("shape", setting=MATRIX)]
    found.table("connections × iterations", list(loads), *columns)


def _shapes(found: Page, record: Record, load: Load) -> None:
    """A line for each shape."""

    def column(title: str, figure: str, digits: int) -> Column:
        return (title, lambda shape: cell(record.values(figure, **load, shape=shape), digits))

    found.table(
        f"{_name(load)}",
        record.labels("shape", **load),
        column("requests/s", "requests_per_second", 0),
        ("times one thread", lambda shape: _speed_up(record, load, shape)),
        column("cores", "server_cores", 2),
        column("CPU time, µs", "cpu_us", 1),
    )


def _reading(record: Record) -> Iterator[str]:
    loads = _loads(record, MATRIX)
    shapes = [shape for shape in record.labels("shape") if shape != ONE.name]
    found = [
        (median(ratios), load, shape)
        for load, shape in product(loads.values(), shapes)
        if (ratios := _ratios(record, "requests_per_second", load, shape))
    ]
    if found:
        _, load, shape = max(found, key=lambda each: each[0])
        cpus = len(record.cpus)
        yield (
            f"The largest speed-up over one thread on {cpus} CPUs is {_speed_up(record, load, shape)}: {shape}, "
            f"{_name(load)}. That shape has {cell(_ratios(record, 'server_cores', load, shape), 2)} times the cores, at "
            f"{cell(_ratios(record, 'cpu_us', load, shape), 2)} times the CPU time of a request. "
            f"{sum(times > cpus for times, *_ in found)} of {len(found)} medians are above the number of CPUs."
        )
    for setting, title in TITLES.items():
        for load in _loads(record, setting).values():
            told = [
                f"{shape} {_speed_up(record, load, shape)} times at "
                f"{cell(_ratios(record, 'cpu_us', load, shape), 2)} times the CPU time"
                for shape in (SIXTEEN.name, LANES.name)
                if _ratios(record, "requests_per_second", load, shape)
            ]
            if told:
                yield f"{title}, {_name(load)}, compared with one thread: {'; '.join(told)}."


def _plot(record: Record) -> Plot:
    def points(shape: str, iterations: str) -> list[tuple[float, list[float]]]:
        loads = [
            each for each in _loads(record, MATRIX).values() if each["iterations"] == iterations
        ]
        rate = "requests_per_second"
        return [(int(each["connections"]), _ratios(record, rate, each, shape)) for each in loads]

    shapes = [shape for shape in record.labels("shape", setting=MATRIX) if shape != ONE.name]
    panels = [
        Panel(
            [Series(shape, points(shape, iterations)) for shape in shapes],
            title=f"{iterations} iterations",
            x="connections",
            y="times one thread",
            kind="lines",
            log="x",
            limits={"CPUs": len(record.cpus)},
        )
        for iterations in record.labels("iterations", setting=MATRIX)
    ]
    return Plot("Requests per second, in times of one thread", panels, columns=2)


LEAD = "The conclusions: [threads](../threads.md)."

MATRIX_METHOD = (
    "A closed loop with so many connections at once, each with one request of so many iterations of `/work`. A client "
    "that gets its reply is replaced by a new connection. The figures are the requests per second of each shape in those of "
    "one thread, which accepts, computes and answers."
)

COST_METHOD = (
    "Medians of the server's CPU time of a request in µs / the cores that it had. A speed-up is the ratio of the cores "
    "divided by the ratio of the CPU times. A queue or a cache can only change the CPU time."
)

METHOD = (
    "`one thread` and `pool of N` are `loadtests/bench/peers/rust`: blocking sockets, a queue behind a mutex and a "
    "condition variable, N workers and a thread that accepts, one request for each connection. Lanes are "
    "corelane-server, not pinned. Both compute the same steps of a random number generator, each of which needs the "
    "previous one, and every reply is checked. Server and generator share two CPUs unless said otherwise. Each "
    "measurement has its own server. Under each load all shapes follow one another, in an order that is drawn by "
    "lot. A measurement takes 0.15 s, with 1M iterations 0.3 s, with 5M 0.5 s. Requests that are under way at either "
    "end do not count."
)
