"""Panels with a line for each contender: bars from 0, and dots on an axis of equal factors."""

from dataclasses import dataclass
from statistics import median

from loadtests.bench.field.report import look
from loadtests.bench.field.report.picture import Drawn, text
from loadtests.bench.field.report.rows import FLOOR, Row
from loadtests.report.scale import Axis, Linear, Log, number, roomy

NAMES = 160
"""Room for the names on the left."""

VALUES = 64
"""Room for figures on the right."""

TOP, LINE, BOTTOM = 40, 20, 24

CUT = 4.0
"""A bar that is so many times Corelane's ends there, so that the others can be told apart."""

MARKS = {"p50": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "p99": "M0-5L5 0L0 5L-5 0z"}
MARKS |= {"p99.9": "M0-5L5 4H-5z", "max": "M-4-4L4 4M4-4L-4 4"}
"""Told apart by form."""


@dataclass(frozen=True)
class Frame:
    """One panel: its lines in order, and its axis."""

    title: str
    names: list[str]
    axis: Axis
    width: float

    @property
    def bottom(self) -> float:
        """Where the axis is."""
        return TOP + LINE * len(self.names)

    def x(self, value: float) -> float:
        """Where a value is."""
        return round(NAMES + (self.width - NAMES - VALUES) * self.axis.share(value), 1)

    def y(self, name: str) -> float:
        """The middle of a contender's line."""
        return TOP + LINE * (self.names.index(name) + 0.5)

    def drawn(self, parts: list[str]) -> Drawn:
        """The panel with its grid, names and what is given."""
        found = [text(0, 12, self.title, kind="panel")]
        named = roomy(self.axis.ticks(), self.x)
        for value, words in self.axis.ticks():
            found.append(f'<path class="grid" d="M{self.x(value)} {TOP}V{self.bottom}"/>')
            if value in named:
                found.append(text(self.x(value), self.bottom + 16, words, "middle"))
        for name in self.names:
            kind = "ours" if look.ours(name) else "name"
            found.append(text(NAMES - 10, self.y(name) + 4, name, "end", kind))
        return "".join([*found, *parts]), self.bottom + BOTTOM


def bars(row: Row, title: str, families: dict[str, str], width: float) -> Drawn:
    """The medians as bars, with the lowest and the highest; the floor is a line across."""
    names = [name for name in row.ordered() if name != FLOOR] or [FLOOR]
    top = max(max(row.all(name)) for name in names)
    reference = row.median(row.us) if row.us in row.values else row.median(names[0])
    end = min(top, CUT * reference) * 1.04
    frame = Frame(title, names, Linear("", 0, end), width)
    parts = []
    for name in names:
        parts += _bar(frame, row, name, look.bar(name, families.get(name, "")))
    if FLOOR in row.values:
        x = frame.x(row.median(FLOOR))
        parts.append(f'<path class="floor" d="M{x} {TOP - 4}V{frame.bottom}"/>')
        words = f"floor {number(row.median(FLOOR))}"
        parts.append(text(x, TOP - 8, words, "middle", "floorname"))
    return frame.drawn(parts)


def _bar(frame: Frame, row: Row, name: str, colour: str) -> list[str]:
    values, y = row.all(name), frame.y(name)
    middle, low, high = frame.x(median(values)), frame.x(min(values)), frame.x(max(values))
    bar = f'x="{NAMES}" y="{y - 6}" width="{round(middle - NAMES, 1)}" height="12"'
    parts = [f'<rect {bar} style="fill:var(--{colour})" rx="1.5"/>']
    if median(values) > frame.axis.high:
        slant = f"M{middle - 22} {y + 9}l7 -18"
        parts.append(f'<path class="cut" d="{slant}"/>')
        high = middle
    elif high > low:
        parts.append(_spread(low, high, y))
    parts.append(text(max(middle, high) + 6, y + 4, number(median(values))))
    return parts


def dots(row: Row, title: str, families: dict[str, str], width: float) -> Drawn:
    """The medians as dots on an axis of equal factors, with the lowest and the highest."""
    names = row.ordered()
    every = [value for name in names for value in row.all(name)]
    frame = Frame(title, names, Log.around("", every), width)
    parts = []
    for name in names:
        values, y = row.all(name), frame.y(name)
        middle, low, high = frame.x(median(values)), frame.x(min(values)), frame.x(max(values))
        colour = look.bar(name, families.get(name, ""))
        parts.append(f'<path class="guide" d="M{NAMES} {y}H{middle}"/>')
        if high > low:
            parts.append(_spread(low, high, y))
        parts.append(_mark("p50", middle, y, colour))
        parts.append(text(max(middle, high) + 9, y + 4, number(median(values))))
    return frame.drawn(parts)


def quantiles(rows: dict[str, Row], title: str, families: dict[str, str], width: float) -> Drawn:
    """Several quantiles of each contender on one line, the lowest p99 first."""
    names = rows["p99"].ordered()
    every = [row.median(name) for row in rows.values() for name in row.values]
    frame = Frame(title, names, Log.around("", every), width)
    parts = []
    for name in names:
        y, colour = frame.y(name), look.bar(name, families.get(name, ""))
        found = {key: frame.x(row.median(name)) for key, row in rows.items() if name in row.values}
        ends = (min(found.values()), max(found.values()))
        parts.append(f'<path class="guide" d="M{ends[0]} {y}H{ends[1]}"/>')
        parts += [_mark(key, x, y, colour) for key, x in found.items()]
        parts.append(text(ends[1] + 9, y + 4, number(rows["p99"].median(name))))
    for index, key in enumerate(rows):
        x = NAMES + 62 * index
        parts += [_mark(key, x + 5, TOP - 14, "ink"), text(x + 15, TOP - 10, key)]
    return frame.drawn(parts)


def _spread(low: float, high: float, y: float) -> str:
    return f'<path class="spread" d="M{low} {y - 3}v6M{low} {y}H{high}M{high} {y - 3}v6"/>'


def _mark(kind: str, x: float, y: float, colour: str) -> str:
    style = f"fill:var(--{colour})" if kind != "max" else f"stroke:var(--{colour});stroke-width:1.8"
    return f'<path d="{MARKS[kind]}" transform="translate({round(x, 1)} {y})" style="{style}"/>'
