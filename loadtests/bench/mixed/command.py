"""The command `mixed` of `python3 loadtests/bench`."""

import argparse
from dataclasses import replace

from loadtests.bench.mixed import run
from loadtests.bench.mixed.cells import DATABASES, MODES, PATHS
from loadtests.bench.mixed.measure import QUICK
from loadtests.bench.options import OUT, RESULTS, add_builds, add_folder, positive, some_of


def add(commands: argparse._SubParsersAction) -> None:
    """Adds it to the commands."""
    parser = commands.add_parser(
        "mixed",
        help="1,000 users, each with a page, a load and a save; databases, ways and modes",
        description="Many users at once, each with a page, a load and a save of a project in turn: "
        "on SQLite and PostgreSQL, direct and through the gateway, in the three modes of the lanes.",
    )
    parser.add_argument(
        "--rounds", type=positive, metavar="N", help=f"default: {run.ROUNDS}, with --quick 1"
    )
    parser.add_argument("--quick", action="store_true", help="few users, shorter, for a first look")
    for flag, known in (("databases", DATABASES), ("paths", PATHS), ("modes", tuple(MODES))):
        parser.add_argument(
            f"--{flag}",
            type=some_of(known),
            default=known,
            metavar="NAMES",
            help=f"some only, with commas between: {','.join(known)}",
        )
    add_folder(parser)
    add_builds(parser)
    parser.set_defaults(run=_mixed)


def _mixed(options: argparse.Namespace) -> int:
    plan = run.Plan(
        databases=options.databases,
        paths=options.paths,
        modes=options.modes,
        rounds=options.rounds or (1 if options.quick else run.ROUNDS),
        server=options.server and options.server.resolve(),
        profile=options.profile,
    )
    if options.quick:
        plan = replace(plan, size=QUICK)
    full = plan == run.Plan()
    return run.main(plan, options.out or (RESULTS if full else OUT))
