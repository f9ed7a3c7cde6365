"""Judges the results of a dashboard's queries."""

from dataclasses import dataclass

from dashboards.live.boards import Dashboard, Panel, Query
from dashboards.live.prometheus import Result


@dataclass(frozen=True)
class Finding:
    """A query without data, or one with data although it is listed as empty."""

    where: str
    query: str
    reason: str


def wrong(result: Result) -> str:
    """What is wrong with a result; "" if it has a number."""
    if result.error:
        return result.error
    if not result.series:
        return "empty"
    if not any(series.numbers for series in result.series):
        return "only NaN"
    return ""


class Judge:
    """Collects the findings of one dashboard; knows which queries may be empty."""

    def __init__(self, dashboard: Dashboard, empty: dict[tuple[str, str, str], str]) -> None:
        self.dashboard = dashboard
        self.failures: list[Finding] = []
        self.notes: list[Finding] = []
        self.queries = 0
        self.idle = 0
        """Queries that are empty and may be."""
        self._empty = {(panel, ref) for uid, panel, ref in empty if uid == dashboard.uid}
        self._used: set[tuple[str, str]] = set()

    def panel(self, panel: Panel, query: Query, expression: str, result: Result) -> None:
        """Judges a query of a panel."""
        reason = wrong(result)
        keys = {(panel.title, ""), (panel.title, query.ref)} & self._empty
        self._used |= keys
        name = f"{panel.title} | {query.ref}"
        if keys and reason in ("empty", "only NaN"):
            self.idle += 1
            reason = ""
        elif keys and not reason:
            self.notes.append(
                Finding(self._at(name), expression, "has data, but is listed as empty")
            )
        self.other(name, expression, reason)

    def other(self, name: str, expression: str, reason: str) -> None:
        """Counts a query; `reason` is what is wrong with it, or ""."""
        self.queries += 1
        if reason:
            self.failures.append(Finding(self._at(name), expression, reason))

    def end(self) -> None:
        """Reports panels that are listed as empty and do not exist."""
        for title, ref in self._empty - self._used:
            where = self._at(f"{title} | {ref or 'all queries'}")
            self.failures.append(Finding(where, "", "is listed as empty, but does not exist"))

    def _at(self, name: str) -> str:
        return f"{self.dashboard.title} | {name}"
