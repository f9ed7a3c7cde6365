"""The report of a run, for the terminal and docs/results/drill.md."""

import os
from collections.abc import Sequence
from pathlib import Path

from dashboards.drill import factor
from dashboards.drill.run import Outcome, Quiet
from dashboards.drill.verdict import OK, Track
from dashboards.drill.watch import SCRAPE
from stack import REPOSITORY, machine

FILE = REPOSITORY / "docs" / "results" / "drill.md"


def text(quiet: Quiet | None, outcomes: Sequence[Outcome], seconds: float) -> str:
    rows = [_row(outcome, track) for outcome in outcomes for track in outcome.tracks]
    good = sum(track.verdict == OK for outcome in outcomes for track in outcome.tracks)
    names = {track.alert.partition("/")[0] for outcome in outcomes for track in outcome.tracks}
    factors = (
        f"The drill divides all durations in the rules and in Alertmanager's configuration by {factor.FACTOR}. "
        f"Prometheus scrapes targets and evaluates rules every {SCRAPE}. The table shows real seconds."
    )
    lines = [
        factors,
        "",
        *([_quiet(quiet), ""] if quiet else []),
        f"{good} of {len(rows)} rows are ok: {len(names)} alerts and {len(outcomes)} causes in {seconds:.0f} s.",
        "",
        "| Alert | Fault and its end | Fired after, s | Resolved after, s | Notified | Also fired | Verdict |",
        "|---|---|---|---|---|---|---|",
        *rows,
    ]
    return "\n".join(lines)


def _quiet(quiet: Quiet) -> str:
    real = quiet.seconds * factor.FACTOR / 60
    fired = ", ".join(map(_name, quiet.fired)) or "none"
    return (
        f"Quiet period: a complete platform ran under load for {quiet.seconds:.0f} s, which corresponds to {real:.0f} "
        f"minutes with the real rules. {len(quiet.failures)} of {quiet.replies} requests failed. Alerts that fired: {fired}."
    )


def _row(outcome: Outcome, track: Track) -> str:
    told = "yes" if track.told else "inhibited" if track.quiet else "no"
    cells = [
        _name(track.alert),
        outcome.drill.how,
        _seconds(track.fired),
        _seconds(track.resolved),
        told,
        ", ".join(map(_name, outcome.also)),
        track.verdict,
    ]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _name(alert: str) -> str:
    name, _, severity = alert.partition("/")
    return f"`{name}` {severity}".rstrip()


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def record(body: str, file: Path = FILE) -> None:
    here = machine.describe()
    rows = {
        "date": here["date"],
        "machine": f"{here['cpu']}, {here['cores']} cores, {here['kernel']}",
        "load average": f"{os.getloadavg()[2]:.1f} over the last 15 minutes, including this run",
        "sources": here["sources"],
    }
    table = [f"| {name} | {value} |" for name, value in rows.items()]
    head = [
        "# Drill of all alerts",
        "",
        "`make drill` generates this report; see [drills](../drills.md).",
        "",
    ]
    file.write_text("\n".join([*head, "| | |", "|---|---|", *table, "", body, ""]))
