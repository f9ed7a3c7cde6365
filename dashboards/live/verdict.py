"""Judges what came of the queries of dashboards."""

from dataclasses import dataclass

from dashboards.live.boards import Dashboard, Panel, Query
from dashboards.live.prometheus import Result


@dataclass(frozen=True)
class Finding:
    """A query that has no data, or has some against its list."""

    where: str
    query: str
    words: str


def wrong(result: Result) -> str:
    """What is wrong with a result; "" where it has a number."""
    if result.error:
        return result.error
    if not result.series:
        return "empty"
    if not any(series.numbers for series in result.series):
        return "only NaN"
    return ""


class Judge:
    """Takes the results of one dashboard, and knows what may be empty by nature."""

    def __init__(self, dashboard: Dashboard, empty: dict[tuple[str, str, str], str]) -> None:
        self.dashboard = dashboard
        self.failures: list[Finding] = []
        self.notes: list[Finding] = []
        self.queries = 0
        self.idle = 0
        """Queries that were empty, and may be."""
        self._empty = {
            (panel, ref): why for (uid, panel, ref), why in empty.items() if uid == dashboard.uid
        }
        self._used: set[tuple[str, str]] = set()

    def panel(self, panel: Panel, query: Query, expression: str, result: Result) -> None:
        """Judges a query of a panel."""
        words = wrong(result)
        keys = [key for key in ((panel.title, ""), (panel.title, query.ref)) if key in self._empty]
        self._used.update(keys)
        where = f"{self.dashboard.title} | {panel.title} | {query.ref}"
        if keys and words in ("", "empty", "only NaN"):
            if words:
                self.idle += 1
            else:
                self.notes.append(Finding(where, expression, "has data, though it is listed"))
            words = ""
        self._count(where, expression, words)

    def other(self, name: str, expression: str, words: str) -> None:
        """Takes what is wrong, or "", with a variable or an annotation."""
        self._count(f"{self.dashboard.title} | {name}", expression, words)

    def _count(self, where: str, expression: str, words: str) -> None:
        self.queries += 1
        if words:
            self.failures.append(Finding(where, expression, words))

    def end(self) -> None:
        """What is listed and is no panel."""
        for title, ref in self._empty.keys() - self._used:
            where = f"{self.dashboard.title} | {title} | {ref or 'all queries'}"
            self.failures.append(
                Finding(where, "", "is listed as empty by nature, but is not there")
            )
