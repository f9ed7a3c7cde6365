"""The processes of one instance: their environment, with a mark that finds them, and a lock against a second command."""

import fcntl
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from local.service import REFERENCE, Service
from tools import progress
from tools.errors import ToolError


def make(
    run: Path, program: Path, service: Service = REFERENCE, own: Mapping[str, str] = {}
) -> dict[str, str]:
    """This environment with the mark, without variables that the service would reject.

    A service rejects CORELANE_ variables that are not its settings, but the user may have set one
    for another purpose. `own` is what a replica has in addition.
    """
    known = _variables(run, program, own) if service.chassis else set()
    unknown = {name for name in os.environ if name.startswith("CORELANE_")} - known
    if unknown:
        listed = ", ".join(sorted(unknown))
        progress.say(service.name, f"ignores {listed}: not settings of the service")
    kept = {name: value for name, value in os.environ.items() if name not in unknown}
    # The dashboard has a button for them; the admin ports are on the loopback address.
    faults = {"CORELANE_FAULTS": "on"} if "CORELANE_FAULTS" in known else {}
    return {**faults, **kept, MARK: str(run)}


PRINT_SCHEMA = "CORELANE_PRINT_SCHEMA"
"""With this variable, a service on corelane-service prints its settings and exits, whatever flags it has."""

ANSWER = 10.0
"""Seconds for that; any other program may start to serve instead."""

LINES = 8
"""Lines of the program's output in an error."""


def _variables(run: Path, program: Path, own: Mapping[str, str]) -> set[str]:
    """The variables of Corelane that a service reads."""
    asked = subprocess.Popen(
        [program],
        cwd=run,
        env={**os.environ, **own, PRINT_SCHEMA: "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        process_group=0,
    )
    try:
        output, _ = asked.communicate(timeout=ANSWER)
        end = f"ended with status {asked.returncode}"
    except subprocess.TimeoutExpired:
        os.killpg(asked.pid, signal.SIGKILL)
        output, _ = asked.communicate()
        end = f"ran for {ANSWER:.0f} s"
    known = set(re.findall(r"Environment: (CORELANE_[A-Z0-9_]+)", output))
    if "CORELANE_ADMIN_LISTEN" not in known:
        said = [f"    {line}" for line in output.splitlines()[-LINES:]]
        problem = (
            f"{program.name} {end} and did not print its settings, which {PRINT_SCHEMA}=1 requests. Either it is "
            "not on the crate corelane-service, or it does not call App::run without arguments. Any other program "
            "runs with --runtime other"
        )
        shown = ["the end of its output:", *said] if said else []
        raise ToolError("\n".join([problem, *shown]))
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


def environment(pid: int) -> dict[str, str]:
    """The variables with which a process was started; empty if that cannot be read."""
    try:
        text = os.fsdecode(Path(f"/proc/{pid}/environ").read_bytes())
    except OSError:
        return {}
    return dict(pair.split("=", 1) for pair in text.split("\0") if "=" in pair)


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
