"""The definition of a drill, and the table of all drills."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from dashboards.drill.place import Place
from dashboards.drill.verdict import split

Labels = Mapping[str, str]

Cause = Callable[[Place], Iterator[Labels]]
"""Starts healthy parts, makes the condition true, and yields the labels that the alert must have. Then it ends the
cause. The parts keep running until the alert is resolved."""


@dataclass(frozen=True)
class Drill:
    """A cause that makes one or more alerts fire."""

    name: str
    alerts: tuple[str, ...]
    """As `alert` or, if a name has several severities, `alert/severity`."""
    how: str
    cause: Cause
    fires: float
    resolves: float
    """Longest time in seconds until each."""
    whole: bool = False
    """Runs on the whole platform of the quiet period, which has an API server; one at a time."""
    busy: bool = False
    """Keeps a CPU busy; one at a time."""

    @property
    def longest(self) -> float:
        """Longest time in seconds."""
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
    """Adds a cause to the table, under the name of its function."""

    def add(cause: Cause) -> Cause:
        name = cause.__name__.replace("_", "-")
        TABLE[name] = Drill(name, alerts, how, cause, fires, resolves, whole, busy)
        return cause

    return add


def chosen(names: list[str], table: dict[str, Drill]) -> dict[str, Drill]:
    """The drills of these alerts; all without names."""
    if not names:
        return table
    return {
        name: each
        for name, each in table.items()
        if any(split(alert)[0] in names for alert in each.alerts)
    }


def known(table: dict[str, Drill]) -> set[str]:
    """The alerts that have a drill."""
    return {split(alert)[0] for each in table.values() for alert in each.alerts}
