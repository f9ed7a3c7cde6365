"""Values for the variables of a dashboard, and how they are filled into its queries."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dashboards.live.boards import Dashboard
from dashboards.live.prometheus import STEP, Prometheus, Range
from tools.errors import ToolError

REFERENCE = re.compile(r"\$\{?(\w+)\}?")

BUILT_IN = {"__rate_interval": f"{4 * STEP}s"}
"""Grafana's: at least four scrapes, so that a rate always has two samples."""

LABEL_VALUES = re.compile(r"label_values\((?P<series>.+), (?P<label>\w+)\)", re.DOTALL)


@dataclass(frozen=True)
class Offer:
    """The values that a variable offers."""

    name: str
    query: str
    values: tuple[str, ...]


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with every variable replaced by its value."""

    def value(match: re.Match[str]) -> str:
        try:
            return {**BUILT_IN, **values}[match[1]]
        except KeyError:
            raise ToolError(f"unknown variable ${match[1]} in {text}") from None

    return REFERENCE.sub(value, text)


def choose(
    dashboard: Dashboard, prometheus: Prometheus, over: Range, preferred: Mapping[str, str]
) -> tuple[dict[str, str], list[Offer]]:
    """The value of each variable: all, the preferred one, or the first; and what each offers."""
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
