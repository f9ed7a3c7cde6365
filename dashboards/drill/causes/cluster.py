"""Agents that use the API server: drills on the platform that has one."""

import signal
from collections.abc import Iterator
from dataclasses import replace

from dashboards.drill.drills import Labels, drill
from dashboards.drill.place import Place


@drill("CorelaneGatewayAgentDown", how="SIGKILL of the gateway's agent; started again", whole=True)
def gateway_agent_killed(place: Place) -> Iterator[Labels]:
    agent = place.platform.parts["gateway-agent"]
    place.begins()
    agent.kill()
    yield {"job": "gateway-agent", "pod": "gateway"}
    agent.start()


@drill("CorelaneEndpointsStale", how="SIGSTOP of the API server; SIGCONT", whole=True)
def api_server_stopped(place: Place) -> Iterator[Labels]:
    server = place.platform.parts["kube-apiserver"]
    place.begins()
    server.signal(signal.SIGSTOP)
    yield {"job": "gateway-agent", "pod": "gateway"}
    server.signal(signal.SIGCONT)


@drill(
    "CorelanePodNotPinned",
    how="a CFS quota in the cgroup of a pod with exclusive CPUs; removed",
    whole=True,
)
def pod_with_quota(place: Place) -> Iterator[Labels]:
    platform = place.platform
    container = platform.containers["server-0"]
    place.begins()
    platform.tree.put(container, quota=50_000)
    yield {"pod": "server-0", "check": "no-cfs-quota", "state": "failed"}
    platform.tree.put(container)


@drill(
    "CorelanePodNotPinned",
    how="another pod may use the CPU of a pod with exclusive CPUs; no longer",
    whole=True,
)
def pod_with_company(place: Place) -> Iterator[Labels]:
    platform = place.platform
    other = platform.containers["gateway"]
    cpu = platform.containers["server-0"].cpus
    place.begins()
    platform.tree.put(replace(other, cpus=f"{cpu},{other.cpus}"))
    yield {"pod": "server-0", "check": "cpus-exclusive", "state": "failed"}
    platform.tree.put(other)
