"""How cost grows with cores, connections, routes and pods: tables and charts of the record's `scaling`."""

from statistics import median

from loadtests.bench.field.report import look
from loadtests.bench.field.report.rows import FLOOR
from loadtests.bench.field.report.tables import NONE
from loadtests.bench.text import spread, table
from loadtests.report.chart import Chart, Line
from loadtests.report.scale import Axis, Linear, Log

WIDTH, HEIGHT = 470, 280

TITLES = {
    "cores": "One core and two",
    "connections": "Connections",
    "routes": "Routes",
    "pods": "Pods behind the gateway",
}


def parts(record: dict) -> dict[str, dict]:
    """What was measured, in the order of the report."""
    found = record.get("scaling", {})
    return {name: found[name] for name in TITLES if found.get(name, {}).get("figures")}


def tables(part: dict) -> list[str]:
    """A table for each figure: a row for each contender, a column for each number of what grows."""
    return [_table(figure) for figure in part["figures"]]


def _table(figure: dict) -> str:
    places = sorted({x for points in figure["series"].values() for x, _ in points})
    lines = []
    for name, points in figure["series"].items():
        by_place = {x: values for x, values in points}
        cells = [_cell(by_place.get(x), figure.get("digits", 2)) for x in places]
        lines.append([name, *cells])
    unit = f", {figure['unit']}" if figure.get("unit") else ""
    head = [f"{figure['title']}{unit}", *(f"{x:,g}" for x in places)]
    return table(head, lines)


def _cell(values: list[float] | None, digits: int) -> str:
    if not values:
        return NONE
    return f"{values[0]:,.{digits}f}" if len(values) == 1 else spread(values, digits)


def charts(record: dict) -> list[Chart]:
    """A chart for each figure that has more than two places; two are told by the table."""
    return [
        _chart(figure)
        for part in parts(record).values()
        for figure in part["figures"]
        if len({x for points in figure["series"].values() for x, _ in points}) > 2
    ]


def _chart(figure: dict) -> Chart:
    names = list(figure["series"])
    colours = look.lines(names)
    lines = [
        Line(
            name,
            [(x, median(values)) for x, values in sorted(points) if values],
            colours[name],
            dashed=name == FLOOR,
            heavy=look.ours(name),
        )
        for name, points in figure["series"].items()
    ]
    lines += [
        Line(
            f"{name}: {model['text']}", [tuple(one) for one in model["points"]], "ink", dashed=True
        )
        for name, model in figure.get("model", {}).items()
    ]
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    unit = f", {figure['unit']}" if figure.get("unit") else ""
    x = _axis(figure["x"], xs, figure.get("log_x", True))
    y = _axis(figure["title"] + unit, ys, figure.get("log_y", True))
    return Chart(figure["title"], "", x, y, lines, width=WIDTH, height=HEIGHT)


def _axis(label: str, values: list[float], log: bool) -> Axis:
    return Log.around(label, values) if log else Linear(label, 0, 1.05 * max(values))
