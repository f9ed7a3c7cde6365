"""Where requests spend their time, as the server's own histograms tell it."""

import re
from dataclasses import dataclass

SERIES = re.compile(
    r"^(?P<name>corelane_\w+)_(?P<part>sum|count)(?:\{(?P<labels>.*)\})? (?P<value>\S+)"
)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

MIXED_IN = {"lane"}
"""Labels that are added up."""


@dataclass(frozen=True)
class Counted:
    """A histogram at one moment: how often, and how much in all."""

    count: float = 0.0
    total: float = 0.0


def read(text: str) -> dict[tuple[str, ...], Counted]:
    """The histograms by name and labels."""
    found: dict[tuple[str, ...], Counted] = {}
    for line in text.splitlines():
        match = SERIES.match(line)
        if not match:
            continue
        labels = LABEL.findall(match["labels"] or "")
        words = (f"{name}={value}" for name, value in labels if name not in MIXED_IN)
        key = (match["name"], *words)
        known, value = found.get(key, Counted()), float(match["value"])
        if match["part"] == "count":
            found[key] = Counted(known.count + value, known.total)
        else:
            found[key] = Counted(known.count, known.total + value)
    return found


def between(before: str, after: str) -> list[dict]:
    """What was counted between two readings: how often, and the mean."""
    earlier, found = read(before), []
    for key, now in read(after).items():
        then = earlier.get(key, Counted())
        count, total = now.count - then.count, now.total - then.total
        if count > 0:
            name, *labels = key
            found.append(
                {"name": name, "labels": labels, "count": int(count), "mean": total / count}
            )
    return found
