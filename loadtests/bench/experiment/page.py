"""The report of a record: Markdown with tables, the setting, and pictures in separate files."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median

from loadtests.bench.experiment import plots
from loadtests.bench.experiment.plots import Plot
from loadtests.bench.experiment.record import Record
from loadtests.bench.machine import others

LEGEND = "A figure is the median of the rounds, with the lowest and the highest in brackets."

Column = tuple[str, Callable[[str], str]]
"""Its title, and the cell for the name of a line."""


class Page:
    """Is filled from top to bottom."""

    def __init__(self, title: str, record: Record, *lead: str) -> None:
        self._record = record
        self._blocks: list[str] = [f"# {title}"]
        self._plots: dict[str, Plot] = {}
        written = f"Written by `python3 loadtests/bench {record.benchmark}`."
        self.text(" ".join([written, *lead]))
        self._blocks.append(_setting(record))

    def text(self, *paragraphs: str) -> None:
        """Adds paragraphs."""
        self._blocks += filter(None, paragraphs)

    def section(self, title: str, *paragraphs: str, level: int = 2) -> None:
        """Begins a section."""
        self.text(f"{'#' * level} {title}", *paragraphs)

    def points(self, sentences: Iterable[str]) -> None:
        """Adds a list."""
        self.text("\n".join(f"- {sentence}" for sentence in sentences))

    def table(self, head: str, lines: Sequence[str], *columns: Column) -> None:
        """Adds a table: a line for each name, and the cells that the columns give for it."""
        rows = [[name, *(cell(name) for _, cell in columns)] for name in lines]
        self.text(table([head, *(title for title, _ in columns)], rows))

    def plot(self, plot: Plot) -> None:
        """Adds a picture."""
        file = f"{stem(self._record)}{f'-{plot.name}' if plot.name else ''}.svg"
        self._plots[file] = plot
        self.text(f"![{plot.title}]({file})")

    def quality(self) -> list[str]:
        """Sentences on wrong answers, what is missing, and how quiet the machine was."""
        record = self._record
        total, wrong = record.total("requests"), record.total("wrong")
        found = [f"{int(wrong) or 'None'} of {int(total):,} requests got a wrong answer or none."]
        found += [f"Not measured: {name}: {reason}" for name, reason in record.missing.items()]
        shares = list(record.disturbances())
        return [*found, *([others(shares)] if shares else [])]

    @property
    def markdown(self) -> str:
        """The text."""
        return "\n\n".join(self._blocks) + "\n"

    def write(self, folder: Path) -> list[Path]:
        """Writes text and pictures."""
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{stem(self._record)}.md"
        file.write_text(self.markdown)
        return [file, *plots.draw(self._plots, folder)]


def stem(record: Record) -> str:
    """What the names of the files of a benchmark begin with."""
    return f"bench-{record.benchmark}"


def cell(values: Sequence[float], digits: int, scale: float = 1.0) -> str:
    """Median, lowest and highest; a dash where nothing was measured."""
    if len(values) < 2:
        return middle(values, digits, scale)
    return spread([scale * value for value in values], digits)


def middle(values: Sequence[float], digits: int, scale: float = 1.0) -> str:
    """The median alone."""
    return f"{scale * median(values):,.{digits}f}" if values else "–"


def percent(values: Sequence[float], digits: int = 0, *, sign: bool = True) -> str:
    """Shares in percent: median, lowest and highest."""
    if not values:
        return "–"
    form = f"{'+' if sign else ''}.{digits}%"
    ends = f" ({min(values):{form}} to {max(values):{form}})" if len(values) > 1 else ""
    return f"{median(values):{form}}{ends}"


def verdict(values: Sequence[float], limit: float, *, least: bool = False) -> str:
    """Whether the median meets a target: at most, or at `least`, the limit."""
    met = median(values) >= limit if least else median(values) <= limit
    return (
        f"{'meets' if met else 'misses'} the target of at {'least' if least else 'most'} {limit:g}"
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
        "rounds": f"{max((row['round'] for row in record.rows), default=0)}; "
        f"{record.seconds / 60:.1f} minutes in all",
        "load average": load,
    }
    return table(["", ""], [[name, text] for name, text in rows.items() if text])


def spread(values: Sequence[float], digits: int) -> str:
    """The median, with the lowest and the highest in brackets."""
    low, high = min(values), max(values)
    return f"{median(values):,.{digits}f} ({low:,.{digits}f}–{high:,.{digits}f})"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table whose columns line up."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))} |"
        for line in lines
    )
