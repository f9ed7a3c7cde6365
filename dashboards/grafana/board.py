"""A dashboard: its panels on the grid, its variables, links to the others, marks of changes."""

import json
from dataclasses import dataclass, field

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

from grafana import changes
from grafana.variables import Variable

WIDTH = 24
TAG = "corelane"

Placed = tuple[int, Builder[model.Panel]]
"""A panel and its width."""

Row = tuple[int, tuple[Placed, ...]]
"""Panels side by side, and their height."""


@dataclass
class Board:
    """One dashboard. `uid` is its address for ever: links and bookmarks have it."""

    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    start: str = "now-1h"
    marks: tuple[changes.Mark, ...] = ()
    _panels: list[model.Panel | model.RowPanel] = field(default_factory=list)
    _next_row: int = 0
    _ids: int = 0

    def row(self, height: int, *panels: Placed) -> None:
        """Puts panels side by side, each with its width, below what is there already."""
        self._panels += self._placed(height, panels)

    def rows(self, *rows: Row) -> None:
        """Several of them, each with its height."""
        for height, panels in rows:
            self.row(height, *panels)

    def folded(self, title: str, *rows: Row) -> None:
        """A row that is opened by a click, with rows of panels in it."""
        head = model.RowPanel(title=title, collapsed=True, id_val=self._id())
        head.grid_pos = model.GridPos(h=1, w=WIDTH, x=0, y=self._next_row)
        self._panels.append(head)
        self._next_row += 1
        before = self._next_row
        head.panels = [panel for height, panels in rows for panel in self._placed(height, panels)]
        # Folded, they take no room; Grafana moves what is below when it opens the row.
        self._next_row = before

    def text(self) -> str:
        """The file that Grafana reads."""
        built = (
            dashboard.Dashboard(self.title)
            .uid(self.uid)
            .description(self.description)
            .tags([TAG])
            .editable()
            .timezone("browser")
            .tooltip(model.DashboardCursorSync.CROSSHAIR)
            .time(self.start, "now")
            .refresh("30s")
            .links([_others()])
            .variables([variable.build() for variable in self.variables])
            .annotations([mark.build() for mark in self.marks])
            .build()
        )
        built.panels = self._panels
        # Provisioned dashboards have no number of their own; Grafana gives one.
        return json.dumps(built, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"

    def _placed(self, height: int, panels: tuple[Placed, ...]) -> list[model.Panel]:
        across, placed = 0, []
        for width, builder in panels:
            panel = builder.build()
            panel.id_val = self._id()
            panel.grid_pos = model.GridPos(h=height, w=width, x=across, y=self._next_row)
            across += width
            placed.append(panel)
        if across != WIDTH:
            raise ValueError(
                f"{self.uid}: {placed[0].title!r} begins a row {across} wide, not {WIDTH}"
            )
        self._next_row += height
        return placed

    def _id(self) -> int:
        self._ids += 1
        return self._ids


def _others() -> dashboard.DashboardLink:
    """All of Corelane's dashboards, with the same time and choices."""
    return (
        dashboard.DashboardLink("Corelane")
        .type(model.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(False)
        .include_vars(True)
        .keep_time(True)
    )


def link(title: str, uid: str, variables: str = "") -> model.DashboardLink:
    """From a value to the dashboard that says more of it, where `variables` are chosen."""
    kept = "${datasource:queryparam}&${namespace:queryparam}&${job:queryparam}&${__url_time_range}"
    more = f"&{variables}" if variables else ""
    return model.DashboardLink(title=title, url=f"/d/{uid}?{kept}{more}")
