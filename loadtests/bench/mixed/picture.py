"""One picture: the percentiles of the latency by database and way, a line for each mode."""

import math
from statistics import median
from xml.sax.saxutils import escape

from loadtests.bench.mixed.cells import MODES, TITLES
from loadtests.bench.mixed.tables import place, values

LEFT, TOP, WIDTH, HEIGHT, GAP = 60, 84, 330, 180, 64
COLOURS = {"one-lane": "#b3331d", "one-slot": "#2d5f9a", "many-many": "#1b6e3c"}
DASHES = {"one-lane": "2 3", "one-slot": "7 4", "many-many": "none"}
"""Lines are told apart by form too."""

PARTS = {"closed": "as fast as they can", "open": "at half that rate"}

PERCENTILES = (0, 50, 90, 99, 99.9)
"""Marked on the axis, which stretches the tail: its unit is nines."""

LAST = 99.95
DECADES = (-1, 4)
"""The axis of the latency, in powers of ten of a millisecond."""


def draw(record: dict) -> str:
    """An SVG: a row of panels for each database and way, a column for each loop."""
    places = list(dict.fromkeys((cell["database"], cell["path"]) for cell in record["cells"]))
    parts = _head()
    for row, (database, path) in enumerate(places):
        for column, (part, title) in enumerate(PARTS.items()):
            x, y = LEFT + column * (WIDTH + GAP), TOP + row * (HEIGHT + GAP)
            parts.append(_text(x, y - 8, f"{place(database, path)}, {title}", weight="bold"))
            parts += _axes(x, y)
            for cell in record["cells"]:
                if (cell["database"], cell["path"]) == (database, path):
                    parts.append(_line(cell, part, x, y))
    size = f'viewBox="0 0 {LEFT + 2 * WIDTH + GAP + 30} {TOP + len(places) * (HEIGHT + GAP)}"'
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def _head() -> list[str]:
    parts = [_text(LEFT, 20, "Latency in ms by percentile, all requests; medians of the rounds")]
    for index, mode in enumerate(MODES):
        x = LEFT + index * 220
        style = f'stroke="{COLOURS[mode]}" stroke-width="2" stroke-dasharray="{DASHES[mode]}"'
        parts.append(f'<line x1="{x}" x2="{x + 30}" y1="42" y2="42" {style}/>')
        parts.append(_text(x + 36, 46, TITLES[mode]))
    return parts


def _axes(x: float, y: float) -> list[str]:
    parts = []
    for percentile in PERCENTILES:
        at = _across(x, percentile)
        parts.append(f'<line x1="{at}" x2="{at}" y1="{y}" y2="{y + HEIGHT}" stroke="#ddd"/>')
        parts.append(_text(at, y + HEIGHT + 16, f"p{percentile:g}", anchor="middle"))
    for decade in range(DECADES[0], DECADES[1] + 1):
        at = _down(y, 10.0**decade)
        parts.append(f'<line x1="{x}" x2="{x + WIDTH}" y1="{at}" y2="{at}" stroke="#ddd"/>')
        parts.append(_text(x - 8, at + 4, f"{10.0**decade:g}", anchor="end"))
    return parts


def _line(cell: dict, part: str, x: float, y: float) -> str:
    latency = cell["samples"][0][part]["latency_ms"]["all"]
    known = sorted(float(name) for name in latency if name[0].isdecimal())
    points = []
    for percentile in known:
        value = median(values(cell, part, "latency_ms", "all", f"{percentile:g}"))
        if percentile <= LAST and value > 0:
            points.append(f"{_across(x, percentile)},{_down(y, value)}")
    style = f'stroke="{COLOURS[cell["mode"]]}" stroke-dasharray="{DASHES[cell["mode"]]}"'
    return f'<polyline points="{" ".join(points)}" fill="none" stroke-width="2" {style}/>'


def _across(x: float, percentile: float) -> float:
    nines = -math.log10(1 - percentile / 100)
    return round(x + WIDTH * nines / -math.log10(1 - LAST / 100), 1)


def _down(y: float, ms: float) -> float:
    low, high = DECADES
    share = (math.log10(ms) - low) / (high - low)
    return round(y + HEIGHT * (1 - min(1.0, max(0.0, share))), 1)


def _text(x: float, y: float, words: str, anchor: str = "start", weight: str = "normal") -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x}" y="{y}" {style}>{escape(words)}</text>'
