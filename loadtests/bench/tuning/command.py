"""The command `tuning` of `python3 loadtests/bench`."""

import argparse
from pathlib import Path

from loadtests.bench.options import OUT, RESULTS, add_builds, add_folder, positive
from loadtests.bench.tuning import run
from loadtests.bench.tuning.measure import Load


def add(commands: argparse._SubParsersAction) -> None:
    """Adds it to the commands."""
    parser = commands.add_parser(
        "tuning",
        help="10,000 connections at once, with the kernel's defaults and with the node tuner's sysctls",
        description="ab with 10,000 connections at once against one lane of corelane-server, in network "
        "namespaces of their own: with the kernel's defaults and with the sysctls that the node tuner "
        "prints for pods. Takes root; changes nothing of the machine. Builds what it needs.",
    )
    parser.add_argument(
        "--rounds", type=positive, default=run.ROUNDS, metavar="N", help=f"default: {run.ROUNDS}"
    )
    parser.add_argument("--quick", action="store_true", help="few connections, for a first look")
    parser.add_argument(
        "--tuning",
        default="web-10k",
        metavar="PROFILE",
        help="the node tuner's profile; default: web-10k",
    )
    parser.add_argument("--tuner", type=Path, metavar="PROGRAM", help="another build of node-tuner")
    add_folder(parser)
    add_builds(parser)
    parser.set_defaults(run=_tuning)


def _tuning(options: argparse.Namespace) -> int:
    plan = run.Plan(
        rounds=options.rounds,
        load=run.QUICK if options.quick else Load(),
        tuning=options.tuning,
        server=options.server and options.server.resolve(),
        tuner=options.tuner and options.tuner.resolve(),
        profile=options.profile,
    )
    return run.main(plan, options.out or (RESULTS if plan == run.Plan() else OUT))
