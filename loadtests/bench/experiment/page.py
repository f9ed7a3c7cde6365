"""Writes a record's report: Markdown with tables, the test bed, and charts in separate files."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from loadtests.bench.experiment import plots
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record
from stack.machine import others

LEGEND = "Each figure is the median of the rounds, with the lowest and highest in brackets. Ratios are computed within a round."

Column = tuple[str, Callable[[str], str]]
"""Title of a column, and the function that returns the cell for a line's name."""

Labels = Mapping[str, object]

Lines = Mapping[str, Labels]


@dataclass(frozen=True)
class Figure:
    title: str
    name: str
    digits: int = 2
    scale: float = 1.0
    where: Labels = field(default_factory=dict)
    """Labels that select the value, in addition to the row's."""
    over: Labels = field(default_factory=dict)
    """Labels of a baseline: values are ratios to it, computed per round."""
    brief: bool = False
    """Shows only the median."""

    def values(self, record: Record, line: Labels) -> list[float]:
        labels = {**line, **self.where}
        if self.over:
            return record.ratios(self.name, labels, {**labels, **self.over})
        return record.values(self.name, **labels)

    def cell(self, record: Record, line: Labels) -> str:
        show = middle if self.brief else cell
        return show(self.values(record, line), self.digits, self.scale)


class Page:
    def __init__(self, title: str, record: Record, *lead: str) -> None:
        self._record = record
        self._blocks: list[str] = [f"# {title}"]
        self._plots: dict[str, Plot] = {}
        written = f"Written by `python3 loadtests/bench {record.benchmark}`."
        self.text(" ".join(filter(None, [written, *lead, LEGEND])))
        self._blocks.append(_setting(record))

    def text(self, *paragraphs: str) -> None:
        self._blocks += filter(None, paragraphs)

    def section(self, title: str, *paragraphs: str, level: int = 2) -> None:
        self.text(f"{'#' * level} {title}", *paragraphs)

    def points(self, sentences: Iterable[str]) -> None:
        self.text("\n".join(f"- {sentence}" for sentence in sentences))

    def lines(self, label: str, **where: object) -> dict[str, Labels]:
        found = self._record.labels(label, **where)
        return {value: {**where, label: value} for value in found}

    def figures(self, head: str, lines: Lines, *columns: Figure | Column) -> None:
        """Adds a table without empty rows."""
        record, known = self._record, [one for one in columns if isinstance(one, Figure)]
        there = [name for name in lines if any(one.values(record, lines[name]) for one in known)]
        if there:
            self.table(head, there, *(_column(one, record, lines) for one in columns))

    def table(self, head: str, lines: Sequence[str], *columns: Column) -> None:
        """Adds a table with one line per name. The columns return the cells."""
        rows = [[name, *(cell(name) for _, cell in columns)] for name in lines]
        self.text(table([head, *(title for title, _ in columns)], rows))

    def chart(self, title: str, lines: Lines, *figures: Figure, log: str = "") -> None:
        """Adds a chart with one panel per metric and line names at the side."""
        panels = [
            Panel(
                [
                    Series(
                        one.title, [(line, one.values(self._record, lines[line])) for line in lines]
                    )
                ],
                one.title,
                kind="dots" if log else "bars",
                log=log,
            )
            for one in figures
        ]
        self.plot(Plot(title, panels))

    def plot(self, plot: Plot) -> None:
        if any(values for panel in plot.panels for one in panel.series for _, values in one.points):
            file = f"{stem(self._record)}{f'-{plot.name}' if plot.name else ''}.svg"
            self._plots[file] = plot
            self.text(f"![{plot.title}]({file})")

    def quality(self) -> list[str]:
        """Adds sentences about wrong responses, missing measurements, and other load on the
        machine.
        """
        record = self._record
        total, wrong = record.total("requests"), record.total("wrong")
        found = [f"{int(wrong) or 'None'} of {int(total):,} requests got a wrong response or none."]
        found += [f"Not measured: {name}: {reason}" for name, reason in record.missing.items()]
        shares = list(record.disturbances())
        return [*found, *([others(shares)] if shares else [])]

    @property
    def markdown(self) -> str:
        return "\n\n".join(self._blocks) + "\n"

    def write(self, folder: Path) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{stem(self._record)}.md"
        file.write_text(self.markdown)
        return [file, *plots.draw(self._plots, folder)]


def _column(one: Figure | Column, record: Record, lines: Lines) -> Column:
    if isinstance(one, Figure):
        return one.title, lambda name: one.cell(record, lines[name])
    return one


def stem(record: Record) -> str:
    return f"bench-{record.benchmark}"


def cell(values: Sequence[float], digits: int, scale: float = 1.0) -> str:
    """Median, minimum and maximum, or a dash if there are no measurements."""
    if len(values) < 2:
        return middle(values, digits, scale)
    scaled = [scale * value for value in values]
    low, high = min(scaled), max(scaled)
    return f"{median(scaled):,.{digits}f} ({low:,.{digits}f}–{high:,.{digits}f})"


def middle(values: Sequence[float], digits: int, scale: float = 1.0) -> str:
    return f"{scale * median(values):,.{digits}f}" if values else "–"


def verdict(values: Sequence[float], limit: float, *, least: bool = False) -> str:
    """A sentence with the values and whether their median meets a target: at most the limit or,
    with `least`, at least the limit.
    """
    met = median(values) >= limit if least else median(values) <= limit
    word = "least" if least else "most"
    return (
        f"{cell(values, 2)}, which {'meets' if met else 'misses'} the target of at {word} {limit:g}"
    )


def _setting(record: Record) -> str:
    about, plan = record.machine, record.plan
    load = ", ".join(
        f"{' '.join(f'{each:.2f}' for each in found)} {when}"
        for when, found in record.load_average.items()
    )
    rows = {
        "command": f"`{record.command}`",
        "date": about["date"],
        "machine": f"{about['cpu']}, {about['cores']} cores, {about['kernel']}",
        "sources": f"{about['sources']}, profile {plan['profile']}",
        "versions": ", ".join(f"{name} {text}" for name, text in record.versions.items()),
        "rounds": f"{max((row['round'] for row in record.rows), default=0)}, in {record.seconds / 60:.1f} minutes",
        "load average": load,
    }
    return table(["", ""], [[name, text] for name, text in rows.items() if text])


def table(head: list[str], rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))} |"
        for line in lines
    )
