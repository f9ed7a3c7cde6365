"""What a comparison found: the answer, and a table of all measures."""

import math
from collections.abc import Sequence
from statistics import median

from loadtests.bench.compare import verdict
from loadtests.bench.compare.stand import BUILDS, Measure, Round, samples
from loadtests.bench.compare.verdict import Finding, Look
from loadtests.bench.experiment.page import Page
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record

ANSWERS = {
    verdict.SLOWER: "slower than base",
    verdict.UNDECIDED: "undecided: it may be slower than base",
    verdict.NO_SLOWER: "no slower than base",
    verdict.NO_DIFFERENCE: "as fast as base",
    verdict.FASTER: "faster than base, and in nothing slower",
}


def page(
    title: str, record: Record, measures: Sequence[Measure], rounds: Sequence[Round], look: Look
) -> Page:
    """The verdict, a table of all measures, and how to read it."""
    found = Page(title, record)
    found.text(f"**Head is {answer(look)}.**")
    found.points(
        [*(f"{name.capitalize()}: {record.facts[name]}" for name in BUILDS), *_load(record)]
    )
    findings = {one.measure: one for one in look.findings}
    by_name = {measure.name: measure for measure in measures}

    def cost(build: str) -> tuple:
        return build, lambda name: _median(by_name[name], rounds, build)

    found.table(
        "measure",
        list(by_name),
        ("unit", lambda name: by_name[name].unit),
        *map(cost, BUILDS),
        ("head's cost × base's", lambda name: _times(findings[name])),
        ("margin", lambda name: f"{findings[name].margin:g}%"),
        ("p slower", lambda name: f"{findings[name].p_slower:.3f}"),
        ("verdict", lambda name: findings[name].verdict),
    )
    found.plot(_plot(look))
    found.text(_reading(look))
    found.points(found.quality())
    return found


def answer(look: Look) -> str:
    """The answer in one line."""
    text = f"{ANSWERS[look.verdict]}, after {look.rounds} round{'s' * (look.rounds > 1)}"
    findings = look.of(look.verdict)
    if look.verdict in (verdict.SLOWER, verdict.FASTER):
        text += f": {'; '.join(map(_sentence, findings))}"
    elif look.verdict == verdict.UNDECIDED:
        text += f" ({', '.join(finding.measure for finding in findings)})"
    return text


def _sentence(finding: Finding) -> str:
    return f"{finding.measure} costs {_times(finding)} times base's (margin {finding.margin:g}%)"


def _load(record: Record) -> list[str]:
    found = ["Server and gateway are the same in both."] if record.facts["same"] else []
    if load := record.facts["load"]:
        rate, ops = f"{load['rate']:,.0f}", f"{load['ops']:,}"
        found.append(f"Open loop: {rate} requests/s, a tenth of them /work of {ops} steps.")
    return found


def _median(measure: Measure, rounds: Sequence[Round], build: str) -> str:
    value = median(
        measure.quantity(sample) for done in rounds for sample in samples(measure, done, build)
    )
    return f"{value:,.{0 if value >= 1000 else 2}f}"


def _times(finding: Finding) -> str:
    if math.isinf(finding.high):
        return f"{finding.ratio:.3f}"
    return f"{finding.ratio:.3f} ({finding.low:.3f}–{finding.high:.3f})"


def _plot(look: Look) -> Plot:
    """The intervals; one that is not known yet is its estimate alone."""
    points = [
        (
            one.measure,
            [one.ratio] if math.isinf(one.high) else [one.low, one.ratio, one.high],
        )
        for one in look.findings
    ]
    panel = Panel(
        [Series("head / base", points)], x="cost, head / base", log="x", limits={"equal": 1.0}
    )
    return Plot("Head's cost in base's, with its interval", [panel])


def _reading(look: Look) -> str:
    percent = 100 * (1 - 2 * look.error)
    return (
        "A cost above 1 is worse, for throughput too. It is the Hodges-Lehmann estimate over the rounds, with "
        f"the interval of {percent:.1f}% that belongs to the signed-rank test. Head is slower where more than "
        "the margin is shown, the measures together (Holm); no slower where the interval ends within the "
        f"margin. Each of the two is wrong in at most {verdict.ERROR:.0%} of all comparisons, however often "
        "rounds were added."
    )
