"""A dashboard: panels on the grid, variables, links to other dashboards, and change annotations."""

import json
import re
from dataclasses import dataclass, field

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import stat

from grafana.changes import MARKS
from grafana.variables import COMMON, Variable
from tools import short_json

WIDTH = 24
TAG = "corelane"


DEFAULTED = (
    model.DashboardLink,
    model.Panel,
    model.VariableModel,
    stat.Options,
)
"""For members that these types lack, Grafana uses the defaults of its schema, as the SDK does."""


class _Encoder(JSONEncoder):
    def default(self, o: object) -> object:
        members = super().default(o)
        if not isinstance(o, DEFAULTED):
            return members
        assumed = {name: _plain(value) for name, value in super().default(type(o)()).items()}
        return {
            name: value
            for name, value in members.items()
            # Keep the type, because it has no default and determines how the other members are
            # read.
            if name == "type" or _plain(value) != assumed.get(name)
        }


def _plain(value: object) -> str:
    return json.dumps(value, cls=JSONEncoder, sort_keys=True)


@dataclass
class Board:
    """One dashboard. `uid` is its permanent address, which links and bookmarks contain."""

    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...] = ()
    start: str = "now-1h"
    _panels: list[model.Panel | model.RowPanel] = field(default_factory=list)
    _folded: model.RowPanel | None = None
    _next_row: int = 0
    _ids: int = 0

    def row(self, height: int, *panels: Builder[model.Panel], widths: tuple[int, ...] = ()) -> None:
        """Places panels side by side, with equal widths unless `widths` are given."""
        widths = widths or (WIDTH // len(panels),) * len(panels)
        if sum(widths) != WIDTH:
            raise ValueError(f"{self.uid}: a row is {sum(widths)} wide, not {WIDTH}")
        across = 0
        for width, builder in zip(widths, panels, strict=True):
            panel = builder.build()
            panel.id_val = self._id()
            panel.grid_pos = model.GridPos(h=height, w=width, x=across, y=self._next_row)
            across += width
            (self._folded.panels if self._folded else self._panels).append(panel)
        self._next_row += height

    def folded(self, title: str) -> None:
        if self._folded:
            # Collapsed panels take up no room. When the row opens, Grafana moves the rows below it.
            self._next_row = self._folded.grid_pos.y + 1
        head = model.RowPanel(title=title, collapsed=True, id_val=self._id(), panels=[])
        head.grid_pos = model.GridPos(h=1, w=WIDTH, x=0, y=self._next_row)
        self._panels.append(head)
        self._folded = head
        self._next_row += 1

    def text(self) -> str:
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
            .variables(self._built_variables())
            .annotations(list(MARKS))
            .build()
        )
        built.panels = self._panels
        plain = json.loads(json.dumps(built, cls=_Encoder, sort_keys=True))
        return short_json.text(plain) + "\n"

    def _built_variables(self) -> list[Builder[model.VariableModel]]:
        """Hides variables that affect no panel, directly or through another variable."""
        variables = (*COMMON, *self.variables)
        text = json.dumps(self._panels, cls=_Encoder)
        shown: set[str] = set()
        # A variable's values depend on the variables before it.
        for variable in reversed(variables):
            # Links pass every variable on, as ${NAME:queryparam}.
            used = re.search(rf"\$\{{?{variable.name}\b(?!:queryparam)", text)
            if used or not variable.query:
                shown.add(variable.name)
                text += variable.query
        return [variable.build(hide=variable.name not in shown) for variable in variables]

    def _id(self) -> int:
        self._ids += 1
        return self._ids


def _others() -> dashboard.DashboardLink:
    return (
        dashboard.DashboardLink("Corelane")
        .type(model.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(False)
        .include_vars(True)
        .keep_time(True)
    )


def link(title: str, variables: str = "") -> model.DashboardLink:
    kept = [it.name for it in COMMON if f"var-{it.name}=" not in variables]
    query = [*(f"${{{name}:queryparam}}" for name in kept), "${__url_time_range}"]
    query += [variables] if variables else []
    return model.DashboardLink(title=title, url=f"/d/corelane-{title.lower()}?{'&'.join(query)}")
