"""The command `idle` of `python3 loadtests/bench`."""

import argparse
from pathlib import Path

from loadtests.bench.idle import report, run
from loadtests.bench.options import OUT, RESULTS, add_builds, add_folder, positive, some_of


def add(commands: argparse._SubParsersAction) -> None:
    """Adds it to the commands."""
    parser = commands.add_parser(
        "idle",
        help="what a connection costs that waits, and what 100,000 of them cost live requests",
        description="Resident memory of each connection that waits, parked and not, over TCP and TLS, beside "
        "nginx; then up to 100,000 of them with live requests beside, all woken once, and drained. In a "
        "network namespace of its own, so it takes root. Builds what it needs.",
    )
    parser.add_argument(
        "--rounds", type=positive, metavar="N", help=f"of the memory; default: {run.ROUNDS}"
    )
    parser.add_argument(
        "--climbs", type=positive, metavar="N", help=f"of the ladder; default: {run.CLIMBS}"
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="one round and fewer rungs")
    size.add_argument("--tiny", action="store_true", help="to see that all of it works")
    parser.add_argument(
        "--only",
        type=some_of(run.PARTS),
        metavar="PARTS",
        help=f"some parts only, with commas between: {','.join(run.PARTS)}",
    )
    parser.add_argument("--top", type=positive, metavar="N", help="another top of the ladder")
    parser.add_argument(
        "--render",
        type=Path,
        metavar="FILE",
        help="instead: writes the report of a bench-idle.json",
    )
    add_folder(parser)
    add_builds(parser)
    parser.set_defaults(run=_idle)


def _idle(options: argparse.Namespace) -> int:
    if options.render:
        return report.render(options.render)
    chosen = dict(run.QUICK if options.quick else run.TINY if options.tiny else {})
    chosen |= {"rounds": options.rounds} if options.rounds else {}
    chosen |= {"climbs": options.climbs} if options.climbs else {}
    chosen |= {"parts": options.only} if options.only else {}
    if options.top:
        rungs = chosen.get("rungs", run.Plan.rungs)
        chosen["rungs"] = (*(rung for rung in rungs if rung < options.top), options.top)
    server = options.server and options.server.resolve()
    plan = run.Plan(**chosen, server=server, profile=options.profile)
    return run.main(plan, options.out or (RESULTS if plan == run.Plan() else OUT))
