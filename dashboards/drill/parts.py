"""Processes of a drill that it can kill, stop and start again."""

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from local.topology import HOST
from support import REPOSITORY
from support.client import Reply, ask
from support.ports import free_ports

STATIC = REPOSITORY / "services/server/static"


@dataclass
class Process:
    """A process with its own command line."""

    argv: list[str | Path]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts or restarts it, without proxy variables, which are not for loopback."""
        env = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(self.argv, stdout=output, stderr=output, env=env)

    def send(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and waits for its end."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def ended(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None


@dataclass
class Server(Process):
    """A replica and where it listens."""

    pod: str = ""
    port: int = 0
    admin_port: int = 0
    scheme: str = "http"

    @property
    def url(self) -> str:
        """Where requests go."""
        return f"{self.scheme}://{HOST}:{self.port}"

    @property
    def admin(self) -> str:
        """Its admin port."""
        return f"http://{HOST}:{self.admin_port}"

    def ready(self) -> bool:
        """Whether the readiness probe passes."""
        try:
            return ask(self.admin, "/readyz").status == 200
        except OSError:
            return False

    def fault(self, route: str, share: float = 1, **kind: object) -> None:
        """Injects one fault, which expires after 30 minutes."""
        fault = {"route": route, "share": share, "expires_in": "30m", **kind}
        body = json.dumps({"seed": 7, "faults": [fault]}).encode()
        _need(ask(self.admin, "/faults", "PUT", body=body), 200)

    def well(self) -> None:
        """Ends all faults."""
        _need(ask(self.admin, "/faults", "DELETE"), 200, 204)

    def endpoint(self) -> dict:
        """As the gateway's values name it."""
        return {"address": HOST, "port": self.port, "adminPort": self.admin_port}


def _need(reply: Reply, *allowed: int) -> None:
    if reply.status not in allowed:
        raise AssertionError(f"{reply.status}: {reply.body.decode(errors='replace')}")


@dataclass
class Agent(Process):
    """An agent of the node tuner."""

    port: int = 0

    def ready(self) -> bool:
        """Whether its node is prepared."""
        try:
            return ask(f"http://{HOST}:{self.port}", "/readyz").status == 200
        except OSError:
            return False


def agent(
    folder: Path, program: Path, flags: Sequence[str | Path], within: Sequence[str] = ()
) -> Agent:
    """An agent with an interval of one second, not started yet; `within` is a command that runs it."""
    port = free_ports(1)
    argv = [
        *within,
        program,
        "agent",
        f"--agent.listen={HOST}:{port}",
        "--agent.interval=1s",
        *flags,
    ]
    return Agent(argv, folder / "node-tuner.log", port=port)


def server(
    folder: Path,
    program: Path,
    pod: str,
    flags: Sequence[str | Path],
    *,
    tls: bool = False,
    within: Sequence[str] = (),
) -> Server:
    """A replica, not started yet; `within` is a command that runs it."""
    first = free_ports(2)
    argv: list[str | Path] = [*within, program]
    argv += ["--replica", pod, "--static.root", STATIC]
    argv += ["--listen", f"{HOST}:{first}", "--admin.listen", f"{HOST}:{first + 1}", *flags]
    return Server(
        argv,
        folder / f"{pod}.log",
        pod=pod,
        port=first,
        admin_port=first + 1,
        scheme="https" if tls else "http",
    )
