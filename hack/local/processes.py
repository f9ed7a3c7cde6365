"""The processes of one instance: their environment, with a mark that finds them, and a lock against a second command."""

import fcntl
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local.service import REFERENCE, Service
from tools import progress
from tools.errors import ToolError


def make(run: Path, program: Path, service: Service = REFERENCE) -> dict[str, str]:
    """This environment with the mark, without variables that the service would reject.

    A service rejects CORELANE_ variables that are not its settings, but the user may have set one
    for another purpose. Its help lists the valid ones.
    """
    known = _variables(program) if service.chassis else set()
    unknown = {name for name in os.environ if name.startswith("CORELANE_")} - known
    if unknown:
        listed = ", ".join(sorted(unknown))
        progress.say(service.name, f"ignores {listed}: not settings of the service")
    kept = {name: value for name, value in os.environ.items() if name not in unknown}
    # The dashboard has a button for them; the admin ports are on the loopback address.
    faults = {"CORELANE_FAULTS": "on"} if "CORELANE_FAULTS" in known else {}
    return {**faults, **kept, MARK: str(run)}


HELP = 10.0
"""Seconds for the help of a program; one without help may start to serve instead."""


def _variables(program: Path) -> set[str]:
    """The variables of Corelane that a service reads."""
    try:
        result = subprocess.run(
            [program, "--help"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=HELP,
            check=False,
        )
        usage = result.stdout.decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        usage = ""
    known = set(re.findall(r"CORELANE_[A-Z0-9_]+", usage))
    if "CORELANE_ADMIN_LISTEN" not in known:
        raise ToolError(
            f"{program.name} --help does not name CORELANE_ADMIN_LISTEN: it is not on the crate "
            "corelane-service. Any other program runs with --runtime other"
        )
    return known


MARK = "LOCAL_RUN_DIR"
"""Variable that supervisord and all its children have; its value is the run folder."""


def find(run: Path) -> list[int]:
    """The pids of all living processes of the instance."""
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _marked(folder, run)]


def _marked(folder: Path, run: Path) -> bool:
    try:
        # Empty for a zombie, so a process that only waits to be reaped does not count.
        return os.fsencode(f"{MARK}={run}") in (folder / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def send(pid: int, number: signal.Signals, run: Path) -> None:
    """Signals a process if it still belongs to the instance; a pid may have a new owner."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if _marked(Path(f"/proc/{pid}"), run):
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def gone(run: Path, seconds: float) -> bool:
    """Waits until no process of the instance is left; False when time runs out first."""
    deadline = time.monotonic() + seconds
    while find(run):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def name(pid: int) -> str:
    """The short name of a process."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "gone"


def cpus(pid: int) -> str:
    """The CPUs on which a process may run, as the kernel writes them: 0-3,8."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "-"
    fields = dict(line.split(":", 1) for line in text.splitlines())
    return fields["Cpus_allowed_list"].strip()


@contextmanager
def lock(run: Path) -> Iterator[None]:
    """Locks the instance: another `up` or `down` of it fails meanwhile."""
    run.mkdir(parents=True, exist_ok=True)
    with open(run / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ToolError(
                f"another command of instance {run.name} is running: wait until it ends"
            ) from None
        yield
