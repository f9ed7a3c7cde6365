"""The commands of `python3 loadtests/bench`."""

import argparse
import signal
import sys
from pathlib import Path

from loadtests.bench import compare_direct, soak
from loadtests.bench.experiment import command
from loadtests.bench.instructions import command as instructions
from loadtests.bench.options import OUT, RESULTS, positive
from loadtests.bench.registry import EXPERIMENTS
from loadtests.usage import Parser
from local.up import build_server
from tools.errors import ToolError

ROUNDS = 5
SOAK = soak.Plan(seconds=300, clients=100, seed=1)


def main(arguments: list[str]) -> int:
    """Runs one benchmark; 1 when a request failed or nothing could be measured."""
    parser = Parser(prog="python3 loadtests/bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for experiment in EXPERIMENTS.values():
        command.add(commands, experiment)
    command.add_report(commands, EXPERIMENTS)
    _add_compare_direct(commands)
    instructions.add(commands)
    _add_soak(commands)
    options = parser.parse_args(arguments)
    # Ended like by Ctrl-C, so that nothing that was started is left. A shell without jobs ignores both for
    # what it starts in the background.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    try:
        return options.run(options)
    except ToolError as error:
        print(f"loadtests/bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _add_compare_direct(commands: argparse._SubParsersAction) -> None:
    compare = commands.add_parser(
        "compare-direct",
        help="one replica directly against the gateway over all, under ab",
        description="Compares one replica directly with the gateway over all replicas: "
        f"ab -n {compare_direct.REQUESTS} -c {compare_direct.CONCURRENCY}, without and with "
        "keep-alive. Uses the instance that is up (INSTANCE), else one of its own.",
    )
    _add_common(compare, "the full test of /hello", "a tenth of the requests")
    compare.add_argument(
        "--path", type=_path, default="/hello", help="what to get; default: /hello"
    )
    compare.set_defaults(run=_compare_direct)


def _compare_direct(options: argparse.Namespace) -> int:
    requests = compare_direct.REQUESTS // (10 if options.quick else 1)
    full = options.path == "/hello" and not options.quick and options.rounds == ROUNDS
    plan = compare_direct.Plan(options.path, requests, compare_direct.CONCURRENCY, options.rounds)
    return compare_direct.main(plan, options.out or (RESULTS if full else OUT))


def _add_soak(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "soak",
        help="one server under clients that come and go; memory and descriptors stay flat",
        description="Clients of every kind come and go on one server: good ones, half-sent "
        "requests, aborted uploads, too large ones, slow readers, HTTP/2. Fails when memory grows "
        "after the first third, a descriptor or a connection stays open, or a good client misses a "
        "reply.",
    )
    length = parser.add_mutually_exclusive_group()
    minutes = SOAK.seconds / 60
    length.add_argument(
        "--minutes", type=float, default=minutes, metavar="N", help=f"default: {minutes:g}"
    )
    length.add_argument("--seconds", type=float, metavar="N", help="instead of minutes")
    parser.add_argument(
        "--clients",
        type=positive,
        default=SOAK.clients,
        metavar="N",
        help=f"at a time; default: {SOAK.clients}",
    )
    parser.add_argument(
        "--seed", type=int, default=SOAK.seed, help=f"of every choice; default: {SOAK.seed}"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="where the record goes; default: docs/results for a soak of all defaults, "
        "else loadtests/out",
    )
    parser.add_argument(
        "--server", type=Path, metavar="PROGRAM", help="another build of corelane-server"
    )
    parser.set_defaults(run=_soak)


def _soak(options: argparse.Namespace) -> int:
    plan = soak.Plan(options.seconds or 60 * options.minutes, options.clients, options.seed)
    full = plan == SOAK and options.server is None
    OUT.mkdir(exist_ok=True)  # for the log of the build
    program = options.server or build_server(OUT, "release")
    return soak.main(plan, options.out or (RESULTS if full else OUT), program)


def _add_common(command: argparse.ArgumentParser, full: str, quick: str) -> None:
    command.add_argument(
        "--rounds", type=positive, default=ROUNDS, metavar="N", help=f"default: {ROUNDS}"
    )
    command.add_argument("--quick", action="store_true", help=quick)
    command.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help=f"where the results go; default: docs/results for {full} in {ROUNDS} rounds, "
        "else loadtests/out",
    )


def _path(text: str) -> str:
    if not text.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text}: a path begins with /")
    return text
