"""The table of a run, for the terminal and for docs/results/drill.md."""

import os
from collections.abc import Sequence
from pathlib import Path

from dashboards.drill import factor
from dashboards.drill.calm import Calm
from dashboards.drill.run import Outcome
from dashboards.drill.verdict import OK, Track
from dashboards.drill.watch import SCRAPE
from loadtests.bench import machine
from local.settings import REPOSITORY

FILE = REPOSITORY / "docs" / "results" / "drill.md"


def text(calm: Calm | None, outcomes: Sequence[Outcome], seconds: float) -> str:
    """What a run came to, as Markdown."""
    rows = [_row(outcome, track) for outcome in outcomes for track in outcome.tracks]
    good = sum(track.verdict == OK for outcome in outcomes for track in outcome.tracks)
    names = {track.alert.partition("/")[0] for outcome in outcomes for track in outcome.tracks}
    factors = (
        f"Every duration of the rules and of Alertmanager's configuration is divided by {factor.FACTOR}; "
        f"Prometheus scrapes and evaluates every {SCRAPE}. Times are seconds, and real."
    )
    lines = [
        factors,
        "",
        *([_calm(calm), ""] if calm else []),
        f"{good} of {len(rows)} rows are ok: {len(names)} alerts, {len(outcomes)} causes, {seconds:.0f} s in all.",
        "",
        "| alert | how it was made to happen, and ended | fired after | resolved after | told | also fired | verdict |",
        "|---|---|---|---|---|---|---|",
        *rows,
    ]
    return "\n".join(lines)


def _calm(calm: Calm) -> str:
    real = calm.seconds * factor.FACTOR / 60
    fired = ", ".join(map(_name, calm.fired)) or "none"
    return (
        f"Calm first: {calm.seconds:.0f} s of a whole platform under load, which are {real:.0f} minutes of the "
        f"real rules. {calm.replies} requests, {len(calm.failures)} failed; alerts that fired: {fired}."
    )


def _row(outcome: Outcome, track: Track) -> str:
    told = "yes" if track.told else "kept quiet" if track.quiet else "no"
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
    """Writes the results with their date, machine and commit."""
    here = machine.describe()
    rows = {
        "date": here["date"],
        "machine": f"{here['cpu']}, {here['cores']} cores, {here['kernel']}",
        "load average": f"{os.getloadavg()[2]:.1f} over the last 15 minutes, this run's own included",
        "sources": here["sources"],
    }
    table = [f"| {name} | {value} |" for name, value in rows.items()]
    head = [
        "# Drill of all alerts",
        "",
        "Written by `make drill`; [drills](../drills.md) explains it.",
        "",
    ]
    file.write_text("\n".join([*head, "| | |", "|---|---|", *table, "", body, ""]))
