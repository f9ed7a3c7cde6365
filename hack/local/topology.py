"""The parts of an instance and their addresses, stored in its run folder while it is up."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from local.service import REFERENCE, Service
from local.settings import Settings
from stack import HOST


@dataclass(frozen=True)
class Replica:
    """A replica without its own admin port uses the traffic port."""

    name: str
    cpu: int
    port: int
    admin_port: int
    service: str = REFERENCE.name


@dataclass(frozen=True)
class Topology:
    gateway_port: int
    envoy_admin_port: int
    gateway_stats_port: int
    prometheus_port: int
    pinned: bool
    replicas: tuple[Replica, ...]
    database: str = "none"
    postgres_port: int = 0
    services: tuple[Service, ...] = (REFERENCE,)
    dashboard_port: int = 0
    """0 if there is no dashboard."""
    mtls: str = ""

    @property
    def service(self) -> Service:
        """The service that gets the requests for hosts that name no other service."""
        return self.services[0]

    def of(self, replica: Replica) -> Service:
        (service,) = (each for each in self.services if each.name == replica.service)
        return service

    def replicas_of(self, service: Service) -> list[Replica]:
        return [replica for replica in self.replicas if replica.service == service.name]

    def addresses(self) -> dict[str, str]:
        ports = {replica.name: replica.port for replica in self.replicas}
        if self.database == "postgres":
            ports["postgres"] = self.postgres_port
        ports |= {"gateway": self.gateway_port, "prometheus": self.prometheus_port}
        ports["dashboard"] = self.dashboard_port
        return {name: f"{HOST}:{port}" for name, port in ports.items()}

    def variables(self) -> dict[str, str]:
        first = self.replicas[0]
        ports = {"DASHBOARD_PORT": self.dashboard_port, "GATEWAY_PORT": self.gateway_port}
        ports |= {"ENVOY_ADMIN_PORT": self.envoy_admin_port, "REPLICA_PORT": first.port}
        ports |= {"GATEWAY_STATS_PORT": self.gateway_stats_port}
        ports |= {"PROMETHEUS_PORT": self.prometheus_port}
        if any(service.chassis for service in self.services):
            ports["REPLICA_ADMIN_PORT"] = first.admin_port
        if self.database == "postgres":
            ports["POSTGRES_PORT"] = self.postgres_port
        each = len(self.replicas) // len(self.services)
        chosen = {"REPLICAS": each, "DATABASE": self.database, "MTLS": self.mtls, **ports}
        return {name: str(value) for name, value in chosen.items()}


def plan(settings: Settings) -> Topology:
    ports = settings.ports
    wanted = [(each, index) for each in settings.services for index in range(settings.replicas)]
    replicas = [
        Replica(
            name=f"{service.name}-{index}",
            cpu=settings.cpus[place % len(settings.cpus)],
            port=ports["REPLICA_PORT"] + place,
            admin_port=ports["REPLICA_ADMIN_PORT" if service.chassis else "REPLICA_PORT"] + place,
            service=service.name,
        )
        for place, (service, index) in enumerate(wanted)
    ]
    return Topology(
        gateway_port=ports["GATEWAY_PORT"],
        envoy_admin_port=ports["ENVOY_ADMIN_PORT"],
        gateway_stats_port=ports["GATEWAY_STATS_PORT"],
        prometheus_port=ports["PROMETHEUS_PORT"],
        pinned=settings.pinned,
        replicas=tuple(replicas),
        database=settings.database,
        postgres_port=ports.get("POSTGRES_PORT", 0),
        services=settings.services,
        dashboard_port=ports["DASHBOARD_PORT"],
        mtls=settings.mtls,
    )


def save(topology: Topology, run: Path) -> None:
    (run / "topology.json").write_text(json.dumps(asdict(topology), indent=2))


def read(run: Path) -> Topology | None:
    try:
        raw = json.loads((run / "topology.json").read_text())
    except FileNotFoundError:
        return None
    raw["replicas"] = tuple(Replica(**replica) for replica in raw["replicas"])
    raw["services"] = tuple(Service(**service) for service in raw["services"])
    return Topology(**raw)
