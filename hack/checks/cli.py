"""The commands of `python3 hack/checks`."""

import argparse
import sys
import time

from checks import phase, shake
from checks.phase import Outcome
from tools import errors

CHECK = ("check-tools", "lint", "check-charts", "clippy", "test-rust", "check-python")
TIERS = {"check": CHECK, "test": ("tools", *CHECK[1:], "chaos", "test-processes")}
"""Makefile targets, which also run individually."""


def run_tier(tier: str) -> int:
    """Stops at the first failed phase; returns the exit status."""
    begun = time.monotonic()
    total = Outcome()
    phases = TIERS[tier]
    for number, target in enumerate(phases, 1):
        place = f"{tier} {number}/{len(phases)}"
        elapsed = phase.duration(time.monotonic() - begun)
        print(f"{place}: {target} (after {elapsed}, {total.passed:,} tests passed)", flush=True)
        found = phase.run(target, place)
        total.add(found)
        if found.status:
            break
    counts = f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped"
    print(f"{tier}: {counts} in {phase.duration(time.monotonic() - begun)}")
    for failure in total.failures:
        print(f"Repeat alone: {failure.command}")
    sys.stdout.flush()
    return 1 if total.status else 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 hack/checks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run a tier and stop at the first phase that fails")
    run.add_argument("tier", choices=TIERS, metavar="TIER")
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
        return errors.status_of(lambda: run_tier(options.tier))
    return errors.status_of(lambda: shake.run(options))
