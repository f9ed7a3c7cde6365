"""One picture: speed-ups by iterations, a panel for each number of connections; and what a queue costs."""

import math
from statistics import median
from xml.sax.saxutils import escape

from loadtests.bench.threads import offline, published, tables
from loadtests.bench.threads.matrix import Cell
from loadtests.bench.threads.shapes import ONE, SHAPES

LEFT, TOP, WIDTH, HEIGHT, GAP = 60, 96, 330, 190, 64
LOOKS = {
    "pool of 1": ("#b3331d", "2 3"),
    "pool of 2": ("#b3331d", "7 4"),
    "pool of 16": ("#b3331d", "none"),
    "1 lane": ("#1b6e3c", "2 3"),
    "2 lanes, hashed": ("#1b6e3c", "none"),
    "2 lanes, least-loaded": ("#2d5f9a", "7 4"),
}
"""Lines are told apart by form too."""

SPEED_UPS = (0.25, 0.5, 1, 2, 4)
DECADES = (2, 7)
"""The axis of the queue's cost, in powers of ten of a nanosecond."""


def draw(record: dict) -> str:
    """An SVG."""
    plan = record["plan"]
    parts = _head(plan["shapes"])
    for index, connections in enumerate(plan["connections"]):
        x, y = _corner(index)
        parts.append(_text(x, y - 8, f"{connections:,} connections at once", weight="bold"))
        parts += _axes(x, y, plan["iterations"], len(record["cpus"]))
        for name in plan["shapes"]:
            if name in LOOKS:
                parts.append(_line(record, connections, name, x, y))
    panels = len(plan["connections"])
    if "queue" in record["samples"]:
        parts += _queue(record, *_corner(panels))
        panels += 1
    rows = (panels + 1) // 2
    size = f'viewBox="0 0 {LEFT + 2 * WIDTH + GAP + 150} {TOP + rows * (HEIGHT + GAP)}"'
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def _corner(index: int) -> tuple[int, int]:
    row, column = divmod(index, 2)
    return LEFT + column * (WIDTH + GAP), TOP + row * (HEIGHT + GAP)


def _head(shapes: list[str]) -> list[str]:
    title = f"Times the requests of {ONE.name}, by iterations of a request; medians of the rounds"
    parts = [_text(LEFT, 20, title)]
    for index, name in enumerate(name for name in LOOKS if name in shapes):
        row, column = divmod(index, 3)
        x, y = LEFT + column * 220, 42 + 18 * row
        parts.append(f'<line x1="{x}" x2="{x + 30}" y1="{y}" y2="{y}" {_stroke(name)}/>')
        parts.append(_text(x + 36, y + 4, name))
    return parts


def _stroke(name: str) -> str:
    colour, dashes = LOOKS[name]
    return f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"'


def _axes(x: float, y: float, iterations: list[int], cpus: int) -> list[str]:
    parts = []
    for index, count in enumerate(iterations):
        at = _across(x, index, len(iterations))
        parts.append(f'<line x1="{at}" x2="{at}" y1="{y}" y2="{y + HEIGHT}" stroke="#ddd"/>')
        parts.append(_text(at, y + HEIGHT + 16, tables.short(count), anchor="middle"))
    for times in SPEED_UPS:
        at = _down(y, times, SPEED_UPS[0], SPEED_UPS[-1])
        colour = "#555" if times in (1, cpus) else "#ddd"
        parts.append(f'<line x1="{x}" x2="{x + WIDTH}" y1="{at}" y2="{at}" stroke="{colour}"/>')
        parts.append(_text(x - 8, at + 4, f"{times:g}×", anchor="end"))
    return parts


def _line(record: dict, connections: int, name: str, x: float, y: float) -> str:
    iterations = record["plan"]["iterations"]
    points = []
    for index, count in enumerate(iterations):
        times = median(tables.speed_ups(record, Cell(connections, count), SHAPES[name]))
        at = _down(y, times, SPEED_UPS[0], SPEED_UPS[-1])
        points.append(f"{_across(x, index, len(iterations))},{at}")
    return f'<polyline points="{" ".join(points)}" {_stroke(name)}/>'


def _queue(record: dict, x: float, y: float) -> list[str]:
    """What a request costs by the length of the queue, beside its computing and what is to be explained."""
    low, high = (10.0**decade for decade in DECADES)
    parts = [_text(x, y - 8, "CPU time of a request by the length of the queue", weight="bold")]
    for decade in range(DECADES[0], DECADES[1] + 1):
        at = _down(y, 10.0**decade, low, high)
        parts.append(f'<line x1="{x}" x2="{x + WIDTH}" y1="{at}" y2="{at}" stroke="#ddd"/>')
        unit = f"{10**decade:g} ns" if decade < 3 else f"{10 ** (decade - 3):g} µs"
        parts.append(_text(x - 8, at + 4, unit, anchor="end"))
    waiting = record["plan"]["waiting"]
    count = len(waiting)
    for index, length in enumerate(waiting):
        at = _across(x, index, count)
        parts.append(_text(at, y + HEIGHT + 16, f"{length:,} waiting", anchor="middle"))
    for held, name in zip(offline.BYTES, ("pool of 16", "pool of 2"), strict=True):
        points, value = [], low
        for index, length in enumerate(waiting):
            value = median(tables.queue_ns(record, length, held))
            points.append(f"{_across(x, index, count)},{_down(y, value, low, high)}")
        parts.append(f'<polyline points="{" ".join(points)}" {_stroke(name)}/>')
        words = f"{held:,} B each" if held else "descriptors"
        parts.append(_text(x + WIDTH + 6, _down(y, value, low, high) + 4, words))
    needed = (published.ROWS[-1].one_each_ms - published.ROWS[0].one_each_ms) * 1e6
    at = _down(y, needed, low, high)
    parts.append(f'<line x1="{x}" x2="{x + WIDTH}" y1="{at}" y2="{at}" stroke="#555"/>')
    return [*parts, _text(x + WIDTH + 6, at + 4, "to be explained")]


def _across(x: float, index: int, count: int) -> float:
    return round(x + WIDTH * (index + 0.5) / count, 1)


def _down(y: float, value: float, low: float, high: float) -> float:
    share = math.log(max(value, low) / low) / math.log(high / low)
    return round(y + HEIGHT * (1 - min(1.0, share)), 1)


def _text(x: float, y: float, words: str, anchor: str = "start", weight: str = "normal") -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x}" y="{y}" {style}>{escape(words)}</text>'
