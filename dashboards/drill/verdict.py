"""The outcome of a drill: each alert's history, or the error that ended the drill."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


class DrillError(Exception):
    """Something that a drill needs is missing."""


class Cancelled(Exception):
    """The whole run was interrupted."""


OK = "ok"


def split(alert: str) -> tuple[str, dict[str, str]]:
    name, _, severity = alert.partition("/")
    return name, {"severity": severity} if severity else {}


@dataclass(frozen=True)
class Firing:
    labels: Mapping[str, str]
    quiet: bool = False


def matches(found: Mapping[str, str], alert: str, labels: Mapping[str, str]) -> bool:
    name, severity = split(alert)
    wanted = {"alertname": name, **severity, **labels}
    return wanted.items() <= found.items()


@dataclass
class Track:
    """An alert's history, in seconds."""

    alert: str
    fires: float
    """Maximum seconds until the alert fires."""
    resolves: float
    told: bool = False
    quiet: bool = False
    early: bool = False
    """Whether the alert fired before its cause."""
    fired: float | None = None
    resolved: float | None = None
    error: str = ""
    others: list[Mapping[str, str]] = field(default_factory=list)

    def fires_in(self, firing: Iterable[Firing], namespace: str) -> bool:
        wanted = {"namespace": namespace}
        return any(matches(each.labels, self.alert, wanted) for each in firing)

    def look(
        self,
        firing: Iterable[Firing],
        told: Iterable[Mapping[str, str]],
        labels: Mapping[str, str],
        after: float,
    ) -> bool:
        """Records the state after this time. Returns whether the alert has fired and was notified
        or inhibited.
        """
        found = [each for each in firing if matches(each.labels, self.alert, {})]
        right = [each for each in found if matches(each.labels, self.alert, labels)]
        if self.fired is None and right:
            self.fired = after
        if self.fired is None:
            same = [each.labels for each in found]
            self.others = [each for each in same if each.get("namespace") == labels["namespace"]]
            return False
        self.quiet = self.quiet or any(each.quiet for each in right)
        self.told = self.told or any(matches(each, self.alert, labels) for each in told)
        return self.told or self.quiet

    def gone(self, firing: Iterable[Firing], labels: Mapping[str, str], after: float) -> bool:
        if self.resolved is None and not any(
            matches(each.labels, self.alert, labels) for each in firing
        ):
            self.resolved = after
        return self.resolved is not None

    @property
    def verdict(self) -> str:
        if self.error:
            return self.error
        if self.early:
            return "fired before its cause"
        if self.fired is None:
            return f"did not fire within {self.fires:.0f} s{self._instead()}"
        if not (self.told or self.quiet):
            return f"fired without a notification within {self.fires:.0f} s"
        if self.resolved is None:
            return f"did not resolve within {self.resolves:.0f} s"
        return OK

    def _instead(self) -> str:
        if not self.others:
            return ""
        sets = [
            ", ".join(f"{name}={value}" for name, value in sorted(each.items()))
            for each in self.others
        ]
        return f"; it fired with {'; '.join(sets)}"
