"""Asks Prometheus for what the variables of a dashboard offer, and chooses as its reader finds them."""

import re
from dataclasses import dataclass

from dashboards.live.boards import Dashboard
from dashboards.live.filling import ALL, Range, Value, fill
from dashboards.live.prometheus import Prometheus
from tools.errors import ToolError

LABEL_VALUES = re.compile(
    r"label_values\(\s*(?:(?P<series>.+?)\s*,\s*)?(?P<label>\w+)\s*\)\Z", re.DOTALL
)


@dataclass(frozen=True)
class Offer:
    """What a variable offers, by the query that it was asked with."""

    name: str
    query: str
    values: tuple[str, ...]


def choose(
    dashboard: Dashboard, prometheus: Prometheus, over: Range, preferred: dict[str, str]
) -> tuple[dict[str, Value], list[Offer]]:
    """The value of each variable: what is preferred, the dashboard's own, or the first on offer."""
    values: dict[str, Value] = {}
    offers = []
    for variable in dashboard.variables:
        name = variable["name"]
        if variable["type"] == "datasource":
            values[name] = Value(("prometheus",))
            continue
        offer = _offer(variable, prometheus, values, over)
        offers.append(offer)
        values[name] = _chosen(variable, offer.values, preferred.get(name))
    return values, offers


def _offer(variable: dict, prometheus: Prometheus, values: dict[str, Value], over: Range) -> Offer:
    name = variable["name"]
    if variable["type"] in ("custom", "interval"):
        options = tuple(each.strip() for each in variable["query"].split(","))
        return Offer(name, variable["query"], options)
    if variable["type"] != "query":
        raise ToolError(f"variable {name} is a {variable['type']}, which is not known here")
    raw = variable["query"]
    query = fill(raw["query"] if isinstance(raw, dict) else raw, values, over)
    match = LABEL_VALUES.match(query.strip())
    if match is None:
        raise ToolError(f"variable {name}: {query} is no label_values(series, label)")
    found = prometheus.label_values(match["label"], match["series"], over)
    pattern = variable.get("regex")
    if pattern:
        found = [value for value in found if re.search(pattern.strip("/"), value)]
    return Offer(name, query, tuple(found))


def _chosen(variable: dict, offered: tuple[str, ...], preferred: str | None) -> Value:
    many = bool(variable.get("multi") or variable.get("includeAll"))
    current = (variable.get("current") or {}).get("value")
    if variable.get("includeAll") and current in (ALL, [ALL]):
        # A dashboard may say what stands for all; else it is every value.
        return Value(offered, many, variable.get("allValue") or None)
    if preferred in offered:
        return Value((preferred,), many)
    wanted = current if isinstance(current, list) else [current]
    kept = tuple(each for each in wanted if each in offered)
    return Value(kept or offered[:1] or ("",), many)
