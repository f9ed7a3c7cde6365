"""The command `field` of `python3 loadtests/bench`."""

import argparse
import re
from collections.abc import Callable, Collection
from pathlib import Path

from loadtests.bench.field import report, run
from loadtests.bench.field.bench import ROUNDS, Plan
from loadtests.bench.field.contenders import CONTENDERS
from loadtests.bench.field.parts import PARTS
from loadtests.bench.options import OUT, RESULTS, add_builds, add_folder, positive


def add(commands: argparse._SubParsersAction) -> None:
    """Adds it to the commands."""
    parser = commands.add_parser(
        "field",
        help="Corelane beside what a user would pick instead, in one run",
        description="Builds or obtains every contender, starts each alone on one CPU, and "
        "measures all in interleaved rounds: CPU per request, throughput, latency at a fixed rate, "
        "memory, start and size; then 10,000 connections at once, proxies, and scaling.",
    )
    parser.add_argument(
        "--rounds", type=positive, metavar="N", help=f"default: {ROUNDS}, with --quick 1"
    )
    parser.add_argument("--quick", action="store_true", help="shorter, for a first look")
    for flag, known, what in (
        ("only", PARTS, "parts"),
        ("contenders", tuple(CONTENDERS), "contenders"),
    ):
        parser.add_argument(
            f"--{flag}",
            type=_some_of(known),
            default=(),
            metavar="NAMES",
            help=f"some {what} only, with commas between: {','.join(known)}",
        )
    parser.add_argument(
        "--render", type=Path, metavar="FILE", help="instead: writes the report of a bench.json"
    )
    add_folder(parser)
    add_builds(parser)
    parser.set_defaults(run=_field)


def _some_of(known: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    """Names with commas between, in the order in which they are known; one has a comma in it."""

    def parsed(text: str) -> tuple[str, ...]:
        chosen = re.split(r",(?! )", text)
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name}: there are {','.join(known)}")
        return tuple(name for name in known if name in chosen)

    return parsed


def _field(options: argparse.Namespace) -> int:
    if options.render:
        report.render(options.render)
        return 0
    plan = Plan(
        parts=options.only or PARTS,
        contenders=options.contenders,
        rounds=options.rounds or (1 if options.quick else ROUNDS),
        quick=options.quick,
        profile=options.profile,
        server=options.server and options.server.resolve(),
    )
    return run.main(plan, options.out or (RESULTS if plan == Plan(parts=PARTS) else OUT))
