"""The command `list`: what can be run, and what was."""

import argparse
from pathlib import Path

from loadtests import k6, record
from loadtests.report.markdown import verdict
from loadtests.report.tables import when
from loadtests.scenario import add_out
from tools.errors import ToolError


def add(commands: argparse._SubParsersAction) -> None:
    """Adds it to the commands."""
    about = "lists the scenarios, and the newest run of each name"
    parser = commands.add_parser("list", help=about, description=about)
    add_out(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
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
