"""`capacity`: the capacity model's knee and p99 compared with measurements."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from loadtests.bench.capacity import cells, measure
from loadtests.bench.capacity.cells import CELLS, Cell
from loadtests.bench.capacity.measure import KNEE, LOW, Asker, CapacityStand
from loadtests.bench.experiment import builds, servers
from loadtests.bench.experiment.generator import calibrate
from loadtests.bench.experiment.page import LEGEND, Page, cell, middle, percent
from loadtests.bench.experiment.plan import Experiment, Plan, Row, Task
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record

UNITS = {"knee": (0, "requests/s"), "p99": (2, "ms")}
"""Of each figure: digits, and its unit."""

MIXES = {cell.name: cell for cell in CELLS}


class Capacity(Experiment):
    """In each round a mix is calibrated at a low load, predicted, and measured at the knee and below."""

    name = "capacity"
    title = "The capacity model compared with measurements"
    help = "the knee and the p99 that `corelane capacity` predicts, compared with measurements"
    rounds = 3
    seconds = LOW
    quick = 0.1

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--corelane", type=Path, metavar="PROGRAM", help="another build of corelane"
        )

    def tasks(self, plan: Plan) -> list[Task]:
        return [{"mix": name} for name in MIXES]

    @contextmanager
    def stand(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[CapacityStand]:
        cpus = servers.first_cpus(2)
        programs = builds.obtain(plan.server, plan.profile)
        command = plan.options.corelane and plan.options.corelane.resolve()
        if not command:
            folder = builds.build(["corelane-cli"], plan.profile)
            command = folder / "corelane"
        work = calibrate(programs, cpus, plan.seconds(1.0, least=0.3))
        asker = Asker(programs.generator, [cpus[1]], work.ops_per_ms)
        stand = CapacityStand(plan, cpus, programs=programs, command=command, asker=asker)
        stand.outside = measure.outside(stand)
        stand.facts |= {"work": asdict(work), "outside_us": 1e6 * stand.outside}
        stand.versions = builds.describe()
        yield stand

    def measure(self, stand: CapacityStand, task: Task, number: int) -> Row:
        return measure.measured(stand, MIXES[task["mix"]], number)

    def brief(self, row: Row) -> str:
        parts = []
        for figure, (digits, unit) in UNITS.items():
            predicted, measured = row[figure]["predicted"], row[figure]["measured"]
            parts.append(
                f"{figure} {predicted:,.{digits}f} predicted, {measured:,.{digits}f} {unit} measured "
                f"({predicted / measured - 1:+.1%})"
            )
        return "; ".join([*parts, f"{row['wrong']} wrong"])

    def page(self, record: Record) -> Page:
        page = Page(self.title, record, LEAD, LEGEND)
        page.section("Verdict")
        page.points([*_verdicts(record), *page.quality()])
        page.plot(_plot(record))
        page.section("Knee")
        _figures(page, record, "knee")
        page.section(f"p99 at {cells.USED:.0%} of the predicted knee")
        _figures(page, record, "p99")
        page.section("What the lanes did")
        _lanes(page, record)
        page.section("How it is measured", METHOD.format(**record.facts))
        return page


def _verdicts(record: Record) -> Iterator[str]:
    for figure, target in cells.TARGETS.items():
        judged = {name: cells.met(record.select(mix=name), figure) for name in record.labels("mix")}
        missed = ", ".join(name for name, met in judged.items() if not met)
        yield (
            f"{figure}: within {target:.0%} in {sum(judged.values())} of {len(judged)} mixes"
            + (f"; missed in {missed}." if missed else ".")
        )


def _figures(page: Page, record: Record, figure: str) -> None:
    digits, unit = UNITS[figure]
    names = record.labels("mix")

    def about(name: str) -> Cell:
        return MIXES[name]

    def values(name: str, what: str) -> list[float]:
        return record.values(what, mix=name)

    def met(name: str) -> bool:
        return cells.met(record.select(mix=name), figure)

    columns = [
        ("requests", lambda name: about(name).mix),
        ("lanes", lambda name: str(about(name).lanes)),
        ("limit", lambda name: record.select(mix=name)[0]["limit"]),
        (f"predicted, {unit}", lambda name: cell(values(name, f"{figure}.predicted"), digits)),
        (f"measured, {unit}", lambda name: cell(values(name, f"{figure}.measured"), digits)),
        ("error", lambda name: percent(cells.errors(record.select(mix=name), figure))),
        ("target", lambda name: "met" if met(name) else "**missed**"),
    ]
    if figure == "p99":
        columns.insert(3, ("rate, requests/s", lambda name: middle(values(name, "rate"), 0)))
        columns.append(
            ("closed form, ms", lambda name: cell(values(name, "closed_form_p99_ms"), digits))
        )
    page.table("mix", names, *columns)
    page.text(
        "\n".join(
            f"- {name}, missed: "
            f"{'; '.join(cells.reasons(record.select(mix=name)) or ['the measurement shows no reason'])}."
            for name in names
            if not met(name)
        )
    )


def _lanes(page: Page, record: Record) -> None:
    def column(title: str, figure: str, digits: int, scale: float = 1.0):
        return (title, lambda name: cell(record.values(figure, mix=name), digits, scale))

    page.table(
        "mix",
        record.labels("mix"),
        column("busy at the knee, %", "busy_at_knee", 0, 100),
        column("busy at the rate, %", "busy_at_rate", 0, 100),
        column("handler at the low load, µs", "handler_at_low", 1, 1e6),
        column("at the knee, µs", "handler_at_knee", 1, 1e6),
        column("generator's lag, p99, ms", "lag_p99_ms", 2),
        column("generator, cores", "generator_cores", 2),
        column("others, cores", "others_cores", 2),
    )


def _plot(record: Record) -> Plot:
    panels = [
        Panel(
            [
                Series(
                    side,
                    [
                        (name, record.values(f"{figure}.{side}", mix=name))
                        for name in record.labels("mix")
                    ],
                )
                for side in ("predicted", "measured")
            ],
            x=f"{figure}, {UNITS[figure][1]}",
            log="x",
        )
        for figure in UNITS
    ]
    return Plot(f"Predicted and measured: the knee, and the p99 at {cells.USED:.0%} of it", panels)


LEAD = (
    "For each mix `corelane capacity` reads a replica's metrics from before and after a low load. It predicts the "
    f"maximum load (the knee) and the p99 at {cells.USED:.0%} of that. Then both are measured. An error is "
    f"predicted ÷ measured - 1. Targets: the knee within {cells.KNEE:.0%}, the p99 within {cells.P99:.0%}."
)

METHOD = (
    "The cost of a request on a busy lane outside its handler depends on the machine, and a low load cannot separate "
    "it from the cost of waking up. It is measured once, by more `/work` without iterations than a lane can serve "
    "({outside_us:.1f} µs here). In each round every mix has its own server. It has "
    f"{LOW:g} s of a low load, about a sixth of the knee, between two reads of its metrics. {KNEE:g} s at "
    f"{measure.TOO_MUCH:g} times the predicted knee follow, where the rate of replies is the measured knee. Then an open "
    f"loop has Poisson arrivals at {cells.USED:.0%} of the predicted knee, and latencies count from when a "
    "request was due. One lane has its own CPU and the generator the other. With two lanes the generator shares one "
    "of their CPUs. Projects are a page, a load and a save by each of 256 users, on SQLite. Slots are "
    "occupied by requests that a fault delays."
)
