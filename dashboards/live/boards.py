"""The dashboards as Grafana reads them: panels with queries, annotations, and values for the
variables.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stack import REPOSITORY
from stack.prometheus import STEP, Prometheus, Range
from tools.errors import ToolError

FOLDER = REPOSITORY / "dashboards" / "json"
EMPTY = REPOSITORY / "dashboards" / "grafana" / "empty_by_nature.toml"


@dataclass(frozen=True)
class Query:
    ref: str
    expression: str
    instant: bool


@dataclass(frozen=True)
class Panel:
    title: str
    queries: tuple[Query, ...]


@dataclass(frozen=True)
class Dashboard:
    uid: str
    title: str
    variables: tuple[dict, ...]
    annotations: tuple[dict, ...]
    panels: tuple[Panel, ...]


def load(folder: Path = FOLDER) -> list[Dashboard]:
    return [read(json.loads(file.read_text())) for file in sorted(folder.glob("*.json"))]


def read(raw: dict) -> Dashboard:
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
    """Reasons why queries may be empty, by dashboard, panel and query; "" means every query of the
    panel."""
    listed = tomllib.loads(file.read_text()).get("panel", [])
    return {
        (each["dashboard"], each["panel"], each.get("query", "")): each["why"] for each in listed
    }


REFERENCE = re.compile(r"\$\{?(\w+)\}?")

BUILT_IN = {"__rate_interval": f"{4 * STEP}s", "__rate_interval_ms": str(4000 * STEP)}
"""Grafana's built-in variables: at least four scrapes, so that a rate always has two samples."""

LABEL_VALUES = re.compile(r"label_values\((?P<series>.+), (?P<label>\w+)\)", re.DOTALL)


@dataclass(frozen=True)
class Offer:
    name: str
    query: str
    values: tuple[str, ...]


def fill(text: str, values: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        try:
            return {**BUILT_IN, **values}[match[1]]
        except KeyError:
            raise ToolError(f"unknown variable ${match[1]} in {text}") from None

    return REFERENCE.sub(value, text)


def choose(
    dashboard: Dashboard, prometheus: Prometheus, over: Range, preferred: Mapping[str, str]
) -> tuple[dict[str, str], list[Offer]]:
    """Each variable's value (all, the preferred one, or the first) and the values that it offers."""
    values: dict[str, str] = {}
    offers = []
    for variable in dashboard.variables:
        name = variable["name"]
        if variable["type"] == "datasource":
            values[name] = "prometheus"
            continue
        query = fill(variable["query"]["query"], values)
        match = LABEL_VALUES.fullmatch(query)
        if match is None:
            raise ToolError(f"variable {name}: {query} is not label_values(series, label)")
        found = prometheus.label_values(match["label"], match["series"], over)
        offers.append(Offer(name, query, tuple(found)))
        values[name] = _value(variable, found, preferred.get(name))
    return values, offers


def _value(variable: dict, offered: list[str], preferred: str | None) -> str:
    if variable.get("includeAll"):
        return variable["allValue"]
    return preferred if preferred in offered else next(iter(offered), "")
