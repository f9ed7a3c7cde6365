"""A picture of two runs: the ratio of each route, on an axis where half and twice are as far from 1."""

import math
from html import escape

from loadtests.report.chart import WIDTH
from loadtests.report.tables import Ratio

TITLE = "Ratio of p50 and p99 to the base run, by route"
LEFT, RIGHT, TOP, ROW, BOTTOM = 170, 24, 30, 26, 26
SHAPES = {"p50": "M-4.5-4.5h9v9h-9z", "p99": "M0-6L6 0L0 6L-6 0z"}
"""Told apart by form too."""

COLOURS = {"p50": "c0", "p99": "c1"}


def card(found: list[Ratio]) -> str:
    """The picture with its words."""
    return (
        f'<figure class="card"><figcaption><h3>{TITLE}</h3>'
        "<p>Right of 1 the newer run is slower.</p></figcaption>"
        f"{draw(found)}</figure>"
    )


def draw(found: list[Ratio]) -> str:
    """The SVG: a row for each route, a mark for its median and one for its p99."""
    names = list(dict.fromkeys(one.route for one in found))
    bottom = TOP + ROW * len(names)
    reach = max([2.0, *(max(one.ratio, 1 / one.ratio) for one in found)]) * 1.05
    parts = [
        f"<title>{TITLE}</title>",
        *_axis(reach, bottom),
        *_key(),
    ]
    for index, name in enumerate(names):
        y = TOP + ROW * (index + 0.5)
        parts.append(_text(LEFT - 10, y + 4, name, "end", "name"))
        parts += [_mark(_x(one.ratio, reach), y, one) for one in found if one.route == name]
    return (
        f'<svg viewBox="0 0 {WIDTH} {bottom + BOTTOM}" role="img" '
        f'aria-label="{TITLE}">{"".join(parts)}</svg>'
    )


def _axis(reach: float, bottom: float) -> list[str]:
    parts = []
    steps = [value for value in (0.1, 0.2, 0.5, 1, 2, 5, 10) if 1 / reach <= value <= reach]
    for value in steps:
        x = _x(value, reach)
        kind = "axis" if value == 1 else "grid"
        parts.append(f'<path class="{kind}" d="M{x} {TOP}V{bottom}"/>')
        parts.append(_text(x, bottom + 17, f"× {value:g}", "middle"))
    return parts


def _key() -> list[str]:
    parts = []
    for index, what in enumerate(SHAPES):
        x = LEFT + 70 * index
        parts.append(
            f'<path d="{SHAPES[what]}" transform="translate({x + 6} 14)" style="fill:var(--{COLOURS[what]})"/>'
        )
        parts.append(_text(x + 18, 18, what, "start", "name"))
    return parts


def _mark(x: float, y: float, one: Ratio) -> str:
    words = f"{one.route}, {one.what}: {one.ratio:.2f} times the base run"
    return (
        f'<path d="{SHAPES[one.what]}" transform="translate({x} {y})" '
        f'style="fill:var(--{COLOURS[one.what]})"><title>{escape(words)}</title></path>'
    )


def _x(ratio: float, reach: float) -> float:
    share = (math.log(ratio) / math.log(reach) + 1) / 2
    return round(LEFT + (WIDTH - LEFT - RIGHT) * share, 1)


def _text(x: float, y: float, words: str, anchor: str, kind: str = "tick") -> str:
    return f'<text class="{kind}" x="{round(x, 1)}" y="{round(y, 1)}" text-anchor="{anchor}">{escape(words)}</text>'
