"""The command `report`: writes the pages of a run again, for example with another base."""

import argparse
from pathlib import Path

from loadtests import record
from loadtests.report import write_pages


def add(commands: argparse._SubParsersAction) -> None:
    """Adds it to the commands."""
    about = "writes a run's summary and page again, compared with another run if one is named"
    parser = commands.add_parser("report", help=about, description=about)
    parser.add_argument(
        "recorded", type=Path, metavar="RUN", help="folder of the run, as loadtests/out/load-latest"
    )
    parser.add_argument("--base", type=Path, metavar="RUN", help="folder of an earlier run")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    run = record.read(options.recorded)
    base = record.read(options.base) if options.base else None
    folder = options.recorded if options.recorded.is_dir() else options.recorded.parent
    write_pages(run, folder, base)
    print(folder / "report.html")
    return 0
