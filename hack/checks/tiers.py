"""The phases of each tier, one after the other, and the line that ends a tier."""

import sys
import time

from checks import phase
from checks.phase import Outcome

CHECK = ("check-tools", "lint", "check-charts", "clippy", "test-rust", "check-python")
TIERS = {"check": CHECK, "test": ("tools", *CHECK[1:], "chaos", "test-processes")}
"""Targets of the Makefile, which also run alone."""


def run(tier: str) -> int:
    """Runs a tier up to the first phase that fails; the exit status."""
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
