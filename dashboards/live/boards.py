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


@dataclass(frozen=True)
class Panel:
    """A panel and its queries."""

    title: str
    queries: tuple[Query, ...]


@dataclass(frozen=True)
class Dashboard:
    """A dashboard with all panels, including those of collapsed rows."""

    uid: str
    title: str
    variables: tuple[dict, ...]
    annotations: tuple[dict, ...]
    panels: tuple[Panel, ...]


def load(folder: Path = FOLDER) -> list[Dashboard]:
    """All dashboards of a folder."""
    return [read(json.loads(file.read_text())) for file in sorted(folder.glob("*.json"))]


def read(raw: dict) -> Dashboard:
    """One dashboard."""
    return Dashboard(
        uid=raw["uid"],
        title=raw["title"],
        variables=tuple(raw.get("templating", {}).get("list", [])),
        annotations=tuple(raw.get("annotations", {}).get("list", [])),
        panels=tuple(_panels(raw["panels"])),
    )


def _panels(raw: list[dict]) -> Iterator[Panel]:
    for each in raw:
        if each["type"] == "row":
            yield from _panels(each["panels"])
        else:
            queries = [
                Query(target["refId"], target["expr"], bool(target.get("instant")))
                for target in each["targets"]
            ]
            yield Panel(each["title"], tuple(queries))


def empty_by_nature(file: Path = EMPTY) -> dict[tuple[str, str, str], str]:
    """Why a query may be empty, by dashboard, panel and query; "" is every query of the panel."""
    listed = tomllib.loads(file.read_text()).get("panel", [])
    return {
        (each["dashboard"], each["panel"], each.get("query", "")): each["why"] for each in listed
    }
