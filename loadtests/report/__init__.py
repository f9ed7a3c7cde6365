"""Writes the results of a run: its record, a summary in Markdown and an HTML page."""

from pathlib import Path

from loadtests import record
from loadtests.record import Run
from loadtests.report.markdown import markdown
from loadtests.report.page import page


def keep(run: Run, folder: Path, base: Run | None = None) -> None:
    """`base` is an earlier run for comparison."""
    record.write(run, folder)
    write_pages(run, folder, base)


def write_pages(run: Run, folder: Path, base: Run | None = None) -> None:
    (folder / "summary.md").write_text(markdown(run, base))
    (folder / "report.html").write_text(page(run, base))
