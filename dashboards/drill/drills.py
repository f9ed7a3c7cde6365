"""The definition of a drill, and the table of all drills."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from dashboards.drill.place import Place
from dashboards.drill.verdict import split

Labels = Mapping[str, str]

Cause = Callable[[Place], Iterator[Labels]]
"""Starts healthy parts, makes the condition true, and yields the labels that the alert must have.
Afterwards it removes the cause; the parts keep running until the alert has resolved.
"""


@dataclass(frozen=True)
class Drill:
    name: str
    alerts: tuple[str, ...]
    """`alert`, or `alert/severity` if an alert has several severities."""
    how: str
    cause: Cause
    fires: float
    resolves: float
    """Maximum seconds until every alert has resolved."""
    whole: bool = False
    """Whether the drill needs the quiet period's platform, which has an API server. Only one such
    drill runs at a time.
    """
    busy: bool = False
    """Whether the drill keeps a CPU busy. Only one such drill runs at a time."""

    @property
    def longest(self) -> float:
        return self.fires + self.resolves


TABLE: dict[str, Drill] = {}


def drill(
    *alerts: str,
    how: str,
    fires: float = 180,
    resolves: float = 120,
    whole: bool = False,
    busy: bool = False,
) -> Callable[[Cause], Cause]:
    def add(cause: Cause) -> Cause:
        name = cause.__name__.replace("_", "-")
        TABLE[name] = Drill(name, alerts, how, cause, fires, resolves, whole, busy)
        return cause

    return add


def chosen(names: list[str], table: dict[str, Drill]) -> dict[str, Drill]:
    """Returns these alerts' drills, or all drills if no alert is named."""
    if not names:
        return table
    return {
        name: each
        for name, each in table.items()
        if any(split(alert)[0] in names for alert in each.alerts)
    }


def known(table: dict[str, Drill]) -> set[str]:
    return {split(alert)[0] for each in table.values() for alert in each.alerts}
