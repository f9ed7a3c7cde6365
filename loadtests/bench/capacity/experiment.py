"""`capacity`: compares the capacity model's knee and p99 with measurements."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median

from loadtests.bench.capacity import measure
from loadtests.bench.capacity.cells import CELLS, USED
from loadtests.bench.capacity.measure import LOW, CapacityBed
from loadtests.bench.experiment import builds, servers
from loadtests.bench.experiment.base import Experiment
from loadtests.bench.experiment.generator import calibrate
from loadtests.bench.experiment.page import Figure, Page
from loadtests.bench.experiment.plan import Plan, Row, Task
from loadtests.bench.experiment.record import Record

MIXES = {cell.name: cell for cell in CELLS}

TARGETS = {"knee": 0.10, "p99": 0.20}

UNITS = {"knee": ("requests/s", 0), "p99": ("ms", 2)}

MORE = {
    "knee": (),
    "p99": (
        Figure("rate, requests/s", "rate", 0, brief=True),
        Figure("closed form, ms", "closed_form_p99_ms"),
    ),
}

LANES = (
    Figure("busy at the knee, %", "busy_at_knee", 0, 100),
    Figure("busy at the rate, %", "busy_at_rate", 0, 100),
    Figure("handler at the low load, µs", "handler_at_low", 1, 1e6),
    Figure("at the knee, µs", "handler_at_knee", 1, 1e6),
    Figure("slot at the low load, µs", "service_at_low", 1, 1e6),
    Figure("at the rate, µs", "service_at_rate", 1, 1e6),
    Figure("generator's lag, p99, ms", "lag_p99_ms"),
    Figure("generator, cores", "generator_cores"),
    Figure("others, cores", "others_cores"),
)


class Capacity(Experiment):
    """Each round calibrates a mix at low load, predicts its knee and latency, and measures it at
    and below the knee.
    """

    name = "capacity"
    title = "The capacity model compared with measurements"
    help = "compares the knee and p99 predicted by `corelane capacity` with measurements"
    lead = "The method: docs/results/bench-capacity.md."
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
    def test_bed(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[CapacityBed]:
        cpus = servers.first_cpus(2)
        programs = builds.obtain(plan.server, plan.profile)
        command = plan.options.corelane and plan.options.corelane.resolve()
        command = command or builds.build(["corelane-cli"], plan.profile) / "corelane"
        work = calibrate(programs, cpus, plan.seconds(1.0, least=0.3))
        bed = CapacityBed(plan, cpus, programs, command=command, work=work)
        bed.outside = measure.outside(bed)
        bed.facts |= {"work": asdict(work), "outside_us": 1e6 * bed.outside}
        bed.versions = builds.describe()
        yield bed

    def measure(self, bed: CapacityBed, task: Task, number: int) -> Row:
        return measure.measured(bed, MIXES[task["mix"]], number)

    def brief(self, row: Row) -> str:
        errors = ", ".join(f"{figure} {row[figure]['error']:+.1%}" for figure in TARGETS)
        return f"predicted ÷ measured - 1: {errors}; {row['wrong']} wrong"

    def verdicts(self, record: Record) -> Iterator[str]:
        for figure, target in TARGETS.items():
            errors = {
                mix: record.values(f"{figure}.error", mix=mix) for mix in record.labels("mix")
            }
            missed = [mix for mix, found in errors.items() if abs(median(found)) > target]
            yield (
                f"{figure}: within {target:.0%} in {len(errors) - len(missed)} of {len(errors)} mixes"
                + (f"; missed in {', '.join(missed)}." if missed else ".")
            )

    def report(self, page: Page, record: Record) -> None:
        lines = page.lines("mix")
        sides = [
            Figure(f"{figure}, {side}", f"{figure}.{side}")
            for figure in TARGETS
            for side in ("predicted", "measured")
        ]
        page.chart(f"The knee, and the p99 at {USED:.0%} of the knee", lines, *sides, log="x")
        titles = {"knee": "Knee", "p99": f"p99 at {USED:.0%} of the predicted knee"}
        for figure, title in titles.items():
            unit, digits = UNITS[figure]
            page.section(title)
            page.figures(
                "mix",
                lines,
                ("requests", lambda name: MIXES[name].mix),
                ("lanes", lambda name: str(MIXES[name].lanes)),
                ("limit", lambda name: record.select(mix=name)[0]["limit"]),
                *MORE[figure],
                Figure(f"predicted, {unit}", f"{figure}.predicted", digits),
                Figure(f"measured, {unit}", f"{figure}.measured", digits),
                Figure("error, %", f"{figure}.error", 0, 100),
            )
        page.section("What the lanes did")
        page.figures("mix", lines, *LANES)
