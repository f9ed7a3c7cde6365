"""How cost grows with cores, connections, routes and pods: tables and charts of the record's `scaling`."""

from statistics import median

from loadtests.bench.field.report import look
from loadtests.bench.field.report.tables import NONE, bullets
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
    """For each figure a table, a row for each contender and a column for each size, and the laws that were fitted."""
    return [
        found for figure in part["figures"] for found in (_table(figure), _laws(figure)) if found
    ]


def _table(figure: dict) -> str:
    sizes = _sizes(figure)
    lines = []
    for name, points in figure["series"].items():
        by_size = {x: values for x, values in points}
        cells = [_cell(by_size.get(x), figure.get("digits", 2)) for x in sizes]
        lines.append([name, *cells])
    return table([f"{_titled(figure)}, by {figure['x']}", *(f"{x:,}" for x in sizes)], lines)


def laws(part: dict) -> str:
    """The laws of all its figures, a line for each figure."""
    told = []
    for figure in part["figures"]:
        found = [f"{name} {law['text']}" for name, law in figure.get("model", {}).items()]
        if found:
            told.append(f"{figure['title']}: {'; '.join(found)}.")
    return bullets(told)


def _laws(figure: dict) -> str:
    return bullets([f"{name}: {law['text']}" for name, law in figure.get("model", {}).items()])


def _cell(values: list[float] | None, digits: int) -> str:
    if not values:
        return NONE
    return f"{values[0]:,.{digits}f}" if len(values) == 1 else spread(values, digits)


def _sizes(figure: dict) -> list[float]:
    return sorted({x for points in figure["series"].values() for x, _ in points})


def _titled(figure: dict) -> str:
    return f"{figure['title']}, {figure['unit']}" if figure.get("unit") else figure["title"]


def charts(part: dict) -> list[Chart]:
    """A chart for each figure in which more than two sizes are to be seen; two are told by the table."""
    return [_chart(one) for one in part["figures"] if len(_sizes(one)) > 2 or one.get("model")]


def _chart(figure: dict) -> Chart:
    colours = look.lines(list(figure["series"]))
    lines = [
        Line(
            name,
            [(x, median(values)) for x, values in sorted(points) if values],
            colours[name],
            heavy=look.ours(name),
        )
        for name, points in figure["series"].items()
    ]
    # Without a name: it has the colour of what it is the law of.
    laws = [
        Line("", [tuple(point) for point in law["points"]], colours[name], dashed=True)
        for name, law in figure.get("model", {}).items()
        if name in colours
    ]
    xs = [x for line in lines + laws for x, _ in line.points]
    ys = [y for line in lines + laws for _, y in line.points]
    x = _axis(figure["x"], xs, figure.get("log_x", True))
    y = _axis(figure.get("unit", ""), ys, figure.get("log_y", True))
    return Chart(figure["title"], "", x, y, laws + lines, width=WIDTH, height=HEIGHT)


def _axis(label: str, values: list[float], log: bool) -> Axis:
    return Log.around(label, values) if log else Linear(label, 0, 1.05 * (max(values) or 1))
