"""What the kernel counts of a proxy's processes during a load, all threads together."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.experiment.servers import Running

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Counters:
    """User and system seconds, and how often a thread waited."""

    user: float = 0.0
    system: float = 0.0
    sleeps: int = 0

    @contextlib.contextmanager
    def of(self, process: Running) -> Iterator[None]:
        """Counts while it is open."""
        before = _now(process)
        yield
        after = _now(process)
        self.user, self.system = after.user - before.user, after.system - before.system
        self.sleeps = after.sleeps - before.sleeps

    def per_request(self, requests: int) -> dict[str, float]:
        """As figures of a row."""
        total = self.user + self.system
        return {
            "user_share": self.user / total if total else 0.0,
            "sleeps": self.sleeps / requests,
        }


def _now(process: Running) -> Counters:
    found = Counters()
    for pid in process.pids:
        # After the name, which may hold anything, comes the third field (proc_pid_stat(5)).
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found.user += int(fields[11]) / _TICKS
        found.system += int(fields[12]) / _TICKS
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found.sleeps += _waits((task / "status").read_text())
    return found


def _waits(status: str) -> int:
    """voluntary_ctxt_switches of proc_pid_status(5)."""
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields["voluntary_ctxt_switches"])
