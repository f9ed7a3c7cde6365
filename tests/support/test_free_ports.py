"""Ports of processes that draw at the same time."""

import subprocess
import sys
from contextlib import ExitStack

from loadtests.bench.free_ports import BLOCK
from support import REPOSITORY
from support.processes import free_ports

DRAW = """
import sys

sys.path[:0] = ["", "hack"]
from loadtests.bench.free_ports import free_ports

print(free_ports(3), flush=True)
sys.stdin.read()
"""


def test_no_process_draws_from_a_block_of_another() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    argv = [sys.executable, "-c", DRAW]
    with ExitStack() as running:
        # The context of a process closes its input, which ends it.
        others = [
            running.enter_context(subprocess.Popen(argv, cwd=REPOSITORY, **pipes)) for _ in range(3)
        ]
        drawn = [free_ports(), *(int(other.stdout.readline()) for other in others)]
    assert len({port // BLOCK for port in drawn}) == len(drawn)
