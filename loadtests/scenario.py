"""The commands that run one scenario each."""

import argparse
from pathlib import Path

from loadtests import k6, record, summary, target
from loadtests.report import keep


def add(commands: argparse._SubParsersAction) -> None:
    """Adds every scenario to the commands."""
    for name in k6.scenarios():
        parser = commands.add_parser(name, help=k6.purpose(name))
        parser.add_argument("--rate", type=int, metavar="N", help="requests started each second")
        parser.add_argument("--duration", metavar="TIME", help="as in 20s or 2m")
        parser.add_argument("--vus", type=int, metavar="N", help="virtual users, where it has them")
        parser.add_argument("--seed", type=int, metavar="N", help="another order of random choices")
        parser.add_argument(
            "--out",
            type=Path,
            default=record.OUT,
            metavar="FOLDER",
            help="where the run's folder is made; default: loadtests/out",
        )
        parser.set_defaults(run=_run, scenario=name)


def _run(options: argparse.Namespace) -> int:
    settings = {
        name: value
        for name in ("rate", "duration", "vus", "seed")
        if (value := getattr(options, name)) is not None
    }
    run, folder = k6.run(options.scenario, target.find(), settings, options.out)
    keep(run, folder)
    print(summary.describe(run))
    print(f"report      {folder}")
    return run.exit_code
