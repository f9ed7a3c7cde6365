"""Commands, each of which runs one scenario."""

import argparse
from datetime import UTC, datetime
from pathlib import Path

from loadtests import k6, record, target
from loadtests.record import Run
from loadtests.report import keep
from loadtests.report.markdown import markdown
from loadtests.usage import positive

SETTINGS = ("rate", "duration", "vus", "seed")


def add(commands: argparse._SubParsersAction) -> None:
    for name in k6.scenarios():
        about = k6.purpose(name).replace("%", "%%")
        parser = commands.add_parser(name, help=about, description=about)
        parser.add_argument("--rate", type=positive, metavar="N", help="requests per second")
        parser.add_argument("--duration", metavar="TIME", help="for example 20s or 2m")
        parser.add_argument(
            "--vus", type=positive, metavar="N", help="virtual users, for scenarios with users"
        )
        parser.add_argument("--seed", type=positive, metavar="N", help="random seed")
        parser.add_argument(
            "--base", type=Path, metavar="RUN", help="folder of an earlier run to compare with"
        )
        add_out(parser)
        parser.set_defaults(run=_run, scenario=name)


def add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        type=Path,
        default=record.OUT,
        metavar="FOLDER",
        help="parent of the run's folder; default: loadtests/out",
    )


def _run(options: argparse.Namespace) -> int:
    base = record.read(options.base) if options.base else None
    settings = {name: value for name in SETTINGS if (value := getattr(options, name)) is not None}
    run, folder = run_one(options.scenario, target.find(), settings, options.out, base)
    print(markdown(run, base))
    print(f"report      {folder / 'report.html'}")
    if (folder / k6.DASHBOARD).exists():
        print(f"k6's own    {folder / k6.DASHBOARD}")
    return exit_status(run)


def run_one(
    scenario: str,
    where: target.Target,
    settings: dict[str, object],
    out: Path,
    base: Run | None = None,
) -> tuple[Run, Path]:
    folder = record.create_folder(out, scenario, datetime.now(UTC))
    try:
        run = k6.run(scenario, where, settings, folder)
    except BaseException:
        # Keep logs, which may show the reason; an empty folder is useless.
        if not any(folder.iterdir()):
            folder.rmdir()
        raise
    keep(run, folder, base)
    return run, folder


def exit_status(run: Run) -> int:
    """99 for a threshold, 130 after an interrupt, 1 for an earlier failure."""
    known = {0: 0, k6.THRESHOLD: k6.THRESHOLD, k6.INTERRUPTED: 130}
    return known.get(run.exit_code, 1)
