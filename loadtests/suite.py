"""The `suite` command, which runs every scenario and writes an overview page."""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from loadtests import k6, record, scenario, target
from loadtests.record import Run
from loadtests.report import overview
from loadtests.usage import some_of
from tools.errors import ToolError

NAME = "suite"
SHORT = {
    # In a breakpoint, this is the duration of one step.
    "breakpoint": {"duration": "2s"},
    "s1-c10k-static": {"vus": 500},
    "s2-cpu-matrix": {"duration": "20s", "vus": 100},
    "s3-c10k-20000": {"vus": 500, "rounds": 4},
    "s3-mixed-projects": {"duration": "10s", "vus": 50, "rounds": 4},
    "soak": {"duration": "30s"},
}
"""Settings of scenarios that a duration of ten seconds would not shorten enough."""

LAST = ("soak", "stress", "spike", "breakpoint", "s3-c10k-20000")
"""Scenarios that leave connections and heat behind, which would affect the next scenario's figures.
"""

INTERRUPTED = 130
WORST = (0, k6.THRESHOLD, 1, INTERRUPTED)


def add(commands: argparse._SubParsersAction) -> None:
    about = "runs all scenarios briefly and writes a combined page"
    parser = commands.add_parser(NAME, help=about, description=about)
    known = k6.scenarios()
    parser.add_argument(
        "--only",
        type=some_of(known),
        default=known,
        metavar="NAMES",
        help=f"comma-separated scenarios: {', '.join(known)}",
    )
    parser.add_argument("--full", action="store_true", help="run each for its full duration")
    parser.add_argument(
        "--base", type=Path, metavar="SUITE", help="folder of an earlier suite to compare with"
    )
    scenario.add_out(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    where = target.find()
    folder = record.create_folder(options.out, NAME, datetime.now(UTC))
    names = sorted(options.only, key=lambda name: LAST.index(name) if name in LAST else -1)
    ended: dict[str, tuple[Run, Path] | str] = {}
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name}", file=sys.stderr, flush=True)
        settings = {} if options.full else SHORT.get(name, {"duration": "10s"})
        try:
            ended[name] = scenario.run_one(name, where, settings, folder, _base(options, name))
        except ToolError as error:
            print(f"loadtests: {name}: {error}", file=sys.stderr)
            ended[name] = str(error)
        overview.write(folder, ended)
        if _status(ended[name]) == INTERRUPTED:
            break
    record.point_latest(folder, NAME)
    print(overview.markdown(ended))
    print(f"report      {folder / 'index.html'}")
    return max(map(_status, ended.values()), key=WORST.index)


def _status(found: tuple[Run, Path] | str) -> int:
    return 1 if isinstance(found, str) else scenario.exit_status(found[0])


def _base(options: argparse.Namespace, name: str) -> Run | None:
    """The same scenario in the earlier suite, if that suite contains it."""
    folder = options.base and options.base / f"{name}-latest"
    return record.read(folder) if folder and folder.is_dir() else None
