"""The commands of `python3 loadtests`: one per scenario, and a few others."""

import argparse
import os
import signal
import sys
from pathlib import Path

from loadtests import k6, record, scenario, suite
from loadtests.cluster import command as cluster
from loadtests.report import write_pages
from loadtests.report.markdown import verdict
from loadtests.report.tables import when
from loadtests.scenario import add_out
from loadtests.usage import Parser, UsageError
from tools.errors import ToolError

COMMANDS = (scenario, suite, cluster)
"""Modules with `add(commands)`, which sets `run`, a function from the parsed options to the exit
status.
"""


def main(arguments: list[str]) -> int:
    """Returns 0, 99 if a threshold failed, or 1 if nothing could be tested."""
    parser = Parser(
        prog="python3 loadtests",
        description="Runs a scenario through the gateway and stores the results, or runs another command.",
        epilog="Environment: GATEWAY_URL (else the instance that make up started, INSTANCE), "
        "REPLICAS (how many must answer behind GATEWAY_URL)",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add(commands)
    _add_report(commands)
    _add_list(commands)
    options = parser.parse_args(arguments)
    # The signal acts like Ctrl-C, so that no process remains.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return options.run(options)
    except UsageError as error:
        print(f"loadtests: {error}", file=sys.stderr)
        return os.EX_USAGE
    except ToolError as error:
        print(f"loadtests: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _add_list(commands: argparse._SubParsersAction) -> None:
    about = "lists the scenarios, and the newest run of each name"
    parser = commands.add_parser("list", help=about, description=about)
    add_out(parser)
    parser.set_defaults(run=_list)


def _list(options: argparse.Namespace) -> int:
    names = k6.scenarios()
    width = max(map(len, names))
    for name in names:
        print(f"{name:<{width}}  {k6.purpose(name)}")
    newest = sorted(link for link in options.out.glob("*-latest") if (link / record.FILE).exists())
    if newest:
        print("\nNewest runs")
    for folder in newest:
        print(f"{folder.name.removesuffix('-latest'):<{width}}  {_told(folder)}")
    return 0


def _told(folder: Path) -> str:
    try:
        run = record.read(folder)
    except ToolError as error:
        return str(error)
    return f"{when(run)}  {verdict(run)}  {folder}"


def _add_report(commands: argparse._SubParsersAction) -> None:
    about = "regenerates a run's summary and page, optionally compared with another run"
    parser = commands.add_parser("report", help=about, description=about)
    parser.add_argument(
        "recorded",
        type=Path,
        metavar="RUN",
        help="folder of the run, e.g. loadtests/out/load-latest",
    )
    parser.add_argument("--base", type=Path, metavar="RUN", help="folder of an earlier run")
    parser.set_defaults(run=_report)


def _report(options: argparse.Namespace) -> int:
    run = record.read(options.recorded)
    base = record.read(options.base) if options.base else None
    folder = options.recorded if options.recorded.is_dir() else options.recorded.parent
    write_pages(run, folder, base)
    print(folder / "report.html")
    return 0
