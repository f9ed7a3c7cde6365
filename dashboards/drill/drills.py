"""What a drill is, and the table of all of them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from dashboards.drill.place import Place
from dashboards.drill.verdict import split

Labels = Mapping[str, str]

Cause = Callable[[Place], Iterator[Labels]]
"""Starts the parts, all well; makes the condition true and yields the labels that the alert must have; when it goes
on, ends the cause. The parts go on until the alert is resolved."""


@dataclass(frozen=True)
class Drill:
    """How one or more alerts are made to fire."""

    name: str
    alerts: tuple[str, ...]
    """As `alert` or, where one name has several severities, `alert/severity`."""
    how: str
    cause: Cause
    fires: float
    resolves: float
    """Most seconds until each."""
    whole: bool = False
    """It is done to the whole platform of the calm time, which has an API server; one such drill at a time."""
    busy: bool = False
    """It keeps a CPU busy; one such drill at a time, because they would take each other's."""

    @property
    def longest(self) -> float:
        """Most seconds that it may take."""
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
    """The drills of these alerts; of all where none is named."""
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
