"""The report of `gateway --levers`: what each lever adds to the shipped configuration, or saves."""

from statistics import fmean, median

from loadtests.bench.gateway import report
from loadtests.bench.gateway.levers import LEVERS
from loadtests.bench.text import table

Sample = dict


def _cost(sample: Sample) -> float:
    return sample["closed"]["cpu_us"]


def differences(samples: list[Sample]) -> list[float]:
    """CPU time of each sample against its neighbours without the lever, in percent."""
    return [(_cost(sample) / fmean(map(_cost, sample["base"])) - 1) * 100 for sample in samples]


def noise(record: dict) -> list[float]:
    """How much two neighbouring measurements of the shipped configuration itself differ, in percent."""
    pairs = (
        map(_cost, sample["base"]) for samples in record["results"].values() for sample in samples
    )
    return [abs(after / before - 1) * 100 for before, after in pairs]


def markdown(record: dict) -> str:
    """The whole report."""
    found = [
        "# What each lever gives",
        (
            "Written by `python3 loadtests/bench gateway --levers`: the shipped configuration with one "
            "change each, against the same without it, measured just before and just after. Percent of "
            "its CPU time; below 0 is cheaper. A figure is the median of the rounds, with the lowest and "
            "the highest in brackets."
        ),
        report.setting(record),
        "\n".join(f"- {sentence}" for sentence in reading(record)),
        _table(record),
        "## How it is measured",
        report.method(record),
    ]
    return "\n\n".join(found) + "\n"


def reading(record: dict) -> list[str]:
    """What the figures say, in sentences."""
    bases = [
        _cost(base)
        for samples in record["results"].values()
        for sample in samples
        for base in sample["base"]
    ]
    return [
        (
            f"The shipped configuration took {median(bases):.2f} µs per request, in a closed loop that keeps "
            "its CPU busy."
        ),
        (
            f"Two measurements of it, one soon after the other, differed by {median(noise(record)):.1f}% in "
            "the median. A lever whose brackets include 0 gave nothing that could be measured."
        ),
        report.disturbance(record),
        report.failures(record),
    ]


def _table(record: dict) -> str:
    told = {lever.name: lever.setting for lever in LEVERS}
    found = {name: differences(samples) for name, samples in record["results"].items()}
    order = sorted(found, key=lambda name: median(found[name]))
    lines = [[name, told[name], _percent(found[name])] for name in order]
    return table(["lever", "setting", "CPU per request, %"], lines)


def _percent(values: list[float]) -> str:
    return f"{median(values):+.1f} ({min(values):+.1f} to {max(values):+.1f})"
