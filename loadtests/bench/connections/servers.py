"""The measured processes and their counters: replicas, nginx for comparison, and gateways."""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from loadtests.bench.competitors.web_servers import nginx
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.servers import (
    STATIC,
    Pem,
    Replica,
    Running,
    Startable,
    metrics,
    running,
    total,
)
from loadtests.bench.gateway import proxies
from loadtests.bench.gateway.proxies import Endpoint, Proxy
from loadtests.bench.networks import BACKLOG
from stack import eventually

PARKED = "corelane_connections_parked"
WAKES = "corelane_connection_wakes_total"

PATIENCE = 30.0

NGINX_TLS = """\
ssl_certificate {0};
    ssl_certificate_key {1};
    ssl_protocols TLSv1.3;
    ssl_session_cache off;"""
"""No session cache: no client returns, so nginx should not keep sessions."""

ROOM_OF_NGINX = 1.25
"""nginx closes idle connections when less than a sixteenth of its table is free (ngx_connection.c).
"""


def replica(*flags: str, room: int = 12_000, **more: object) -> Replica:
    """corelane-server with limits so high that they do not affect the measurement."""
    own = ("--backlog", str(BACKLOG), "--limits.queue", str(room))
    return Replica((*own, *flags), room=room, **more)


@dataclass(frozen=True)
class Nginx(Startable):
    room: int
    pem: Pem | None = None
    name: str = "nginx"

    def argv(self, programs: Programs, address: str, folder: Path) -> list[str]:
        more = f"keepalive_timeout 1h; {NGINX_TLS.format(*self.pem) if self.pem else ''}"
        listen = f"{address} backlog={BACKLOG} reuseport{' ssl' * bool(self.pem)}"
        room = round(self.room * ROOM_OF_NGINX)
        return nginx(programs.tools["nginx"], folder, listen, connections=room, more=more)


@dataclass(frozen=True)
class Floor(Startable):
    name: str = "floor"

    def argv(self, programs: Programs, address: str, _folder: Path) -> list[str]:
        argv = [str(programs.peers / "floor"), "--listen", address, "--backlog", str(BACKLOG)]
        return [*argv, "--static", str(STATIC)]


@dataclass(frozen=True)
class Fleet:
    servers: list[Running]
    admins: list[str]
    gateways: list[Running] = field(default_factory=list)

    @property
    def to(self) -> list[str]:
        return [one.address for one in self.gateways or self.servers]

    def resident_kib(self) -> dict[str, int]:
        parts = {"server": self.servers, "gateway": self.gateways}
        return {name: sum(one.resident_kib() for one in found) for name, found in parts.items()}

    def cpu_seconds(self) -> float:
        return sum(one.cpu_seconds() for one in (*self.servers, *self.gateways))

    def total(self, name: str) -> float:
        return sum(total(metrics(admin), name) for admin in self.admins)

    def rest(self, connections: int) -> None:
        """Waits until this many connections are parked."""
        what = f"{connections:,} connections are parked"
        eventually(lambda: self.total(PARKED) >= connections, what, patience=PATIENCE, pause=0.1)

    def drain(self) -> dict:
        begun = time.monotonic()
        for one in self.servers:
            one.process.signal(signal.SIGTERM)
        for one in self.servers:
            eventually(lambda one=one: not one.process.running, "the end", patience=PATIENCE)
        failed = sum(one.process.status != 0 for one in self.servers)
        return {"seconds": time.monotonic() - begun, "failed": failed}


@contextmanager
def fleet(
    servers: Sequence[Startable],
    programs: Programs,
    cpus: list[int],
    *,
    gateway: dict | None = None,
    gateways: int = 1,
) -> Iterator[Fleet]:
    """Starts all servers and, with a configuration (with placeholders), this many gateways in front
    of them.
    """
    with ExitStack() as stack:
        found = [stack.enter_context(running(one, programs, cpus)) for one in servers]
        replicas = [one for one in servers if isinstance(one, Replica)]
        before: list[Running] = []
        if gateway:
            pool = [
                Endpoint(process.port, one.admin_port)
                for process, one in zip(found, replicas, strict=True)
            ]
            proxy = Proxy("gateway", "envoy", proxies.pointed(gateway, pool))
            before = [stack.enter_context(running(proxy, programs, cpus)) for _ in range(gateways)]
        yield Fleet(found, [one.admin for one in replicas], before)


def configuration(tools: dict[str, Path], replicas: int, more: dict) -> dict:
    """Configuration that the chart renders for a gateway with this many replicas, without an access
    log.
    """
    found = proxies.configuration(tools, proxies.placeholders(replicas), more=more)
    return proxies.without_log(found)
