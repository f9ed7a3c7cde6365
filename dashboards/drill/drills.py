"""The definition of a drill, and the table of all drills."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from dashboards.drill.place import Place
from dashboards.drill.verdict import split

Labels = Mapping[str, str]

Cause = Callable[[Place], Iterator[Labels]]
"""Starts healthy parts, makes the condition true, and yields the labels that the alert must have. Afterwards it
ends the cause. The parts keep running until the alert has resolved.
"""


@dataclass(frozen=True)
class Drill:
    """A cause that makes one or more alerts fire."""

    name: str
    alerts: tuple[str, ...]
    """Names of alerts: `alert`, or `alert/severity` if a name has several severities."""
    how: str
    cause: Cause
    fires: float
    resolves: float
    """Maximum seconds until each alert has resolved."""
    whole: bool = False
    """Whether the drill uses the whole platform of the quiet period, which has an API server; one such drill at
    a time.
    """
    busy: bool = False
    """Whether the drill keeps a CPU busy; one such drill at a time."""

    @property
    def longest(self) -> float:
        """Returns the maximum duration in seconds."""
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
    """Returns the drills of these alerts; without names, all drills."""
    if not names:
        return table
    return {
        name: each
        for name, each in table.items()
        if any(split(alert)[0] in names for alert in each.alerts)
    }


def known(table: dict[str, Drill]) -> set[str]:
    """Returns the alerts that have a drill."""
    return {split(alert)[0] for each in table.values() for alert in each.alerts}
