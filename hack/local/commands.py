"""The command line of each process."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from local import settings, supervisor
from local.service import REFERENCE
from local.topology import Replica, Topology
from stack import HOST, REPOSITORY
from stack.prometheus import command


def tls(folder: str) -> dict[str, str]:
    """Returns a replica's settings for mutual TLS."""
    if not folder:
        return {}
    return {
        "tls.certificate": f"{folder}/server/tls.crt",
        "tls.key": f"{folder}/server/tls.key",
        "tls.clients.ca": f"{folder}/server/ca.crt",
        "tls.clients.allow": settings.identity("gateway"),
    }


def server(replica: Replica, pinned: bool, program: Path, more: Sequence[str] = ()) -> list[str]:
    """The replica pins its lane only if no other replica shares the CPU."""
    return [
        *("taskset", "-c", str(replica.cpu), str(program)),
        *("--replica", replica.name),
        *("--listen", f"{HOST}:{replica.port}"),
        *("--admin.listen", f"{HOST}:{replica.admin_port}"),
        *("--pin", "on" if pinned else "off"),
        *("--static.root", str(REPOSITORY / "services" / "server" / "static")),
        *("--drain.settle", "1s"),
        *("--drain.deadline", "15s"),
        *("--log.format", "json"),
        *more,
    ]


def service(replica: Replica, program: Path) -> list[str]:
    """Returns the command line of any other service; `environment` contains its settings."""
    return ["taskset", "-c", str(replica.cpu), str(program)]


def environment(replica: Replica, topology: Topology) -> dict[str, str]:
    """A replica's settings as in a cluster: port, name, and Corelane's settings if it reads them."""
    # In a pod, this variable also contains the pod's name.
    common = {"PORT": str(replica.port), "HOSTNAME": replica.name}
    if not topology.of(replica).chassis:
        return common
    mutual = tls(topology.mtls).items()
    return common | {
        **{f"CORELANE_{name.replace('.', '_').upper()}": value for name, value in mutual},
        "CORELANE_LISTEN": f"{HOST}:{replica.port}",
        "CORELANE_ADMIN_LISTEN": f"{HOST}:{replica.admin_port}",
        "CORELANE_REPLICA": replica.name,
        "CORELANE_LANES": "1",
        "CORELANE_PIN": "on" if topology.pinned else "off",
        "CORELANE_DRAIN_SETTLE": "1s",
        "CORELANE_DRAIN_DEADLINE": "15s",
        "CORELANE_LOG_FORMAT": "json",
    }


def calls(topology: Topology, known: set[str]) -> dict[str, str]:
    """Addresses of the other services, for a service that has settings such as `orders.url`."""
    urls = {
        f"CORELANE_{re.sub('[^A-Z0-9]', '_', service.name.upper())}_URL": "http://"
        + ",".join(f"{HOST}:{replica.port}" for replica in topology.replicas_of(service))
        for service in topology.services
    }
    return {name: url for name, url in urls.items() if name in known}


def gateway(program: Path, run: Path) -> list[str]:
    """Runs one worker per CPU and disables hot restart, which would make two instances clash."""
    return [
        *(str(program), "--config-path", str(run / "envoy.yaml")),
        *("--concurrency", str(len(os.sched_getaffinity(0)))),
        "--disable-hot-restart",
        *("--log-level", "warn"),
        # Maximum delay of an access log line.
        *("--file-flush-interval-msec", "1000"),
    ]


LOAD = ("/hello", "/div/4", "/work?ops=2000", "/static/index.html")
"""Paths of the reference server that the dashboard's load requests."""


def dashboard(topology: Topology, program: Path, run: Path) -> list[str]:
    paths = LOAD if topology.service == REFERENCE else ("/",)
    return [
        *(str(program), "dashboard", "--instance", str(run)),
        *("--listen", f"{HOST}:{topology.dashboard_port}"),
        *("--supervisor", str(supervisor.socket_path(run))),
        *(part for path in paths for part in ("--path", path)),
    ]


def prometheus(topology: Topology, program: Path, run: Path) -> list[str]:
    """Returns the command line of Prometheus, whose data are in the run folder."""
    return command(
        program,
        run,
        topology.prometheus_port,
        "--storage.tsdb.retention.time=6h",
        # Load tests write k6 series to it.
        "--web.enable-remote-write-receiver",
    )
