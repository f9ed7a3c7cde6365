"""Processes of a drill that it can kill, stop and start again."""

import os
from collections.abc import Sequence
from pathlib import Path

from dashboards.live import replicas
from dashboards.live.asking import well
from dashboards.live.parts import Part
from local.topology import HOST, Replica
from support import REPOSITORY
from support.ports import free_ports

STATIC = REPOSITORY / "services/server/static"


class Server(replicas.Server):
    """A replica."""

    def start(self, *more: object, wait: bool = False) -> None:
        """Starts or restarts it; the drill waits for it, because only the drill can be interrupted."""
        super().start(*more, wait=wait)

    def fault(self, route: str, share: float = 1, **kind: object) -> None:
        """Injects one fault, which expires after 30 minutes; `faults()` ends it."""
        self.faults({"route": route, "share": share, "expires_in": "30m", **kind})

    def endpoint(self) -> dict:
        """As the gateway's values name it."""
        own = self.replica
        return {"address": HOST, "port": own.port, "adminPort": own.admin_port}


def agent(
    folder: Path, program: Path, port: int, flags: Sequence[str | Path], within: Sequence[str] = ()
) -> Part:
    """An agent with an interval of one second, not started yet; `within` is a command that runs it."""
    own = [f"--agent.listen={HOST}:{port}", "--agent.interval=1s"]
    argv = [*within, program, "agent", *own, *flags]
    return Part("node-tuner", argv, folder, lambda: well(f"http://{HOST}:{port}/readyz"), _env())


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
    replica = Replica(pod, 0, first, first + 1)
    argv = [*within, program, "--replica", pod, "--static.root", STATIC]
    argv += ["--listen", f"{HOST}:{first}", "--admin.listen", f"{HOST}:{first + 1}", *flags]
    ready = f"http://{HOST}:{first + 1}/readyz"
    return Server(replica, HOST, tls, argv, folder, lambda: well(ready), _env())


def _env() -> dict[str, str]:
    """Without proxy variables, which are not for loopback."""
    return {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
