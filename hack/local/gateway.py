"""Envoy's configuration for the local gateway, from a committed render of the gateway's chart.

`make charts` writes that render, envoy.yaml: for one replica, with names of ports in place of their numbers.
So `make up` needs no Helm.
"""

from pathlib import Path
from string import Template

from local.topology import Topology

TEMPLATE = Path(__file__).with_name("envoy.yaml")

FIRST = "        - endpoint:\n"
LAST = "$REPLICA_ADMIN_PORT}\n"
"""How the first line of the replica begins, and how its last line ends."""


def configuration(topology: Topology) -> str:
    """The configuration of an instance."""
    text = TEMPLATE.read_text()
    begin = text.index(FIRST)
    end = text.index(LAST, begin) + len(LAST)
    endpoint = Template(text[begin:end])
    endpoints = "".join(
        endpoint.substitute(REPLICA_PORT=replica.port, REPLICA_ADMIN_PORT=replica.admin_port)
        for replica in topology.replicas
    )
    ports = {
        "GATEWAY_PORT": topology.gateway_port,
        "ENVOY_ADMIN_PORT": topology.envoy_admin_port,
        "GATEWAY_STATS_PORT": topology.gateway_stats_port,
    }
    before, after = (Template(part).substitute(ports) for part in (text[:begin], text[end:]))
    return before + endpoints + after
