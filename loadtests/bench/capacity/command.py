"""The command `capacity` of `python3 loadtests/bench`."""

import argparse
from dataclasses import replace
from pathlib import Path

from loadtests.bench.capacity import run
from loadtests.bench.capacity.cells import NAMES
from loadtests.bench.capacity.measure import QUICK
from loadtests.bench.options import OUT, RESULTS, add_builds, add_folder, positive, some_of


def add(commands: argparse._SubParsersAction) -> None:
    """Adds it to the commands."""
    parser = commands.add_parser(
        "capacity",
        help="the capacity model's knee and p99, beside what is measured",
        description="Lets `corelane capacity` predict the knee of a replica and its p99 at 70% of that from a "
        "low load, and measures both: for mixes of requests, on one lane and on two, and where slots are the limit.",
    )
    parser.add_argument(
        "--rounds", type=positive, metavar="N", help=f"default: {run.ROUNDS}, with --quick 1"
    )
    parser.add_argument("--quick", action="store_true", help="far shorter, for a first look")
    parser.add_argument(
        "--cells",
        type=some_of(NAMES),
        default=NAMES,
        metavar="NAMES",
        help=f"some only, with commas between: {','.join(NAMES)}",
    )
    parser.add_argument(
        "--ahead",
        action="store_true",
        help="servers run ahead of all other processes, for a machine that is not quiet; the kernel leaves "
        "the others a twentieth of each CPU",
    )
    parser.add_argument(
        "--corelane", type=Path, metavar="PROGRAM", help="another build of corelane"
    )
    add_folder(parser)
    add_builds(parser)
    parser.set_defaults(run=_capacity)


def _capacity(options: argparse.Namespace) -> int:
    plan = run.Plan(
        cells=options.cells,
        rounds=options.rounds or (1 if options.quick else run.ROUNDS),
        server=options.server and options.server.resolve(),
        command=options.corelane and options.corelane.resolve(),
        ahead=options.ahead,
        profile=options.profile,
    )
    if options.quick:
        plan = replace(plan, lengths=QUICK)
    full = plan == replace(run.Plan(), ahead=plan.ahead)
    return run.main(plan, options.out or (RESULTS if full else OUT))
