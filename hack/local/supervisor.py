"""Starts supervisord, and queries it over its socket."""

import hashlib
import http.client
import os
import re
import socket
import tempfile
import xmlrpc.client
from collections import Counter
from pathlib import Path

from local import processes
from stack.process import detached, raise_open_files
from tools.errors import ToolError

LONGEST_SOCKET = 90
"""Maximum length of the path: a socket path has at most 107 bytes (unix(7)), and supervisord first
adds its pid.
"""

LOG = "supervisord.log"

GROUP = "corelane"
"""The group of all processes except the database."""


def socket_path(run: Path) -> Path:
    """In the run folder, unless the path would be too long."""
    path = run / "supervisor.sock"
    if len(os.fsencode(path)) <= LONGEST_SOCKET:
        return path
    digest = hashlib.sha256(os.fsencode(run)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"corelane-{digest}.sock"


def start(program: Path, run: Path, environment: dict[str, str]) -> None:
    """A separate session, so that supervisord outlives this terminal."""
    # A connection through the gateway takes two of Envoy's file descriptors.
    raise_open_files()
    detached([program, "-c", run / "supervisord.conf"], run / LOG, environment, cwd=run)


def pid(run: Path) -> int | None:
    try:
        recorded = int((run / "supervisord.pid").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return recorded if recorded in processes.find(run) else None


def states(run: Path) -> dict[str, dict]:
    """Empty while supervisord does not respond."""
    try:
        return {info["name"]: info for info in _proxy(run).supervisor.getAllProcessInfo()}
    except (OSError, http.client.HTTPException, xmlrpc.client.Error):
        return {}


def state(run: Path, name: str) -> str:
    """A state such as RUNNING; empty while supervisord is not responding."""
    return states(run).get(name, {}).get("statename", "")


def stop(run: Path, name: str) -> None:
    _command(run, "stopProcess", name)


def begin(run: Path, name: str) -> None:
    _command(run, "startProcess", name)


def mark(run: Path) -> int:
    """Returns the current end of supervisord's log, for `killed` and `exits`."""
    log = run / LOG
    return log.stat().st_size if log.exists() else 0


def killed(run: Path, since: int) -> list[str]:
    """Processes that supervisord killed since that mark because they did not exit after their
    signal.
    """
    return re.findall(r"killing '(.+)' \(\d+\) with SIGKILL", _logged(run, since))


def exits(run: Path, since: int) -> Counter[str]:
    """Number of times that each process has exited by itself since that mark.

    The state does not show this: on a busy machine, a program may need longer than `startsecs` to
    fail. It counts as RUNNING until then and is restarted immediately.
    """
    return Counter(re.findall(r"exited: (\S+) \(", _logged(run, since)))


def _logged(run: Path, since: int) -> str:
    log = run / LOG
    return log.read_bytes()[since:].decode(errors="replace") if log.exists() else ""


def _command(run: Path, method: str, name: str) -> None:
    try:
        getattr(_proxy(run).supervisor, method)(f"{GROUP}:{name}", False)
    except (OSError, http.client.HTTPException, xmlrpc.client.Error) as error:
        raise ToolError(f"supervisord: {method} {name}: {error}") from None


def _proxy(run: Path) -> xmlrpc.client.ServerProxy:
    return xmlrpc.client.ServerProxy("http://local/RPC2", transport=_Transport(socket_path(run)))


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("local", timeout=5)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class _Transport(xmlrpc.client.Transport):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def make_connection(self, host: str) -> http.client.HTTPConnection:
        return _Connection(self._path)
