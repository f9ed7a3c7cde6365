"""Building blocks of pages. A page loads and runs nothing: everything is in one file."""

import re
from collections.abc import Iterable
from html import escape
from pathlib import Path

from loadtests.bench.experiment.plots import Plot, inline
from loadtests.report.plots import Chart
from loadtests.report.tables import Table, number
from tools.errors import ToolError

STYLE = Path(__file__).with_name("page.css")


class Document:
    """A complete page; a script at its end draws all charts."""

    def __init__(self) -> None:
        self._charts: list[Chart] = []

    def figure(self, chart: Chart) -> str:
        self._charts.append(chart)
        return (
            f'<figure class="card"><figcaption><h3>{escape(chart.title)}</h3><p>{escape(chart.about)}</p></figcaption>'
            f'<div class="plot" tabindex="0">{_place(len(self._charts))}</div>'
            f"<details><summary>The same figures as a table</summary>{table(_figures(chart))}</details></figure>"
        )

    def written(self, title: str, body: Iterable[str]) -> str:
        text = (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(title)}</title>\n<style>\n{STYLE.read_text()}</style>\n</head>\n"
            "<body><main>\n" + "\n".join(body) + "\n</main></body>\n</html>\n"
        )
        for place, drawing in enumerate(self._drawn(), 1):
            text = text.replace(_place(place), drawing)
        return text

    def _drawn(self) -> list[str]:
        """The drawings, or a note about missing matplotlib. The tables contain the values."""
        try:
            plots = [
                Plot("", [chart.panel], transparent=True, hover=True) for chart in self._charts
            ]
            found = inline(plots)
        except ToolError as error:
            return [f"<p>Not drawn: {escape(str(error))}</p>"] * len(self._charts)
        return [_named(svg, chart) for svg, chart in zip(found, self._charts, strict=True)]


def _place(number: int) -> str:
    """Placeholder of a drawing. All other text is escaped and cannot contain it."""
    return f"<!-- chart {number} -->"


def _named(svg: str, chart: Chart) -> str:
    title, about = escape(chart.title), escape(chart.about)
    begin = f'<svg role="img" aria-label="{title}" '
    words = f"<title>{title}</title><desc>{about}</desc>"
    return re.sub(r"<svg ([^>]*>)", lambda found: f"{begin}{found[1]}{words}", svg, count=1)


def table(found: Table, kind: str = "") -> str:
    """The first column names the rows."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in found.head)
    rows = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in others)
        + "</tr>"
        for first, *others in found.rows
    )
    head = f"<thead><tr>{head}</tr></thead>" if found.head else ""
    return f'<div class="scroll" tabindex="0"><table class="{kind}">{head}<tbody>{rows}</tbody></table></div>'


def facts(pairs: list[tuple[str, str]]) -> str:
    return table(Table([], [list(pair) for pair in pairs]), "facts")


def tiles(pairs: Iterable[tuple[str, str, str, bool]]) -> str:
    """A few headline values: name, value, small print, and whether the value is bad."""
    found = "".join(
        f'<dl class="tile{" bad" if bad else ""}"><dt>{escape(name)}</dt><dd>{escape(value)}'
        + (f"<small>{escape(below)}</small>" if below else "")
        + "</dd></dl>"
        for name, value, below, bad in pairs
    )
    return f'<div class="tiles">{found}</div>'


def card(title: str, about: str, inner: str) -> str:
    words = f"<p>{escape(about)}</p>" if about else ""
    return f'<section class="card"><h3>{escape(title)}</h3>{words}{inner}</section>'


def side_by_side(blocks: Iterable[str]) -> str:
    """Two columns if there is room."""
    return f'<div class="grid2">{"".join(blocks)}</div>'


def _figures(chart: Chart) -> Table:
    """A row for each place on the horizontal axis, and a column for each line."""
    lines = [line for line in chart.panel.series if not line.dots]
    columns = [{x: values[0] for x, values in line.points if values} for line in lines]
    places = sorted({x for column in columns for x in column})
    rows = [
        [
            x if isinstance(x, str) else f"{x:.6g}",
            *("" if x not in column else number(column[x]) for column in columns),
        ]
        for x in places
    ]
    return Table([chart.panel.x, *(line.name for line in lines)], rows)
