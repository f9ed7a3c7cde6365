"""What pictures of dashboards show of results, and where."""

import itertools

from dashboards.live import boards, frames
from dashboards.live.boards import Panel, Query
from dashboards.live.frames import Answered, Filled
from dashboards.live.prometheus import Result, Series
from support import REPOSITORY

MOST_BYTES = 250_000
"""Of a picture: all of them are in every clone."""


def answered(ref: str, *series: tuple[dict, float], legend: str = "") -> Answered:
    """A query and its series, each with one value."""
    found = tuple(Series(labels, ((0.0, value),)) for labels, value in series)
    return Answered(Query(ref, "", instant=True, legend=legend), Result(series=found))


def panel(**raw: object) -> Panel:
    """A panel with these members."""
    return Panel("One", "table", (), raw)


def test_legends_take_labels() -> None:
    labels = {"__name__": "up", "pod": "server-0", "lane": "1"}
    assert frames.name("{{pod}} lane {{ lane }}", labels) == "server-0 lane 1"
    assert frames.name("{{pod}} {{none}}", labels) == "server-0"
    assert frames.name("asked", labels) == "asked"
    assert frames.name("", labels) == "server-0, 1"


def test_rows_of_several_queries_are_merged_by_what_they_share() -> None:
    a = answered("A", ({"node": "n", "knob": "x", "state": "differs"}, 1.0))
    b = answered("B", ({"node": "n", "knob": "x"}, 100.0), ({"node": "n", "knob": "y"}, 5.0))
    assert frames.rows(Filled(panel(), (a, b))) == [
        {"node": "n", "knob": "x", "state": "differs", "Value #A": 1.0, "Value #B": 100.0},
        {"node": "n", "knob": "y", "Value #B": 5.0},
    ]
    assert frames.rows(Filled(panel(), (answered("A", ({"pod": "p"}, 2.0)),))) == [
        {"pod": "p", "Value": 2.0}
    ]


def test_columns_are_those_of_the_transformations() -> None:
    transformations = [
        {"id": "filterFieldsByName", "options": {"include": {"names": ["route", "pod", "Value"]}}},
        {
            "id": "organize",
            "options": {
                "indexByName": {"Value": 0, "route": 1, "pod": 2},
                "renameByName": {"Value": "Rate", "route": "Route"},
                "excludeByName": {"pod": True},
            },
        },
    ]
    shown = frames.columns(panel(transformations=transformations))
    assert shown == [("Value", "Rate"), ("route", "Route")]


def test_thresholds_and_mappings_give_colours() -> None:
    steps = [{"color": "green", "value": None}, {"color": "red", "value": 10}]
    colours = [frames.colour(value, {"steps": steps}) for value in (-1, 9.9, 10, 11)]
    assert colours == ["green", "green", "red", "red"]
    options = {"0": {"text": "failed", "color": "red"}, "warning": {"color": "orange"}}
    mappings = [{"type": "value", "options": options}]
    assert frames.mapped(0.0, mappings) == ("failed", "red")
    assert frames.mapped("warning", mappings) == ("warning", "orange")
    assert frames.mapped(1.0, mappings) is None


def test_overrides_hold_for_what_they_match() -> None:
    def override(kind: str, options: str, unit: str) -> dict:
        properties = [{"id": "unit", "value": unit}]
        return {"matcher": {"id": kind, "options": options}, "properties": properties}

    overrides = [override("byName", "Rate", "reqps"), override("byRegexp", "/^(a|b)$/", "s")]
    one = panel(fieldConfig={"defaults": {"unit": "none"}, "overrides": overrides})
    units = [frames.settings(one, column)["unit"] for column in ("Rate", "a", "ab")]
    assert units == ["reqps", "s", "none"]


def test_nothing_overlaps_when_every_row_is_open() -> None:
    for dashboard in boards.load():
        taken = set()
        for raw, line in boards.places(dashboard):
            grid = raw["gridPos"]
            across, down = range(grid["x"], grid["x"] + grid["w"]), range(line, line + grid["h"])
            cells = set(itertools.product(across, down))
            assert not taken & cells, (dashboard.uid, raw["title"])
            taken |= cells


def test_every_dashboard_has_a_small_picture_that_is_shown() -> None:
    folder = REPOSITORY / "docs/images"
    uids = {dashboard.uid for dashboard in boards.load()}
    assert {file.stem for file in folder.glob("*.png")} == uids
    shown = (REPOSITORY / "dashboards/README.md").read_text()
    for file in folder.glob("*.png"):
        assert file.stat().st_size <= MOST_BYTES, file.name
        assert f"../docs/images/{file.name}" in shown
    assert "docs/images/corelane-overview.png" in (REPOSITORY / "README.md").read_text()
