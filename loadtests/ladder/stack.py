"""What serves a cell: replicas, and the gateways before them."""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from loadtests.bench.experiment.servers import HOST, Running, running
from loadtests.bench.free_ports import free_ports
from loadtests.bench.gateway import shipped
from loadtests.bench.gateway.shipped import Endpoint
from loadtests.ladder.network import BACKLOG
from loadtests.ladder.plan import Programs
from local.settings import REPOSITORY

PAGE = REPOSITORY / "services" / "server" / "static" / "4k.txt"
LARGE = "large.bin"
LARGE_BYTES = 4 << 20
"""A reply that no socket's buffers take as a whole."""

REPLICAS = 2
"""At least; and as many before each gateway, however many there are."""

MARKS = range(60_001, 60_001 + 2 * REPLICAS)
"""Stand for the ports of replicas in the rendered configuration of the gateway."""

GATEWAY_VALUES = {
    # As the chart asks, less than half of the descriptors that the values tell of.
    "listener": {"connections": 30_000, "backlog": BACKLOG},
    # Its own heap is what it is protected from, and that is to be measured.
    "memory": "2Gi",
    "upstream": {
        # Few: a request then waits for one that is open, which costs less than one more.
        "limits": {
            "connections": 256,
            "connectionsPerReplica": 128,
            "pending": 20_000,
            "requests": 20_000,
        },
        # Its one thread takes in all clients before it looks at an answer to its own SYN. After the
        # default of 500 ms it would refuse whoever waits for that.
        "connectTimeout": "10s",
    },
}
"""What a gateway of so many connections is given; all else is the chart's default."""


def gateway_configuration(tools: dict[str, Path]) -> str:
    """What the chart renders for the gateway, as JSON with marks for the replicas' ports."""
    pool = [Endpoint(port, admin) for port, admin in zip(MARKS[::2], MARKS[1::2], strict=True)]
    return json.dumps(shipped.configuration(tools, pool, more=GATEWAY_VALUES))


@dataclass(frozen=True)
class Replica:
    """corelane-server with one lane."""

    index: int
    most: int
    admin_port: int
    root: Path
    flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name in messages and replies."""
        return f"server-{self.index}"

    def argv(self, programs: Programs, address: str, _folder: Path) -> list[str]:
        """How it is started."""
        argv = [str(programs.server), "--listen", address, "--lanes", "1", "--pin", "off"]
        argv += ["--admin.listen", f"{HOST}:{self.admin_port}", "--replica", self.name]
        argv += ["--limits.connections", str(self.most), "--limits.queue", str(self.most)]
        argv += ["--backlog", str(BACKLOG), "--static.root", str(self.root)]
        return [*argv, "--log.level", "error", *self.flags]


@dataclass(frozen=True)
class Floor:
    """What the kernel alone costs: the same file from an array."""

    name: str = "floor"

    def argv(self, programs: Programs, address: str, _folder: Path) -> list[str]:
        """How it is started."""
        argv = [str(programs.floor), "--listen", address, "--backlog", str(BACKLOG)]
        return [*argv, "--static", str(PAGE.parent)]


@dataclass(frozen=True)
class Gateway:
    """Envoy with the chart's configuration."""

    text: str
    name: str = "gateway"

    def argv(self, programs: Programs, address: str, folder: Path) -> list[str]:
        """How it is started."""
        file = folder / "envoy.json"
        file.write_text(self.text.replace(f'"{shipped.PORT}"', address.rpartition(":")[2]))
        argv = [str(programs.envoy), "--config-path", str(file), "--disable-hot-restart"]
        return [*argv, "--log-level", "error", "--concurrency", "1"]


@dataclass(frozen=True)
class Stack:
    """All that runs, and where clients go."""

    servers: list[Running]
    gateways: list[Running] = field(default_factory=list)
    root: Path = Path()

    @property
    def to(self) -> list[str]:
        """The addresses for clients."""
        return [one.address for one in self.gateways or self.servers]

    def resident_kib(self) -> dict[str, int]:
        """Resident memory of each part."""
        return {
            "server": sum(one.resident_kib() for one in self.servers),
            "gateway": sum(one.resident_kib() for one in self.gateways),
        }

    def cpu_seconds(self) -> dict[str, float]:
        """CPU time of each part so far."""
        return {
            "server": sum(one.cpu_seconds() for one in self.servers),
            "gateway": sum(one.cpu_seconds() for one in self.gateways),
        }


@contextlib.contextmanager
def stack(
    programs: Programs,
    *,
    connections: int,
    most: int,
    cpus: list[int],
    gateway: str = "",
    flags: tuple[str, ...] = (),
) -> Iterator[Stack]:
    """Replicas for so many connections, none with more than `most`; or gateways for them."""
    wanted = max(REPLICAS, -(-connections // most))
    with contextlib.ExitStack() as parts:
        root = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="ladder-")))
        shutil.copy(PAGE, root)
        (root / LARGE).write_bytes(bytes(LARGE_BYTES))
        count = REPLICAS if gateway else wanted
        replicas = [Replica(index, most, free_ports(), root, flags) for index in range(count)]
        servers = [parts.enter_context(running(replica, programs, cpus)) for replica in replicas]
        if not gateway:
            yield Stack(servers, root=root)
            return
        ports = [
            (server.address.rpartition(":")[2], str(replica.admin_port))
            for server, replica in zip(servers, replicas, strict=True)
        ]
        for mark, port in zip(MARKS, [port for pair in ports for port in pair], strict=True):
            gateway = gateway.replace(str(mark), port)
        gateways = [
            parts.enter_context(running(Gateway(gateway), programs, cpus)) for _ in range(wanted)
        ]
        yield Stack(servers, gateways, root)


@contextlib.contextmanager
def floors(programs: Programs, cpus: list[int]) -> Iterator[Stack]:
    """As many of the floor as there would be replicas."""
    with contextlib.ExitStack() as parts:
        yield Stack(
            [parts.enter_context(running(Floor(), programs, cpus)) for _ in range(REPLICAS)]
        )
