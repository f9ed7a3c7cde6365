"""A benchmark that is told to end leaves nothing behind."""

import subprocess
import sys
from pathlib import Path

import pytest

from support import PATIENCE, REPOSITORY, eventually

pytestmark = pytest.mark.nightly


def descendants(parent: int) -> dict[int, str]:
    """The processes that a process started, and those started by them: pid and name."""
    names, parents = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # proc(5): pid (name) state ppid ...
            before, _, after = stat.read_text().rpartition(")")
        except OSError:  # It has ended meanwhile.
            continue
        pid, _, name = before.partition(" (")
        names[int(pid)], parents[int(pid)] = name, int(after.split()[1])
    found = {parent}
    while more := {pid for pid, of in parents.items() if of in found} - found:
        found |= more
    return {pid: names[pid] for pid in found - {parent}}


MIXED = ["mixed", "--quick", "--only", "postgres"], {"postgres", "corelane-server"}
TUNED = (
    ["connections", "--only", "tuned", "--quick", "--rounds", "1000"],
    {"cat", "corelane-server"},
)
"""Arguments, and the processes that are to be under way; `cat` holds a network namespace."""


@pytest.mark.parametrize(("arguments", "names"), [MIXED, TUNED], ids=["mixed", "tuned"])
def test_what_a_benchmark_started_ends_with_it(
    arguments: list[str], names: set[str], binary: Path, tmp_path: Path
) -> None:
    argv = [sys.executable, "loadtests/bench", *arguments]
    argv += ["--server", binary, "--profile", "dev", "--out", tmp_path]
    null = subprocess.DEVNULL
    bench = subprocess.Popen(argv, cwd=REPOSITORY, stdout=null, stderr=null)

    def all_run() -> bool:
        assert bench.poll() is None, "it has ended before it was told to"
        return names <= set(descendants(bench.pid).values())

    try:
        # What it builds first takes its time on a new clone.
        eventually(all_run, patience=20 * PATIENCE)
        started = descendants(bench.pid)
    finally:
        bench.terminate()
    assert bench.wait(PATIENCE) == 130
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))
