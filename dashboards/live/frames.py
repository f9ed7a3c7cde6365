"""Turns results into what panels show: names of series, rows of tables, colours of values."""

import re
from dataclasses import dataclass

from dashboards.live.boards import Panel, Query
from dashboards.live.prometheus import Result, Series


@dataclass(frozen=True)
class Answered:
    """A query of a panel and what came of it."""

    query: Query
    result: Result


@dataclass(frozen=True)
class Filled:
    """A panel with the results of all its queries."""

    panel: Panel
    answers: tuple[Answered, ...]

    @property
    def named(self) -> list[tuple[str, Series]]:
        """Every series that has a number, by its name."""
        return [
            (name(answer.query.legend, series.labels), series)
            for answer in self.answers
            for series in answer.result.series
            if series.numbers
        ]


def name(legend: str, labels: dict[str, str]) -> str:
    """What a series is called: the legend with its labels filled in."""
    if not legend or legend == "__auto":
        shown = {key: value for key, value in labels.items() if key != "__name__"}
        return ", ".join(shown.values()) or labels.get("__name__", "value")
    filled = re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match: labels.get(match[1], ""), legend)
    return filled.strip() or "value"


def last(series: Series) -> float:
    """The last value that is a number."""
    return series.numbers[-1]


def colour(value: float, thresholds: dict | None) -> str | None:
    """The colour of a value by absolute thresholds."""
    found = None
    for step in (thresholds or {}).get("steps", []):
        if step["value"] is None or value >= step["value"]:
            found = step["color"]
    return found


def mapped(value: object, mappings: list[dict]) -> tuple[str, str | None] | None:
    """The text and colour that stand for a value."""
    text = value if isinstance(value, str) else f"{value:g}"
    for mapping in mappings:
        if mapping["type"] == "value" and text in mapping["options"]:
            option = mapping["options"][text]
            return option.get("text", text), option.get("color")
    return None


Row = dict[str, str | float]


def rows(filled: Filled) -> list[Row]:
    """The rows of a table: those of all queries, merged where what they share is the same."""
    many = len(filled.answers) > 1
    merged: list[Row] = []
    for answer in filled.answers:
        column = f"Value #{answer.query.ref}" if many else "Value"
        for series in answer.result.series:
            labels = {key: each for key, each in series.labels.items() if key != "__name__"}
            _merge(merged, labels, column, series.samples[-1][1])
    return merged


def _merge(merged: list[Row], labels: dict[str, str], column: str, value: float) -> None:
    alike = [
        row
        for row in merged
        if column not in row and all(row[key] == labels[key] for key in row.keys() & labels.keys())
    ]
    for row in alike:
        row.update(labels, **{column: value})
    if not alike:
        merged.append({**labels, column: value})


def columns(panel: Panel) -> list[tuple[str, str]]:
    """The columns of a table in their order: the field, and what it is called."""
    fields: list[str] = []
    order: dict[str, int] = {}
    names: dict[str, str] = {}
    for transformation in panel.raw.get("transformations", []):
        options = transformation.get("options", {})
        if transformation["id"] == "filterFieldsByName":
            fields = options["include"]["names"]
        elif transformation["id"] == "organize":
            order, names = options.get("indexByName", {}), options.get("renameByName", {})
            hidden = options.get("excludeByName", {})
            fields = [field for field in fields if not hidden.get(field)]
    fields = sorted(fields, key=lambda field: order.get(field, len(order)))
    return [(field, names.get(field, field)) for field in fields]


def settings(panel: Panel, column: str) -> dict:
    """How a column or series is shown: what holds for all, with its own over it."""
    found = dict(panel.defaults)
    for override in panel.raw.get("fieldConfig", {}).get("overrides", []):
        matcher = override["matcher"]
        pattern = str(matcher.get("options", "")).strip("/")
        fits = {
            "byName": matcher.get("options") == column,
            "byRegexp": bool(re.search(pattern, column)),
        }.get(matcher["id"], False)
        if fits:
            found |= {each["id"]: each.get("value") for each in override["properties"]}
    return found
