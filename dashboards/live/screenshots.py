"""`screenshots`: every dashboard drawn from live data, for whoever reads or reviews."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dashboards.live import boards, check, story, variables
from dashboards.live.boards import Dashboard, places
from dashboards.live.draw import lines, maps, numbers, tables, theme
from dashboards.live.draw.lines import Event
from dashboards.live.draw.page import Page
from dashboards.live.filling import Range, Value, fill
from dashboards.live.frames import Answered, Filled
from dashboards.live.platform import Platform
from dashboards.live.prometheus import Prometheus
from dashboards.live.stage import stage
from local.settings import REPOSITORY

NAME = "screenshots"
FOLDER = REPOSITORY / "docs" / "images"

CALM = 60.0
"""Longer than for a check, so that there is something to see before the trouble."""


@dataclass(frozen=True)
class Shot:
    """A dashboard with all its data."""

    dashboard: Dashboard
    over: Range
    panels: tuple[Filled, ...]
    events: tuple[Event, ...]


def main() -> int:
    """Plays the story and draws what each dashboard shows of it."""
    with stage(story.options(NAME)) as platform:
        started = time.time()
        story.play(platform, CALM)
        over = Range(started, time.time(), check.SCRAPE)
        shots = [take(dashboard, platform, over) for dashboard in boards.load()]
    FOLDER.mkdir(parents=True, exist_ok=True)
    for shot in shots:
        file = FOLDER / f"{shot.dashboard.uid}.png"
        draw(shot, file)
        print(f"{file.relative_to(REPOSITORY)}: {file.stat().st_size / 1000:.0f} kB")
    return 0


def take(dashboard: Dashboard, platform: Platform, over: Range) -> Shot:
    """Asks for all that a dashboard shows."""
    prometheus = Prometheus(platform.prometheus)
    values, _ = variables.choose(dashboard, prometheus, over, check.preferred(platform))
    panels = []
    for panel in dashboard.panels:
        answers = [
            Answered(query, check.ask(prometheus, query, values, over)[1])
            for query in panel.queries
        ]
        panels.append(Filled(panel, tuple(answers)))
    events = _events(dashboard, prometheus, values, over)
    return Shot(dashboard, over, tuple(panels), tuple(events))


def _events(
    dashboard: Dashboard, prometheus: Prometheus, values: dict[str, Value], over: Range
) -> list[Event]:
    """When each annotation begins: at the time that its value says, or with its first sample."""
    found = []
    for annotation in dashboard.annotations:
        expression = fill(annotation["expr"], values, over)
        ink = theme.colour(annotation.get("iconColor"))
        for series in prometheus.range(expression, over).series:
            if annotation.get("useValueForTime"):
                times = {value / 1000 for value in series.numbers}
            else:
                times = {series.samples[0][0]}
            # What has begun with the first scrape is no change.
            found += [Event(each, ink) for each in times if over.start + 10 < each < over.end]
    return found


def draw(shot: Shot, file: Path) -> None:
    """Draws a dashboard into a file."""
    ended = datetime.fromtimestamp(shot.over.end, UTC).strftime("%Y-%m-%d %H:%M UTC")
    page = Page(shot.dashboard, f"{shot.over.seconds / 60:.0f} minutes until {ended}")
    filled = {each.panel.raw["id"]: each for each in shot.panels}
    for raw, line in places(shot.dashboard):
        if raw["type"] == "row":
            page.row(raw, line)
            continue
        box, panel = page.frame(raw, line), filled[raw["id"]]
        if raw["type"] == "timeseries":
            lines.draw(box, panel, shot.over, list(shot.events))
        elif raw["type"] == "heatmap":
            maps.heat(box, panel, shot.over)
        elif raw["type"] == "state-timeline":
            maps.states(box, panel, shot.over)
        else:
            {"stat": numbers.stat, "bargauge": numbers.bars, "table": tables.draw}[raw["type"]](
                box, panel
            )
    page.save(file)
