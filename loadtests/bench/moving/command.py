"""The command `moving` of `python3 loadtests/bench`."""

import argparse
from dataclasses import replace

from loadtests.bench.moving import run
from loadtests.bench.moving.bench import FULL, QUICK
from loadtests.bench.options import OUT, RESULTS, add_builds, add_folder, positive, some_of


def add(commands: argparse._SubParsersAction) -> None:
    """Adds it to the commands."""
    parser = commands.add_parser(
        "moving",
        help="connections that park and move between lanes: what it gains, what it costs",
        description="Few connections on one of two lanes, alone and behind Envoy; the CPU time of a park and a "
        "wake and of a move; what both cost connections that are busy; and 10,000 that ask once in a while.",
    )
    parser.add_argument(
        "--rounds", type=positive, metavar="N", help=f"default: {FULL.rounds}, with --quick 1"
    )
    parser.add_argument(
        "--busy-rounds",
        type=positive,
        metavar="N",
        help="of busy connections: so many, decided or not; default: "
        + ", ".join(map(str, FULL.looks))
        + ", until it is decided",
    )
    parser.add_argument("--quick", action="store_true", help="one short round, for a first look")
    parser.add_argument(
        "--only",
        type=some_of(run.PARTS),
        default=tuple(run.PARTS),
        metavar="PARTS",
        help=f"some parts only, with commas between: {','.join(run.PARTS)}",
    )
    parser.add_argument(
        "--ahead",
        action="store_true",
        help="everything that is measured runs ahead of other processes, for a machine that is not quiet",
    )
    add_folder(parser)
    add_builds(parser)
    parser.set_defaults(run=_moving)


def _moving(options: argparse.Namespace) -> int:
    size = QUICK if options.quick else FULL
    if options.rounds:
        size = replace(size, rounds=options.rounds, few_rounds=options.rounds)
    if options.busy_rounds:
        size = replace(size, looks=(options.busy_rounds,))
    plan = run.Plan(
        parts=options.only,
        size=size,
        server=options.server and options.server.resolve(),
        profile=options.profile,
        ahead=options.ahead,
    )
    full = plan == replace(run.Plan(), ahead=plan.ahead)
    return run.main(plan, options.out or (RESULTS if full else OUT))
