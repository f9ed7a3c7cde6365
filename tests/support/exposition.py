"""Pages of series, as Prometheus reads them, and the catalogue of series against what a part shows."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dashboards.metrics import cost
from dashboards.metrics.catalogue import Part, Series


@dataclass
class Family:
    """The series of one name; those of a histogram begin with it."""

    name: str
    type: str
    help: str
    samples: list[dict[str, str]] = field(default_factory=list)
    """The labels of each series."""

    def labels(self) -> set[str]:
        """The names of all labels, without that of the buckets."""
        return {label for sample in self.samples for label in sample} - {"le"}


def families(text: str) -> dict[str, Family]:
    """The families of a page by the names that queries have for them."""
    # OpenMetrics names a counter without what its series end in.
    ending = {"counter": "_total"} if text.endswith("# EOF\n") else {}
    helps = dict(re.findall(r"^# HELP (\S+) (.+)$", text, re.MULTILINE))
    found: dict[str, Family] = {}
    family = None
    for line in text.splitlines():
        if declared := re.match(r"# TYPE (\S+) (\w+)$", line):
            name, kind = declared.groups()
            family = Family(name + ending.get(kind, ""), kind, helps.get(name, ""))
            found[family.name] = family
        elif not line.startswith("#"):
            series = re.match(r"(\w+)(?:\{(.*)\})? \S+$", line)
            assert family and series and series[1].startswith(family.name), line
            family.samples.append(dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', series[2] or "")))
    return found


def differences(parts: list[Part], text: str) -> list[str]:
    """Where a page of the example's target is other than the catalogue says."""
    shown = families(text)
    prefixes = tuple(prefix.name for part in parts for prefix in part.prefixes)
    listed = {each.name: (each, part.example) for part in parts for each in part.series()}
    words = [
        f"{name}: shown, not in the catalogue"
        for name in shown.keys() - listed.keys()
        if not name.startswith(prefixes or "-")
    ]
    for name, (series, example) in listed.items():
        if (family := shown.get(name)) and family.samples:
            words += _of_series(series, family, example)
        elif not series.optional:
            words.append(f"{name}: in the catalogue, not shown")
    return sorted(words)


def _of_series(series: Series, family: Family, example: Mapping[str, int]) -> Iterator[str]:
    said = {"type": series.type, "labels": set(series.labels), "meaning": series.meaning}
    # Envoy has no help texts.
    found = {
        "type": family.type,
        "labels": family.labels(),
        "meaning": family.help or series.meaning,
    }
    for what, wanted in said.items():
        if found[what] != wanted:
            yield f"{series.name}: {what} {wanted!r} in the catalogue, {found[what]!r} shown"
    for label, values in series.values.items():
        if others := {sample[label] for sample in family.samples if label in sample} - {*values}:
            yield f"{series.name}: {label} is not listed to be {', '.join(sorted(others))}"
    wanted, number = cost.series(series.cost, example), len(family.samples)
    if number > wanted or (number < wanted and not series.at_most):
        yield f"{series.name}: {number} series shown, {series.cost} = {wanted} in the catalogue"
