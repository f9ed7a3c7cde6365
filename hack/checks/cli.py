"""The commands of `python3 hack/checks`."""

import argparse

from checks import shake, tiers
from tools import errors


def main(arguments: list[str]) -> int:
    """Runs one command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="python3 hack/checks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run a tier and stop at the first phase that fails")
    run.add_argument("tier", choices=tiers.TIERS, metavar="TIER")
    again = commands.add_parser(
        "shake", help="run the tests of a tier repeatedly, in random order, under pressure"
    )
    again.add_argument("tier", choices=shake.TIERS, metavar="TIER")
    again.add_argument("--rounds", type=int, default=2, metavar="N")
    again.add_argument("--seed", type=int, help="of the first round; the next rounds count up")
    again.add_argument(
        "--pressure",
        choices=shake.PRESSURE,
        default="half",
        help="rounds during which busy threads and a writer compete for the machine; default: every second one",
    )
    options = parser.parse_args(arguments)
    if options.command == "run":
        return errors.status_of("checks", lambda: tiers.run(options.tier))
    return errors.status_of("checks", lambda: shake.run(options))
