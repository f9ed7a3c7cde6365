"""The report of `gateway --levers`: what each lever adds to the shipped configuration, or saves."""

from statistics import median

from loadtests.bench.gateway import report
from loadtests.bench.gateway.levers import LEVERS
from loadtests.bench.text import spread, table

Sample = dict


def difference(sample: Sample) -> float:
    """CPU time with the lever against that without it, in percent: the median of the pairs."""
    return (
        median(changed["cpu_us"] / base["cpu_us"] for base, changed in sample["pairs"]) - 1
    ) * 100


def markdown(record: dict) -> str:
    """The whole report."""
    found = [
        "# What each lever gives",
        (
            "Written by `python3 loadtests/bench gateway --levers`: the shipped configuration with one "
            "change each, against the same without it. In each round both are started anew and asked in "
            "turns, a fraction of a second each. Percent of the CPU time; below 0 is cheaper. A figure is "
            "the median of the rounds, each the median of its pairs; the lowest round and the highest are in "
            "brackets."
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
        base["cpu_us"]
        for samples in record["results"].values()
        for sample in samples
        for base, _ in sample["pairs"]
    ]
    sentences = [
        f"The shipped configuration took {spread(bases, 1)} µs per request, in a closed loop.",
        "A lever whose brackets include 0 gave nothing that could be measured.",
    ]
    return [*sentences, report.disturbance(record), report.failures(record)]


def _table(record: dict) -> str:
    told = {lever.name: lever.setting for lever in LEVERS}
    found = {name: [*map(difference, samples)] for name, samples in record["results"].items()}
    order = sorted(found, key=lambda name: median(found[name]))
    lines = [[name, told[name], _percent(found[name])] for name in order]
    return table(["lever", "setting", "CPU per request, %"], lines)


def _percent(values: list[float]) -> str:
    return f"{median(values):+.1f} ({min(values):+.1f} to {max(values):+.1f})"
