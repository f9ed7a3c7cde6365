"""Repeats tests in random order, with and without load on the machine, and collects failures."""

import argparse
import random
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from checks import phase
from checks.phase import LOGS, Outcome
from tools import command

TIERS = {"check": ("test-rust", "check-python"), "processes": ("test-processes",), "e2e": ("e2e",)}

PRESSURE = ("none", "half", "all")

BUSY = "while True: pass"
BUSY_THREADS = 4

WRITER = """\
import os, sys
while True:
    with open(sys.argv[1], "wb") as file:
        for _ in range(64):
            file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
"""
"""Repeatedly writes 64 MiB to the disk."""


def run(options: argparse.Namespace) -> int:
    """Prints the failures of each test and returns the exit status."""
    seed = random.SystemRandom().randrange(1 << 31) if options.seed is None else options.seed
    unstable = _unstable_options()
    begun = time.monotonic()
    total = Outcome()
    seen: dict[str, list[str]] = defaultdict(list)
    for number in range(options.rounds):
        pressed = options.pressure == "all" or (options.pressure == "half" and number % 2 == 1)
        how = f"seed {seed + number}{', under pressure' if pressed else ''}"
        with pressure() if pressed else no_pressure():
            for target in TIERS[options.tier]:
                place = f"round {number + 1}/{options.rounds}"
                print(f"{place}: {target}, {how}", flush=True)
                log = LOGS / f"shake-{seed + number}-{target}.log"
                variables = _shuffled(target, seed + number)
                found = phase.run(target, place, variables=variables, environment=unstable, log=log)
                total.add(found)
                for failure in found.failures:
                    seen[failure.name].append(f"{how}: {log}")
    for name, rounds in seen.items():
        print(f"\n{name} failed in {len(rounds)} of {options.rounds} rounds:")
        print(*(f"  {each}" for each in rounds), sep="\n")
    counts = f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped"
    took = phase.duration(time.monotonic() - begun)
    print(f"shake: {counts} in {options.rounds} rounds from seed {seed}, {took}")
    sys.stdout.flush()
    return 1 if total.status else 0


def _shuffled(target: str, seed: int) -> dict[str, str]:
    if target == "e2e":
        # The modules of this target share one release and upgrade it in their own order.
        return {"TESTS": '-m "not nightly"'}
    if target == "test-rust":
        # rustdoc's test program, which runs the documentation's examples, has no such options.
        flags = f"-Z unstable-options --shuffle-seed={seed}"
        return {"RUST_TARGETS": "--lib --bins --tests", "RUST_TEST_FLAGS": flags}
    return {"PYTEST_FLAGS": f"--random-order --random-order-seed={seed}"}


def _unstable_options() -> dict[str, str]:
    """Makes test programs of stable Rust accept `--shuffle-seed`; the compiler stays stable.

    The variable that allows this option reaches only programs that cargo runs (the Cargo Book,
    target.<triple>.runner).
    """
    host = re.search(r"^host: (\S+)$", command.output(["rustc", "-vV"]), re.MULTILINE)[1]
    triple = host.upper().replace("-", "_")
    return {f"CARGO_TARGET_{triple}_RUNNER": "env RUSTC_BOOTSTRAP=1"}


@contextmanager
def no_pressure() -> Iterator[None]:
    yield


@contextmanager
def pressure() -> Iterator[None]:
    """Busy threads at normal priority, and a process that writes to the disk."""
    file = LOGS / "pressure"
    file.parent.mkdir(parents=True, exist_ok=True)
    commands = [["-c", BUSY]] * BUSY_THREADS + [["-c", WRITER, str(file)]]
    processes = [subprocess.Popen([sys.executable, *command]) for command in commands]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
        file.unlink(missing_ok=True)
