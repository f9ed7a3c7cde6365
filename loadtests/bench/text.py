"""Figures and tables of the reports."""

from collections.abc import Sequence
from statistics import median


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
