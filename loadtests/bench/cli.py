"""The commands of `python3 loadtests/bench`."""

import argparse
import sys
from pathlib import Path

from loadtests.bench import compare_direct
from local.settings import REPOSITORY
from tools.errors import ToolError

ROUNDS = 5

RESULTS = REPOSITORY / "docs" / "results"
OUT = REPOSITORY / "loadtests" / "out"


def main(arguments: list[str]) -> int:
    """Runs one benchmark; 1 when a request failed or nothing could be measured."""
    parser = argparse.ArgumentParser(prog="python3 loadtests/bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    compare = commands.add_parser(
        "compare-direct",
        help="one replica directly against the gateway over all, under ab",
        description="Compares one replica directly with the gateway over all replicas: "
        f"ab -n {compare_direct.REQUESTS} -c {compare_direct.CONCURRENCY}, without and with "
        "keep-alive. Uses the instance that is up (INSTANCE), else one of its own.",
    )
    compare.add_argument(
        "--rounds", type=_positive, default=ROUNDS, metavar="N", help=f"default: {ROUNDS}"
    )
    compare.add_argument(
        "--path", type=_path, default="/hello", help="what to get; default: /hello"
    )
    compare.add_argument("--quick", action="store_true", help="a tenth of the requests")
    compare.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="where the results go; default: docs/results for the full test of /hello "
        f"in {ROUNDS} rounds, else loadtests/out",
    )
    options = parser.parse_args(arguments)
    requests = compare_direct.REQUESTS // (10 if options.quick else 1)
    full = options.path == "/hello" and not options.quick and options.rounds == ROUNDS
    plan = compare_direct.Plan(options.path, requests, compare_direct.CONCURRENCY, options.rounds)
    try:
        return compare_direct.main(plan, options.out or (RESULTS if full else OUT))
    except ToolError as error:
        print(f"loadtests/bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text}: give a whole number above 0")
    return int(text)


def _path(text: str) -> str:
    if not text.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text}: a path begins with /")
    return text
