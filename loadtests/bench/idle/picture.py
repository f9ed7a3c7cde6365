"""One picture: the p99 of live requests and the servers' memory, by connections that wait."""

from statistics import median
from xml.sax.saxutils import escape

LEFT, TOP, WIDTH, HEIGHT, GAP = 70, 78, 340, 220, 110
LOOKS = {"corelane, parked": ("#1b6e3c", "none"), "corelane, not parked": ("#b3331d", "7 4")}
"""Lines are told apart by form too."""

STEPS = 4

TITLE = "By connections that wait: median of the climbs, the lowest and the highest"


def draw(record: dict) -> str:
    """An SVG."""
    ladder = record["ladder"]
    panels = (
        ("p99 of live requests, ms", lambda rung: rung["live"]["p99"]),
        ("resident memory of the servers, MiB", lambda rung: rung["resident_kib"] / 1024),
    )
    parts = [_text(LEFT, 22, TITLE, weight="bold")]
    for index, name in enumerate(ladder):
        x = LEFT + index * 220
        parts.append(f'<line x1="{x}" x2="{x + 30}" y1="40" y2="40" {_stroke(name)}/>')
        parts.append(_text(x + 36, 44, name))
    for index, (title, value) in enumerate(panels):
        parts += _panel(ladder, title, value, LEFT + index * (WIDTH + GAP))
    size = f'viewBox="0 0 {LEFT + 2 * WIDTH + GAP + 40} {TOP + HEIGHT + 44}"'
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def _panel(ladder: dict, title: str, value, x: float) -> list[str]:
    rungs = [rung for climbs in ladder.values() for climb in climbs for rung in climb["rungs"]]
    across = max(1, *(rung["connections"] for rung in rungs))
    high = _round_up(max(value(rung) for rung in rungs))
    parts = [_text(x, TOP - 10, title, weight="bold")]
    for step in range(STEPS + 1):
        share = step / STEPS
        y, at = TOP + HEIGHT * (1 - share), x + WIDTH * share
        parts.append(f'<line x1="{x}" x2="{x + WIDTH}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        parts.append(_text(x - 8, y + 4, f"{high * share:,.4g}", anchor="end"))
        label = f"{across * share:,.0f}"
        parts.append(_text(at, TOP + HEIGHT + 18, label, anchor="middle"))
    for name, climbs in ladder.items():
        points = []
        for rung in zip(*(climb["rungs"] for climb in climbs), strict=True):
            at = x + WIDTH * rung[0]["connections"] / across
            values = [TOP + HEIGHT * (1 - value(one) / high) for one in rung]
            points.append(f"{at:.1f},{median(values):.1f}")
            ends = f'y1="{min(values):.1f}" y2="{max(values):.1f}"'
            parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" {ends} {_stroke(name)}/>')
        parts.append(f'<polyline points="{" ".join(points)}" {_stroke(name)}/>')
    return parts


def _round_up(value: float) -> float:
    """The next of 1, 2, 4, 8 times a power of ten."""
    unit = 1e-3
    while unit * 8 < value:
        unit *= 10
    return next(unit * step for step in (1, 2, 4, 8) if unit * step >= value)


def _stroke(name: str) -> str:
    colour, dashes = LOOKS[name]
    return f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"'


def _text(x: float, y: float, words: str, anchor: str = "start", weight: str = "normal") -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'
