"""Pages of series, as Prometheus reads them."""

import re
from dataclasses import dataclass, field


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
