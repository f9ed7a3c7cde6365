"""Charts as SVG, coloured by the page that they are on."""

from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from loadtests.report.scale import Axis, roomy

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 70, 18, 14, 48
COLOURS = 8
"""The page's style has so many: --c0, --c1, ..."""

Points = list[tuple[float, float | None]]
"""A line ends where there is no value, and begins again after it."""


@dataclass(frozen=True)
class Line:
    """One line; its name and colour are in the legend."""

    name: str
    points: Points
    colour: int | str
    """A number of the page's colours, or the name of one (`ink`, `bad`, `muted`)."""
    dashed: bool = False
    heavy: bool = False
    steps: bool = False
    filled: bool = False


@dataclass(frozen=True)
class Chart:
    """A drawing, and a text that describes it."""

    title: str
    about: str
    x: Axis
    y: Axis
    lines: list[Line]
    dots: Points = field(default_factory=list)
    dots_name: str = ""
    marks: list[tuple[float, str]] = field(default_factory=list)
    """Places on the vertical axis with a name, as an objective."""
    width: int = WIDTH
    height: int = HEIGHT


def draw(chart: Chart) -> str:
    """The SVG, to be put into a page."""
    words = f"<title>{escape(chart.title)}</title><desc>{escape(chart.about)}</desc>"
    return (
        f'<svg viewBox="0 0 {chart.width} {chart.height}" role="img" '
        f'aria-label="{_attribute(chart.title)}">{words}{inner(chart)}</svg>'
    )


def inner(chart: Chart) -> str:
    """What is drawn, to be put into a picture of several."""
    body = [*_grid(chart), *_dots(chart), *_marks(chart)]
    body += [part for line in chart.lines for part in _line(chart, line)]
    return "".join(body)


def legend(chart: Chart) -> str:
    """The names of its lines, in HTML."""
    items = [
        f'<li><svg viewBox="0 0 28 10" aria-hidden="true"><path d="M1 5H27" {_stroke(line)}/></svg>'
        f"{escape(line.name)}</li>"
        for line in chart.lines
    ]
    if chart.dots:
        dot = '<svg viewBox="0 0 28 10" aria-hidden="true"><path class="dots strong" d="M6 5h0M14 5h0M22 5h0"/></svg>'
        items.append(f"<li>{dot}{escape(chart.dots_name)}</li>")
    return f'<ul class="legend">{"".join(items)}</ul>'


def _grid(chart: Chart) -> list[str]:
    right, bottom = chart.width - RIGHT, chart.height - BOTTOM
    parts = []
    for value, text in chart.y.ticks():
        y = _y(chart, value)
        parts.append(f'<path class="grid" d="M{LEFT} {y}H{right}"/>')
        parts.append(_text(LEFT - 8, y + 4, text, "end"))
    named = roomy(chart.x.ticks(), lambda value: _x(chart, value))
    for value, text in chart.x.ticks():
        x = _x(chart, value)
        parts.append(f'<path class="grid" d="M{x} {TOP}V{bottom}"/>')
        if value in named:
            parts.append(_text(x, bottom + 18, text, "middle"))
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>')
    middle = (LEFT + right) / 2
    parts.append(_text(middle, chart.height - 8, chart.x.label, "middle", "label"))
    turned = f'transform="rotate(-90 14 {(TOP + bottom) / 2})"'
    parts.append(_text(14, (TOP + bottom) / 2, chart.y.label, "middle", "label", turned))
    return parts


def _dots(chart: Chart) -> list[str]:
    if not chart.dots:
        return []
    # One path of points without length, whose round caps are the dots: a tenth of as many circles.
    places = "".join(f"M{_x(chart, x)} {_y(chart, y)}h0" for x, y in chart.dots)
    return [f'<path class="dots" d="{places}"/>']


def _marks(chart: Chart) -> list[str]:
    parts = []
    for value, name in chart.marks:
        y = _y(chart, value)
        parts.append(f'<path class="mark" d="M{LEFT} {y}H{chart.width - RIGHT}"/>')
        parts.append(_text(chart.width - RIGHT - 4, y - 5, name, "end", "markname"))
    return parts


def _line(chart: Chart, line: Line) -> list[str]:
    runs: list[list[tuple[float, float]]] = [[]]
    for x, y in line.points:
        if y is None:
            runs.append([])
        else:
            runs[-1].append((_x(chart, x), _y(chart, y)))
    d = "".join(_path(run, line.steps) for run in runs if len(run) > 1)
    # A value between two gaps is a dot.
    alone = "".join(_path(run, line.steps) for run in runs if len(run) == 1)
    parts = []
    if line.filled and d:
        bottom = chart.height - BOTTOM
        areas = "".join(f"{_path(run, line.steps)}V{bottom}H{run[0][0]}Z" for run in runs if run)
        parts.append(f'<path class="area" style="fill:var(--{_colour(line)})" d="{areas}"/>')
    if d:
        parts.append(f'<path d="{d}" {_stroke(line)}><title>{escape(line.name)}</title></path>')
    if alone:
        colour = f'style="stroke:var(--{_colour(line)})"'
        parts.append(f'<path d="{alone}" class="line" {colour} stroke-width="4.5"/>')
    return parts


def _path(run: list[tuple[float, float]], steps: bool) -> str:
    (x, y), *others = run
    d = f"M{x} {y}"
    if not others:
        return d + "h0"
    for nx, ny in others:
        d += f"H{nx}V{ny}" if steps else f"L{nx} {ny}"
    return d


def _stroke(line: Line) -> str:
    width = 2.6 if line.heavy else 1.7
    dash = ' stroke-dasharray="6 4"' if line.dashed else ""
    return f'class="line" style="stroke:var(--{_colour(line)})" stroke-width="{width}"{dash}'


def _colour(line: Line) -> str:
    return line.colour if isinstance(line.colour, str) else f"c{line.colour % COLOURS}"


def _x(chart: Chart, value: float) -> float:
    return round(LEFT + (chart.width - LEFT - RIGHT) * chart.x.share(value), 1)


def _y(chart: Chart, value: float) -> float:
    return round(TOP + (chart.height - TOP - BOTTOM) * (1 - chart.y.share(value)), 1)


def _text(x: float, y: float, words: str, anchor: str, kind: str = "tick", more: str = "") -> str:
    place = f'x="{round(x, 1)}" y="{round(y, 1)}"'
    return f'<text class="{kind}" {place} text-anchor="{anchor}" {more}>{escape(words)}</text>'


def _attribute(words: str) -> str:
    return escape(words, {'"': "&quot;"})
