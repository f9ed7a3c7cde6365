"""The report of the simulated fleets."""

from collections.abc import Callable, Iterator
from functools import partial
from statistics import mean

from loadtests.bench.autoscaling.courses import COURSES, Course
from loadtests.bench.experiment.page import Page
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record

NAMES = {
    "required": "required replicas",
    "busy": "busy share",
    "cpu": "CPU 70%",
    "cpu-low": "CPU 58%",
    "cpu-equal": "CPU at equal objective",
}

COST, SAVED, REVERSALS = 1.25, 0.8, 6
"""The targets: replica-seconds by the fewest, by those of CPU at equal objective, and reversals in an hour."""

PLOTTED = ("ramp", "step", "sawtooth", "mix")


def page(title: str, record: Record) -> Page:
    """The report."""
    made = Page(title, record, LEAD)
    made.section("Verdict")
    made.points(_verdicts(record))
    made.plot(_plot(record))
    made.section("Requests in time", "In percent; 100 and 1,000 replicas.")
    _table(made, record, "in_time", lambda values: f"{100 * mean(values):.2f}")
    made.section("Replica-seconds", "Divided by the fewest that hold the objective.")
    _table(made, record, "cost", lambda values: f"{mean(values):.2f}")
    made.section("CPU target at equal objective, shed requests and reversals")
    _others(made, record)
    made.section("How it is simulated", METHOD.format(**record.facts))
    made.text(PARAMETERS.format(**record.facts))
    return made


def _judged(record: Record) -> list[Course]:
    measured = record.labels("course")
    return [course for course in COURSES if course.name in measured]


def _average(record: Record, figure: str, **labels: object) -> float:
    return mean(record.values(figure, **labels))


def _saved(record: Record, by: str, **labels: object) -> float:
    return mean(record.ratios("seconds", {"policy": "required"}, {"policy": by}, **labels))


def _verdicts(record: Record) -> Iterator[str]:
    """Of the required replicas; a target is met if it is in fleets of each size."""
    sizes, courses = record.labels("fleet"), _judged(record)

    def worst(of: Callable[..., float], course: Course, pick: Callable = max) -> float:
        return pick(of(course=course.name, fleet=size) for size in sizes)

    def figure(name: str) -> Callable[..., float]:
        return partial(_average, record, name, policy="required")

    for course in courses:
        if course.target:
            share = worst(figure("in_time"), course, min)
            yield (
                f"{course.name}: {share:.2%} in time, "
                f"{_verdict(share >= course.target)} of at least {course.target:.1%}."
            )
    for what, of, limit in (
        ("replica-seconds by the fewest", figure("cost"), COST),
        *(
            (f"replica-seconds by those of {NAMES[by]}", partial(_saved, record, by), SAVED)
            for by in ("cpu-equal", "cpu-low")
        ),
    ):
        missed = [
            f"{course.name} ({found:.2f})"
            for course in courses
            if (found := worst(of, course)) > limit
        ]
        yield (
            f"{what}: at most {limit:g} in {len(courses) - len(missed)} of {len(courses)} courses"
            + (f"; missed in {', '.join(missed)}." if missed else ".")
        )
    for course in courses:
        if course.name == "steady":
            count = worst(figure("reversals"), course)
            yield f"steady: {count:g} reversals in an hour, {_verdict(count <= REVERSALS)} of at most {REVERSALS}."


def _verdict(met: bool) -> str:
    return f"{'meets' if met else '**misses**'} the target"


def _cells(record: Record, of: Callable[[str], str]) -> str:
    """A figure in each fleet."""
    return " / ".join(of(size) for size in record.labels("fleet"))


def _table(made: Page, record: Record, figure: str, text: Callable[[list[float]], str]) -> None:
    def column(policy: str) -> Callable[[str], str]:
        return lambda course: _cells(
            record,
            lambda size: text(record.values(figure, course=course, fleet=size, policy=policy)),
        )

    courses = {course.name: course for course in _judged(record)}
    columns = [(NAMES[policy], column(policy)) for policy in record.labels("policy")]
    if figure == "in_time":
        columns.insert(0, ("what happens", lambda name: courses[name].about))
        columns.append(
            ("target", lambda name: f"{100 * t:g}" if (t := courses[name].target) else "")
        )
    else:

        def saved(by: str) -> Callable[[str], str]:
            return lambda course: _cells(
                record, lambda size: f"{_saved(record, by, course=course, fleet=size):.2f}"
            )

        columns += [(f"required by {NAMES[by]}", saved(by)) for by in ("cpu-low", "cpu-equal")]
    made.table("course", list(courses), *columns)


def _others(made: Page, record: Record) -> None:
    def column(figure: str, policy: str, form: str, scale: float = 1) -> Callable[[str], str]:
        return lambda course: _cells(
            record,
            lambda size: format(
                scale * _average(record, figure, course=course, fleet=size, policy=policy), form
            ),
        )

    made.table(
        "course",
        record.labels("course"),
        ("CPU target, %", column("cpu_target", "cpu-equal", ".0f", 100)),
        *((f"shed, %: {NAMES[p]}", column("shed", p, ".2f", 100)) for p in ("required", "cpu")),
        *((f"reversals: {NAMES[p]}", column("reversals", p, ".1f")) for p in ("required", "cpu")),
    )


def _plot(record: Record) -> Plot:
    panels = []
    for name in PLOTTED:
        rows = {
            row["policy"]: row
            for row in record.select(course=name, fleet="100")
            if row["round"] == 1
        }
        if not rows:
            continue
        any_row = next(iter(rows.values()))
        minutes = [at * any_row["minutes"] for at in range(len(any_row["least"]))]

        def series(title: str, values: list[int], **more: object) -> Series:
            points = thinned(list(zip(minutes, values, strict=True)))  # noqa: B023
            drawn = [(minute, [value]) for minute, value in points]
            return Series(title, drawn, look={"marker": ""}, **more)

        found = [series("fewest", any_row["least"], reference=True)]
        found += [
            series(NAMES[p], rows[p]["counts"]) for p in ("required", "busy", "cpu") if p in rows
        ]
        panels.append(Panel(found, title=name, x="minutes", y="replicas", kind="lines", zero=True))
    return Plot("Replicas of a fleet of 100, simulated", panels, columns=2)


def thinned(points: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """The points of a line that is nowhere off by more than one replica (Douglas and Peucker 1973)."""
    (begin, low), *inner, (end, high) = points

    def off(point: tuple[float, int]) -> float:
        minute, value = point
        return abs(value - low - (high - low) * (minute - begin) / (end - begin))

    farthest = max(inner, key=off, default=points[0])
    if off(farthest) <= 1:
        return [points[0], points[-1]]
    at = points.index(farthest)
    return thinned(points[: at + 1])[:-1] + thinned(points[at:])


LEAD = (
    "**A simulation**, for fleets that no machine here can run: the load changes in courses, and a "
    "HorizontalPodAutoscaler follows one of four metrics. The capacity model says how many requests are in time."
)

METHOD = (
    "Each second has random arrivals. All replicas are equally busy, as with least requests. The share in time at a "
    "utilisation is `in_time` of `corelane capacity`, for one lane and 50 ms. Above the capacity work waits. While a "
    "tenth of a second's work waits, every request is late. What waits longer than the queue allows is shed. The "
    "peak needs as many replicas as the fleet is large. *Fewest* has, at each second, the fewest replicas that keep "
    "99.5% in time, which start at once, and the spare one. *CPU at equal objective* is the highest target, in steps of "
    "2%, that keeps as many requests in time as the target of the course, or as the required replicas if that is less. "
    "One cannot choose a target for each course: *CPU 58%* is about the lowest of them. The tolerance keeps up to 10% too "
    "many replicas after a step. A replica counts from the decision to start it until it has drained."
)

PARAMETERS = """\
| parameter | value | source |
|---|---|---|
| mix | 90% `/hello`, 10% 7 ms of work ({lane_ms[0]:.2f} ms of a lane); the expensive one 20% ({lane_ms[1]:.2f} ms) | [values-autoscaling.yaml](../../charts/service/values-autoscaling.yaml) |
| utilisation with 99.5% in time | {limit:.1%} | `corelane capacity --p99 50ms --json` |
| utilisation of the required replicas | {allowed:.1%} | `service:corelane_capacity_allowed:ratio` |
| busy share | {busy:.1%} | `corelane capacity --hpa=busy` |
| autoscaler | a look each 15 s, tolerance 10%, up by 100% or 4 pods in 15 s | defaults of Kubernetes 1.33 |
| scale down | 60 s, then half in a minute; busy share 300 s, then 10%; CPU 300 s | `corelane capacity --hpa`, defaults of Kubernetes |
| scrapes and rules | 15 s | `scrape.interval` of charts/monitoring |
| CPU utilisation | of 15 s, up to 15 s old | `--metric-resolution` of metrics-server |
| from the decision to the first request | 3 s | [measured](autoscaling.md#starts-and-ends), the image is on the node |
| drain | 6 s | [measured](autoscaling.md#starts-and-ends), with `drain.settle` of 5 s |
| queue of a lane | 1.45 s | `limits.queue` and `limits.slots` × lane time |
| trend, spare replicas | 15 s, 1 | `slo-objectives.rules.yaml` |"""
