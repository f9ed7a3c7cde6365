"""The report of `direct`: tables, and a reading that follows from the figures."""

from collections.abc import Iterator
from statistics import median

from loadtests.bench import ab, networks
from loadtests.bench.experiment.page import LEGEND, Page, cell
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record
from loadtests.bench.text import spread, table

MODES = {"close": "A new connection for each request", "keep-alive": "Connections kept alive"}
SIDES = {"direct": "Directly", "gateway": "Through the gateway"}

FULL = 0.9
"""From this share of its CPU on, a part counts as being at its limit."""

ORIGINAL = {50: (29, 31), 98: (257, 69), 99: (304, 101), 100: (729, 2216)}
"""Percent of the requests: milliseconds directly and through the proxy, as first published."""

KERNEL = ("TCPSynRetrans", "ListenDrops", "TCPTimeWaitOverflow")
"""Counters that make ab slower when they grow; others grow by what else the machine does."""

FIGURES = (
    ("requests/s", "requests_per_second", 0),
    ("CPU of replicas, µs/request", "cpu_us.replicas", 1),
    ("CPU of Envoy, µs/request", "cpu_us.gateway", 1),
    ("CPU of ab, µs/request", "cpu_us.ab", 1),
    ("cores busy: ab", "busy.ab", 2),
    ("cores busy: replicas", "busy.replicas", 2),
    ("cores busy: Envoy", "busy.gateway", 2),
    ("cores busy: other processes", "others_cores", 2),
    ("cores busy: taken by the hypervisor", "stolen_cores", 2),
)
"""What a row shows, the figure, and its digits."""

NO_RATIO = {"cpu_us.gateway", "busy.gateway", "others_cores", "stolen_cores"}
"""The direct side has nothing to compare with."""


def page(title: str, record: Record) -> Page:
    """The whole report."""
    found = Page(title, record, LEGEND)
    found.section("Reading")
    modes = [mode for mode in MODES if len(record.labels("side", mode=mode)) == len(SIDES)]
    found.points([*(_reading(record, mode) for mode in modes), *_kernel(record), *found.quality()])
    found.plot(_plot(record, modes))
    for mode in record.labels("mode"):
        facts = record.facts
        argv = ab.arguments(facts["requests"], facts["concurrency"], mode == "keep-alive")
        command = f"`ab {' '.join(argv)} http://ADDRESS{record.plan['options']['path']}`"
        found.section(MODES[mode], command)
        _table(found, record, mode)
    found.section("The original test", ORIGINAL_TEXT, _original())
    placed = "each pinned to its own core" if record.facts["pinned"] else "sharing the cores"
    found.section("How it is measured", METHOD.format(placed=placed, **record.facts))
    return found


def _reading(record: Record, mode: str) -> str:
    p50, p99 = (_compared(record, mode, _time(p), "longer", "shorter") for p in (50, 99))
    rate = _compared(record, mode, "requests_per_second", "higher", "lower")
    envoy, replicas = (
        median(record.values(f"cpu_us.{part}", mode=mode, side="gateway"))
        for part in ("gateway", "replicas")
    )
    there = ORIGINAL[99][1] / ORIGINAL[99][0]
    sentence = (
        f"{MODES[mode]}: through the gateway the median time is {p50}, the 99th percentile {p99}, "
        f"the requests/s {rate}. {' '.join(_limit(record, mode, side) for side in SIDES)} A request "
        f"through the gateway costs Envoy {envoy:.0f} µs of CPU and its replica {replicas:.0f} µs."
    )
    return sentence + f" In the original test the ratio of p99 was {there:.2f}." * (mode == "close")


def _compared(record: Record, mode: str, figure: str, more: str, less: str) -> str:
    ratios = _ratios(record, mode, figure)
    if min(ratios) <= 1 <= max(ratios):
        return f"the same within the spread ({spread(ratios, 2)} times)"
    return f"{more if median(ratios) > 1 else less}: {spread(ratios, 2)} times the direct one"


def _limit(record: Record, mode: str, side: str) -> str:
    """Which part had no CPU left."""
    busy = {
        figure: median(record.values(figure, mode=mode, side=side)) for _, figure, _ in FIGURES[4:]
    }
    total, cores = sum(busy.values()), record.machine["cores"]
    full = []
    if busy["busy.ab"] >= FULL:
        full.append(f"ab's one thread ({busy['busy.ab']:.2f} cores)")
    if side == "direct" and busy["busy.replicas"] >= FULL:
        full.append(f"the replica's lane ({busy['busy.replicas']:.2f} cores)")
    if total >= FULL * cores:
        full.append(f"the machine ({total:.2f} of {cores} cores, ab's included)")
    if not full:
        return f"{SIDES[side]} nothing was at its limit ({total:.2f} of {cores} cores busy)."
    return f"{SIDES[side]} the limit was {' and '.join(full)}."


def _kernel(record: Record) -> Iterator[str]:
    counted = {networks.COUNTERS[name]: record.total(f"kernel.{name}") for name in KERNEL}
    happened = ", ".join(f"{count:.0f} {text}" for text, count in counted.items() if count)
    yield f"The kernel counted {happened or 'no lost or repeated connection attempt'}."


def _plot(record: Record, modes: list[str]) -> Plot:
    panels = [
        Panel(
            [
                Series(
                    title,
                    [
                        (f"{p} %", record.values(_time(p), mode=mode, side=side))
                        for p in ab.PERCENTS
                    ],
                )
                for side, title in SIDES.items()
            ],
            title=MODES[mode],
            x="ms",
        )
        for mode in modes
    ]
    return Plot("Time within which each share of the requests was answered", panels)


def _table(found: Page, record: Record, mode: str) -> None:
    times = [(f"{percent} % served within, ms", _time(percent), 1) for percent in ab.PERCENTS]
    lines = {title: (figure, digits) for title, figure, digits in [*times, *FIGURES]}

    def side(name: str) -> tuple:
        def text(title: str) -> str:
            figure, digits = lines[title]
            return cell(record.values(figure, mode=mode, side=name), digits)

        return name, text

    def ratio(title: str) -> str:
        figure, _ = lines[title]
        return "" if figure in NO_RATIO else cell(_ratios(record, mode, figure), 2)

    found.table("", list(lines), *map(side, SIDES), ("gateway / direct", ratio))


def _time(percent: int) -> str:
    return f"percentiles.{percent}"


def _ratios(record: Record, mode: str, figure: str) -> list[float]:
    return record.ratios(figure, {"side": "gateway"}, {"side": "direct"}, mode=mode)


def _original() -> str:
    rows = [
        [f"{percent} %", str(direct), str(proxy), f"{proxy / direct:.2f}"]
        for percent, (direct, proxy) in ORIGINAL.items()
    ]
    return table(["requests served within", "direct, ms", "proxy, ms", "proxy / direct"], rows)


ORIGINAL_TEXT = """\
Julia processes behind nginx under the same ab command, on another machine: only its ratios can be compared with those
above."""

METHOD = """\
{replicas} replicas of one lane, {placed}; Envoy with a worker for each core and its access log on; ab on the same
machine. Direct is {direct}. After a warm-up both sides take turns, without and with keep-alive, in another order each
round. A ratio is taken within a round. Times are ab's own, from its file of percentiles (`-e`), which is finer than
milliseconds. CPU times are the kernel's CPU clock of each process, threads that ended included.

Without keep-alive, each measurement opens a connection for each request. The server closes first, so TIME_WAIT is on
its side and the client's ports are free at once; a measurement starts only when few of them are held."""
