"""The replicas that proxies under measurement send requests to, and the stand of these benchmarks."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loadtests.bench.experiment import builds, servers
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.generator import Place
from loadtests.bench.experiment.plan import Plan, Stand
from loadtests.bench.experiment.servers import HOST, Running, running
from loadtests.bench.free_ports import free_ports
from loadtests.bench.gateway import shipped
from loadtests.bench.gateway.proxies import versions
from loadtests.bench.gateway.shipped import Endpoint

REPLICAS = 2
TOOLS = ("helm", "supervisord", "envoy", "nginx", "haproxy")


@dataclass(frozen=True)
class Replica:
    """One server of the pool."""

    name: str
    admin_port: int

    def argv(self, programs: Programs, address: str, _folder: Path) -> list[str]:
        """How it is started. All replicas share a CPU, so none pins its lane."""
        argv = [str(programs.server), "--listen", address, "--lanes", "1", "--pin", "off"]
        argv += ["--admin.listen", f"{HOST}:{self.admin_port}"]
        return [*argv, "--replica", self.name, "--log.level", "warn"]


@dataclass
class PoolStand(Stand):
    """A pool that all proxies share. The proxy has the first CPU, generator and pool the second."""

    programs: Programs | None = None
    pool: Sequence[Running] = ()
    endpoints: Sequence[Endpoint] = ()
    rendered: dict = field(default_factory=dict)
    """The configuration that the gateway's chart renders for the pool."""

    def place(self, *, first: bool = False) -> Place:
        """The generator's; `first` for an open loop, which could not send in time otherwise."""
        return Place([self.cpus[1]], first)


@contextlib.contextmanager
def pooled(plan: Plan) -> Iterator[PoolStand]:
    """Builds everything and starts the pool, which is the same for all proxies and all rounds."""
    programs = builds.obtain(plan.server, plan.profile, tools=TOOLS)
    cpus = servers.first_cpus(2)
    with replicas(programs, cpus[1]) as (pool, endpoints):
        yield PoolStand(
            plan,
            cpus,
            versions=versions(programs),
            programs=programs,
            pool=pool,
            endpoints=endpoints,
            rendered=shipped.configuration(programs.tools, endpoints),
        )


@contextlib.contextmanager
def replicas(programs: Programs, cpu: int) -> Iterator[tuple[list[Running], list[Endpoint]]]:
    """The pool, on one CPU."""
    with contextlib.ExitStack() as stack:
        pool, endpoints = [], []
        for number in range(REPLICAS):
            replica = Replica(f"bench-{number}", free_ports())
            server = stack.enter_context(running(replica, programs, [cpu]))
            pool.append(server)
            port = int(server.address.rpartition(":")[2])
            endpoints.append(Endpoint(port, replica.admin_port))
        yield pool, endpoints
