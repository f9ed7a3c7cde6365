"""What a comparison found, in Markdown and in a line."""

import math
from statistics import median

from loadtests.bench.machine import others
from loadtests.bench.text import table
from loadtests.compare import verdict
from loadtests.compare.measures import BUILDS, Measure, samples
from loadtests.compare.run import Result
from loadtests.compare.verdict import Finding

ANSWERS = {
    verdict.SLOWER: "slower than base",
    verdict.UNDECIDED: "undecided: it may be slower than base",
    verdict.NO_SLOWER: "no slower than base",
    verdict.NO_DIFFERENCE: "as fast as base",
    verdict.FASTER: "faster than base, and in nothing slower",
}


def answer(result: Result) -> str:
    """The answer in one line."""
    look = result.look
    text = f"{ANSWERS[look.verdict]}, after {look.rounds} round{'s' * (look.rounds > 1)}"
    told = look.of(look.verdict)
    if look.verdict in (verdict.SLOWER, verdict.FASTER):
        text += f": {'; '.join(map(sentence, told))}"
    elif look.verdict == verdict.UNDECIDED:
        text += f" ({', '.join(finding.measure for finding in told)})"
    return text


def sentence(finding: Finding) -> str:
    """One measure as a sentence."""
    return f"{finding.measure} costs {_times(finding)} times base's (margin {finding.margin:g}%)"


def markdown(result: Result) -> str:
    """The verdict, a table of all measures, and how to read it."""
    parts = [
        "# Comparison of two commits",
        f"**Head is {answer(result)}.**",
        table(["", ""], _setting(result)),
        table(
            ["measure", "base", "head", "head's cost × base's", "margin", "p slower", "verdict"],
            [_row(result, measure) for measure in result.plan.measures],
        ),
        _reading(result),
        _disturbance(result),
    ]
    return "\n\n".join(parts) + "\n"


def _setting(result: Result) -> list[list[str]]:
    load = result.load
    rows = [["base", result.builds["base"].title], ["head", result.builds["head"].title]]
    if _same(result):
        rows.append(["", "server and gateway are the same in both"])
    rows.append(["rounds", f"{result.look.rounds}, at most {result.plan.looks[-1]}"])
    rows.append(["time", f"{result.seconds:.0f} s, cargo's profile {result.plan.profile}"])
    if load:
        told = f"{load.rate:,.0f} requests/s, a tenth of them /work of {load.ops:,} steps"
        rows.append(["open loop", told])
    return rows


def _same(result: Result) -> bool:
    """Whether both are the same to the byte."""
    base, head = (result.builds[name] for name in BUILDS)
    return base.server.read_bytes() == head.server.read_bytes() and (base.gateway, base.envoy) == (
        head.gateway,
        head.envoy,
    )


def _row(result: Result, measure: Measure) -> list[str]:
    (finding,) = (one for one in result.look.findings if one.measure == measure.name)
    medians = [
        median(
            measure.quantity(sample)
            for done in result.rounds
            for sample in samples(measure, done, build)
        )
        for build in BUILDS
    ]
    return [
        f"{measure.name}, {measure.unit}",
        *(f"{value:,.{0 if value >= 1000 else 2}f}" for value in medians),
        _times(finding),
        f"{finding.margin:g}%",
        f"{finding.p_slower:.3f}",
        finding.verdict,
    ]


def _times(finding: Finding) -> str:
    if math.isinf(finding.high):
        return f"{finding.ratio:.3f}"
    return f"{finding.ratio:.3f} ({finding.low:.3f}–{finding.high:.3f})"


def _reading(result: Result) -> str:
    percent = 100 * (1 - 2 * result.look.error)
    return (
        "A cost above 1 is worse, for throughput too. It is the Hodges-Lehmann estimate over the rounds, with "
        f"the interval of {percent:.1f}% that belongs to the signed-rank test. Head is slower where more than "
        "the margin is shown, the measures together (Holm); no slower where the interval ends within the "
        f"margin. Each of the two is wrong in at most {verdict.ERROR:.0%} of all comparisons, however often "
        "rounds were added."
    )


def _disturbance(result: Result) -> str:
    return others(
        [
            one.sample["others_cores"] + one.sample["stolen_cores"]
            for done in result.rounds
            for one in done
        ]
    )
