"""The dashboards as Grafana reads them: variables, annotations, and panels with their queries."""

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from local.settings import REPOSITORY

FOLDER = REPOSITORY / "dashboards" / "json"
EMPTY = REPOSITORY / "dashboards" / "grafana" / "empty_by_nature.toml"


@dataclass(frozen=True)
class Query:
    """One query of a panel."""

    ref: str
    expression: str
    instant: bool
    format: str = "time_series"
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """A panel, and the row that it is in, if that is folded."""

    title: str
    kind: str
    queries: tuple[Query, ...]
    raw: dict
    row: str = ""

    @property
    def defaults(self) -> dict:
        """How its fields are shown: unit, thresholds and the like."""
        return self.raw.get("fieldConfig", {}).get("defaults", {})

    @property
    def options(self) -> dict:
        """What its kind of panel can be told."""
        return self.raw.get("options", {})


@dataclass(frozen=True)
class Dashboard:
    """A dashboard with all panels, those of folded rows too."""

    uid: str
    title: str
    variables: tuple[dict, ...]
    annotations: tuple[dict, ...]
    panels: tuple[Panel, ...]
    raw: dict


def load(folder: Path = FOLDER) -> list[Dashboard]:
    """All dashboards of a folder."""
    return [read(json.loads(file.read_text())) for file in sorted(folder.glob("*.json"))]


def read(raw: dict) -> Dashboard:
    """One dashboard."""
    # The built-in one shows Grafana's own annotations, not those of a query.
    annotations = [
        each for each in raw.get("annotations", {}).get("list", []) if not each.get("builtIn")
    ]
    return Dashboard(
        uid=raw["uid"],
        title=raw["title"],
        variables=tuple(raw.get("templating", {}).get("list", [])),
        annotations=tuple(annotations),
        panels=tuple(_panels(raw["panels"])),
        raw=raw,
    )


def _panels(raw: list[dict], row: str = "") -> Iterator[Panel]:
    for each in raw:
        if each["type"] == "row":
            yield from _panels(each.get("panels", []), each["title"])
        else:
            queries = tuple(_query(target) for target in each.get("targets", []))
            yield Panel(each.get("title", ""), each["type"], queries, each, row)


def _query(target: dict) -> Query:
    return Query(
        ref=target["refId"],
        expression=target["expr"],
        instant=bool(target.get("instant")),
        format=target.get("format", "time_series"),
        legend=target.get("legendFormat", ""),
    )


def places(dashboard: Dashboard) -> Iterator[tuple[dict, int]]:
    """Every row and panel with the line of the grid that it begins at when all rows are open."""
    shift = 0
    for raw in sorted(dashboard.raw["panels"], key=lambda each: each["gridPos"]["y"]):
        yield raw, raw["gridPos"]["y"] + shift
        nested = raw.get("panels", []) if raw["type"] == "row" else []
        if nested:
            top = min(each["gridPos"]["y"] for each in nested)
            below = raw["gridPos"]["y"] + shift + 1
            for each in nested:
                yield each, below + each["gridPos"]["y"] - top
            shift += max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in nested) - top


def empty_by_nature(file: Path = EMPTY) -> dict[tuple[str, str, str], str]:
    """Why a query may be empty, by dashboard, panel and query; "" is every query of the panel."""
    if not file.exists():
        return {}
    listed = tomllib.loads(file.read_text()).get("panel", [])
    return {
        (each["dashboard"], each["panel"], each.get("query", "")): each["why"] for each in listed
    }
