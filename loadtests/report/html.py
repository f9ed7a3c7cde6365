"""What pages are made of. They load nothing and run nothing: all is in the one file."""

from collections.abc import Iterable
from html import escape
from pathlib import Path

from loadtests.report.chart import Chart, draw, legend
from loadtests.report.scale import number
from loadtests.report.tables import Table

STYLES = [Path(__file__).with_name(name) for name in ("chart.css", "page.css")]


def document(title: str, body: Iterable[str]) -> str:
    """A whole page."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_style()}</style>\n</head>\n"
        "<body><main>\n" + "\n".join(body) + "\n</main></body>\n</html>\n"
    )


def _style() -> str:
    return "".join(style.read_text() for style in STYLES)


def table(found: Table, kind: str = "") -> str:
    """A table whose first column names its rows."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in found.head)
    rows = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in others)
        + "</tr>"
        for first, *others in found.rows
    )
    head = f"<thead><tr>{head}</tr></thead>" if found.head else ""
    return f'<div class="scroll"><table class="{kind}">{head}<tbody>{rows}</tbody></table></div>'


def facts(pairs: list[tuple[str, str]]) -> str:
    """Names with what they are."""
    return table(Table([], [list(pair) for pair in pairs]), "facts")


def tiles(pairs: Iterable[tuple[str, str, str, bool]]) -> str:
    """Few figures, large: name, value, what is small below it, and whether it is bad."""
    found = "".join(
        f'<dl class="tile{" bad" if bad else ""}"><dt>{escape(name)}</dt><dd>{escape(value)}'
        + (f"<small>{escape(below)}</small>" if below else "")
        + "</dd></dl>"
        for name, value, below, bad in pairs
    )
    return f'<div class="tiles">{found}</div>'


def card(title: str, about: str, inner: str) -> str:
    """A block with a title."""
    words = f"<p>{escape(about)}</p>" if about else ""
    return f'<section class="card"><h3>{escape(title)}</h3>{words}{inner}</section>'


def figure(chart: Chart) -> str:
    """A chart with its words, its legend and its figures as a table."""
    return (
        f'<figure class="card"><figcaption><h3>{escape(chart.title)}</h3><p>{escape(chart.about)}</p></figcaption>'
        f"{draw(chart)}{legend(chart)}"
        f"<details><summary>The same figures as a table</summary>{table(_figures(chart))}</details></figure>"
    )


def side_by_side(blocks: Iterable[str]) -> str:
    """In two columns, where there is room."""
    return f'<div class="grid2">{"".join(blocks)}</div>'


def _figures(chart: Chart) -> Table:
    """A row for each place on the horizontal axis, a column for each line."""
    columns = [dict(line.points) for line in chart.lines]
    places = sorted({x for column in columns for x in column})
    rows = [
        [f"{x:.6g}", *("" if column.get(x) is None else number(column[x]) for column in columns)]
        for x in places
    ]
    return Table([chart.x.label, *(line.name for line in chart.lines)], rows)
