"""What is written of a run: its record, a summary in Markdown and a page in HTML."""

from pathlib import Path

from loadtests import record
from loadtests.record import Run


def keep(run: Run, folder: Path, base: Run | None = None) -> None:
    """Writes everything into the run's folder; `base` is an earlier run to compare it with."""
    record.write(run, folder)
