"""The measured processes and their counters: replicas, nginx for comparison, and gateways."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.servers import HOST, PATIENCE, Running, Startable, metrics, running
from loadtests.bench.gateway import proxies
from loadtests.bench.gateway.proxies import Endpoint
from loadtests.bench.networks import BACKLOG
from local.settings import REPOSITORY
from stack.ports import free_ports
from tools.errors import ToolError

STATIC = REPOSITORY / "services" / "server" / "static"

PARKED = "corelane_connections_parked"
WAKES = "corelane_connection_wakes_total"
MOVES = "corelane_connection_moves_total"

NGINX = """\
daemon off;
user root;
worker_processes 1;
worker_rlimit_nofile {files};
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections {room}; }}
http {{
  access_log off;
  keepalive_timeout 1h;
  keepalive_requests 1000000000;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen {address} backlog={backlog} reuseport{tls};
    location = /hello {{ default_type text/plain; return 200 "Hello, World!"; }}
  }}
}}
"""
NGINX_TLS = """ ssl;
    ssl_certificate {0};
    ssl_certificate_key {1};
    ssl_protocols TLSv1.3;
    ssl_session_cache off"""
"""No cache: no client comes back, and nginx is not to keep a session for it."""

ROOM_OF_NGINX = 1.25
"""It closes idle connections when less than a sixteenth of its table is free (ngx_connection.c)."""

Pem = tuple[Path, Path]
"""A certificate and its key."""


@dataclass(frozen=True)
class Replica:
    """corelane-server; no limit of its own is to be what is measured."""

    name: str
    flags: tuple[str, ...] = ()
    lanes: int = 1
    pin: bool = True
    """Whether each lane has a CPU of its own."""
    room: int = 12_000
    backlog: int = BACKLOG
    pem: Pem | None = None
    admin_port: int = field(default_factory=free_ports)

    @property
    def tls(self) -> bool:
        """Whether clients use TLS."""
        return self.pem is not None

    def argv(self, programs: Programs, address: str, _folder: Path) -> list[str]:
        """How it is started."""
        argv = [str(programs.server), "--listen", address, "--backlog", str(self.backlog)]
        argv += ["--admin.listen", f"{HOST}:{self.admin_port}", "--log.level", "error"]
        argv += ["--lanes", str(self.lanes), "--pin", "on" if self.pin else "off"]
        argv += ["--limits.connections", str(self.room), "--limits.queue", str(self.room)]
        if self.pem:
            argv += ["--tls.certificate", str(self.pem[0]), "--tls.key", str(self.pem[1])]
        return [*argv, *self.flags]


@dataclass(frozen=True)
class Nginx:
    """nginx with one worker, and no end of keep-alive."""

    name: str
    room: int
    pem: Pem | None = None

    @property
    def tls(self) -> bool:
        """Whether clients use TLS."""
        return self.pem is not None

    def argv(self, programs: Programs, address: str, folder: Path) -> list[str]:
        """How it is started."""
        file, room = folder / "nginx.conf", round(self.room * ROOM_OF_NGINX)
        text = NGINX.format(
            address=address,
            backlog=BACKLOG,
            room=room,
            files=room + 100,
            folder=folder,
            tls=NGINX_TLS.format(*self.pem) if self.pem else "",
        )
        file.write_text(text)
        return [str(programs.tools["nginx"]), "-p", str(folder), "-c", str(file)]


@dataclass(frozen=True)
class Floor:
    """What the kernel alone costs: the same file from an array."""

    name: str = "floor"

    def argv(self, programs: Programs, address: str, _folder: Path) -> list[str]:
        """How it is started."""
        argv = [str(programs.peers / "floor"), "--listen", address, "--backlog", str(BACKLOG)]
        return [*argv, "--static", str(STATIC)]


@dataclass(frozen=True)
class Fleet:
    """Servers of one kind that answer, and the gateways before them."""

    servers: list[Running]
    admin_ports: list[int]
    gateways: list[Running] = field(default_factory=list)

    @property
    def to(self) -> list[str]:
        """The addresses for clients."""
        return [one.address for one in self.gateways or self.servers]

    def resident_kib(self) -> dict[str, int]:
        """Resident memory of each part; what processes share is divided among them."""
        parts = {"server": self.servers, "gateway": self.gateways}
        return {
            name: sum(_pss_kib(pid) for one in found for pid in one.pids)
            for name, found in parts.items()
        }

    def cpu_seconds(self) -> float:
        """CPU time of all processes."""
        return sum(one.cpu_seconds() for one in (*self.servers, *self.gateways))

    def series(self) -> list[dict[str, float]]:
        """Every series of the metrics of each replica."""
        return [_series(port) for port in self.admin_ports]

    def total(self, name: str, label: str = "") -> float:
        """The sum of a family's series that have this label, over all replicas."""
        return sum(
            value
            for series in self.series()
            for key, value in series.items()
            if key.partition("{")[0] == name and label in key
        )

    def rest(self, connections: int) -> None:
        """Waits until so many are parked."""
        deadline = time.monotonic() + 2 * PATIENCE
        while connections and (parked := self.total(PARKED)) < connections:
            if time.monotonic() > deadline:
                raise ToolError(f"{parked:,.0f} of {connections:,} connections are parked")
            time.sleep(0.1)

    def drain(self) -> dict:
        """Tells all to end, and waits for them."""
        begun = time.monotonic()
        for one in self.servers:
            one.process.send_signal(signal.SIGTERM)
        try:
            codes = [one.process.wait(2 * PATIENCE) for one in self.servers]
        except subprocess.TimeoutExpired:
            raise ToolError(f"no end within {2 * PATIENCE:g} s of SIGTERM") from None
        return {"seconds": time.monotonic() - begun, "failed": sum(code != 0 for code in codes)}


@contextmanager
def fleet(
    servers: Sequence[Startable],
    programs: Programs,
    cpus: list[int],
    *,
    gateway: str = "",
    gateways: int = 1,
) -> Iterator[Fleet]:
    """All of these, with so many gateways before them if there is a configuration of it."""
    with ExitStack() as stack:
        found = [stack.enter_context(running(one, programs, cpus)) for one in servers]
        admin_ports = [one.admin_port for one in servers if isinstance(one, Replica)]
        if not gateway:
            yield Fleet(found, admin_ports)
            return
        ports = [int(one.address.rpartition(":")[2]) for one in found]
        for mark, port in enumerate(
            port for both in zip(ports, admin_ports, strict=True) for port in both
        ):
            gateway = gateway.replace(str(MARK + mark), str(port))
        proxy = proxies.Proxy("gateway", "envoy", gateway)
        before = [stack.enter_context(running(proxy, programs, cpus)) for _ in range(gateways)]
        yield Fleet(found, admin_ports, before)


MARK = 60_001
"""The first placeholder for a replica's port in the configuration of a gateway."""


def configuration(tools: dict[str, Path], replicas: int, more: dict | None = None) -> str:
    """What the chart renders for the gateway of so many replicas, as JSON, without a log."""
    pool = [Endpoint(MARK + 2 * index, MARK + 2 * index + 1) for index in range(replicas)]
    found = proxies.configuration(tools, pool, more=more)
    proxies.without_log(found)
    return json.dumps(found)


def certificate(openssl: Path, folder: Path) -> Pem:
    """A certificate and its key, as most sites have: ECDSA on P-256."""
    files = folder / "certificate.pem", folder / "key.pem"
    argv = [str(openssl), "req", "-x509", "-newkey", "ec", "-pkeyopt"]
    argv += ["ec_paramgen_curve:prime256v1", "-noenc", "-subj", "/CN=bench"]
    # Its clients trust it alone, and an authority's certificate is none of a server (RFC 5280 section 4.2.1.9).
    argv += [
        "-addext",
        f"subjectAltName=IP:{HOST}",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
    ]
    argv += ["-out", str(files[0]), "-keyout", str(files[1])]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ToolError(f"{' '.join(argv)} failed: {result.stderr.strip()}")
    return files


def _pss_kib(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


def _series(admin_port: int) -> dict[str, float]:
    lines = metrics(f"{HOST}:{admin_port}").splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {series: float(value) for series, value in pairs}
