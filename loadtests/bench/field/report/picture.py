"""Pictures that stand alone: one SVG file with its style, for a light and a dark page."""

from pathlib import Path
from xml.sax.saxutils import escape

from loadtests import report
from loadtests.report.chart import Chart, Line, inner

STYLE = Path(report.__file__).with_name("chart.css").read_text()
"""The colours of the pages of load tests."""

OWN = """
text { font-family: system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
.paper { fill: var(--card); }
svg .title { fill: var(--ink); font-size: 16px; font-weight: 600; }
svg .panel { fill: var(--ink); font-size: 13.5px; font-weight: 600; }
svg .ours { fill: var(--ink); font-weight: 700; }
svg .spread { stroke: var(--ink); stroke-width: 1.2; opacity: .65; fill: none; }
svg .floor { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 5 3; fill: none; }
svg .floorname { fill: var(--bad); }
svg .cut { stroke: var(--card); stroke-width: 3; fill: none; }
svg .guide { stroke: var(--grid); stroke-width: 1; fill: none; }
"""

MARGIN = 20
TITLE = 70
"""The height of title and words above the panels."""

LETTER = 6.7
"""About the width of a letter of a legend."""

Drawn = tuple[str, float]
"""A panel, and its height."""


def document(title: str, about: str, panels: list[Drawn], columns: int, width: float) -> str:
    """Panels of one width in columns, under a title."""
    parts, y = [], float(TITLE)
    for first in range(0, len(panels), columns):
        row = panels[first : first + columns]
        for column, (body, _) in enumerate(row):
            x = MARGIN + column * (width + MARGIN)
            parts.append(f'<g transform="translate({x} {round(y, 1)})">{body}</g>')
        y += max(height for _, height in row) + MARGIN
    columns = min(columns, len(panels))
    whole = max(MARGIN + columns * (width + MARGIN), 2 * MARGIN + round(LETTER * len(about)))
    head = text(MARGIN, 26, title, kind="title") + text(MARGIN, 45, about)
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole:g} {y:g}" width="{whole:g}" '
        f'height="{y:g}" role="img">\n<title>{escape(title)}</title><desc>{escape(about)}</desc>\n'
        f"<style>\n{STYLE}{OWN.strip()}\n</style>\n"
        f'<rect class="paper" width="100%" height="100%"/>\n{head}\n{body}\n</svg>\n'
    )


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "tick") -> str:
    """Words at a place."""
    return (
        f'<text class="{kind}" x="{round(x, 1)}" y="{round(y, 1)}" text-anchor="{anchor}">'
        f"{escape(words)}</text>"
    )


def charted(chart: Chart) -> Drawn:
    """A chart with its title above it and its legend below."""
    key, height = _legend(chart.lines, chart.width)
    body = (
        text(0, 12, chart.title, kind="panel")
        + f'<g transform="translate(0 18)">{inner(chart)}</g>'
        + f'<g transform="translate(0 {chart.height + 34})">{key}</g>'
    )
    return body, chart.height + 34 + height


def _legend(lines: list[Line], width: float) -> Drawn:
    parts, x, y = [], 0.0, 0
    for line in filter(lambda line: line.name, lines):
        needed = 34 + LETTER * len(line.name) + 14
        if x and x + needed > width:
            x, y = 0.0, y + 18
        dash = ' stroke-dasharray="6 4"' if line.dashed else ""
        colour = line.colour if isinstance(line.colour, str) else f"c{line.colour}"
        style = f'style="stroke:var(--{colour})" stroke-width="{2.6 if line.heavy else 1.7}"{dash}'
        parts.append(f'<path class="line" {style} d="M{round(x, 1)} {y}h26"/>')
        parts.append(text(x + 32, y + 4, line.name))
        x += needed
    return "".join(parts), y + 18
