"""Renders hack/local/envoy.yaml from the gateway's chart, for the local platform."""

import json
import tempfile
from pathlib import Path

from local import render
from local.topology import Replica, Topology
from tools import resolve

FILE = render.ENVOY_TEMPLATE

PORTS = {
    "GATEWAY_PORT": 60001,
    "ENVOY_ADMIN_PORT": 60002,
    "GATEWAY_STATS_PORT": 60003,
    "REPLICA_PORT": 60004,
    "REPLICA_ADMIN_PORT": 60005,
}
"""Placeholders in the file, and the ports that they replace in the render."""


def template() -> str:
    topology = Topology(
        gateway_port=PORTS["GATEWAY_PORT"],
        envoy_admin_port=PORTS["ENVOY_ADMIN_PORT"],
        gateway_stats_port=PORTS["GATEWAY_STATS_PORT"],
        prometheus_port=0,
        pinned=True,
        replicas=(Replica("server-0", 0, PORTS["REPLICA_PORT"], PORTS["REPLICA_ADMIN_PORT"]),),
    )
    text = rendered(topology).replace("$", "$$")
    for name, number in PORTS.items():
        text = text.replace(str(number), f"${name}")
    return text


def rendered(topology: Topology) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(render.gateway_values(topology), file)
        file.flush()
        return render.envoy(Path(file.name), resolve.ensure(("helm", "supervisord")))
