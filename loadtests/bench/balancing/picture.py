"""One picture: the load that each policy carries, by scenario and shape of the fleet."""

from statistics import median
from xml.sax.saxutils import escape

from loadtests.bench.balancing.policies import ONLY
from loadtests.bench.balancing.scenarios import SCENARIOS, SLO_MS
from loadtests.bench.balancing.verdict import capacities

LEFT, TOP, ROW, GROUP, WIDTH = 70, 84, 30, 50, 640
RIGHT = 30
COLOURS = ("#1b6e3c", "#7fb069", "#b3331d", "#2d5f9a", "#8c6bb1")
"""In the order of the policies; told apart by form too."""


def draw(record: dict) -> str:
    """An SVG: a panel for each scenario, a row for each shape, a mark for each policy."""
    names = [name for name in record["scenarios"] if SCENARIOS[name].ladder]
    parts, y = _head(record), TOP
    for name in names:
        parts.append(_text(LEFT, y - 8, SCENARIOS[name].title, weight="bold"))
        bottom = y + ROW * len(record["shapes"])
        parts += _grid(y, bottom)
        for shape in record["shapes"]:
            parts += _row(record, name, shape, y + ROW / 2)
            y += ROW
        y += GROUP
    size = f'viewBox="0 0 {LEFT + WIDTH + RIGHT} {y - GROUP + 34}"'
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def _head(record: dict) -> list[str]:
    title = (
        f"Highest load with p99 within {SLO_MS:.0f} ms, % of nominal capacity "
        "(replicas x gateways; median and range of the seeds)"
    )
    parts = [_text(LEFT, 20, title)]
    for index, policy in enumerate(_shown(record)):
        x = LEFT + 8 + index * 150
        parts += [_mark(x, 42, index), _text(x + 12, 46, policy)]
    return parts


def _shown(record: dict) -> list[str]:
    """The policies that climb ladders."""
    return [policy for policy in record["policies"] if policy not in ONLY]


def _grid(top: float, bottom: float) -> list[str]:
    parts = []
    for load in range(0, 101, 20):
        parts.append(
            f'<line x1="{_x(load)}" x2="{_x(load)}" y1="{top}" y2="{bottom}" stroke="#ddd"/>'
        )
        parts.append(_text(_x(load), bottom + 14, f"{load}", anchor="middle"))
    return parts


def _row(record: dict, scenario: str, shape: str, y: float) -> list[str]:
    parts = [_text(LEFT - 10, y + 4, shape, anchor="end")]
    for index, policy in enumerate(_shown(record)):
        found = capacities(record, scenario, shape, policy)
        if not found:
            continue
        # One below the other, so that equal ones stay visible.
        at = y + (index - (len(_shown(record)) - 1) / 2) * 5
        low, high = _x(min(found)), _x(max(found))
        colour = COLOURS[index % len(COLOURS)]
        line = f'<line x1="{low}" x2="{high}" y1="{at}" y2="{at}" stroke="{colour}"/>'
        parts += [line, _mark(_x(median(found)), at, index)]
    return parts


def _mark(x: float, y: float, index: int) -> str:
    colour = COLOURS[index % len(COLOURS)]
    if index % 2 == 0:
        return f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/>'
    return f'<rect x="{x - 3.5}" y="{y - 3.5}" width="7" height="7" fill="{colour}"/>'


def _x(load: float) -> float:
    return round(LEFT + WIDTH * load / 100, 1)


def _text(x: float, y: float, words: str, anchor: str = "start", weight: str = "normal") -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x}" y="{y}" {style}>{escape(words)}</text>'
