"""Addresses and CPUs of the nodes, as pure functions."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from tools.errors import ToolError

HOST_LINK = "corelane0"
"""The host's only interface to the cluster."""

CONTROL = "control"
NODES = ("node1", "node2")
API_PORT = 6443


@dataclass(frozen=True)
class Node:
    """One node. Its pods share its CPUs, and exclusive pods can use all except the reserved ones."""

    name: str
    address: IPv4Address
    pods: IPv4Network
    cpus: frozenset[int]
    reserved: frozenset[int]

    @property
    def cgroup(self) -> str:
        return f"corelane-{self.name}"


@dataclass(frozen=True)
class Plan:
    network: IPv4Network
    nodes: tuple[Node, ...]
    machines: bool = False
    """Whether nodes are virtual machines instead of namespaces of this machine."""

    def __post_init__(self) -> None:
        if self.network.prefixlen != 16:
            raise ValueError(f"{self.network} is no /16")

    def _part(self, third: int, length: int) -> IPv4Network:
        return IPv4Network((self.network.network_address + third * 256, length))

    @property
    def links(self) -> IPv4Network:
        return self._part(0, 24)

    @property
    def host(self) -> IPv4Address:
        return self.links[1]

    @property
    def control(self) -> IPv4Address:
        return self.links[10]

    @property
    def pods(self) -> IPv4Network:
        return self._part(64, 18)

    @property
    def services(self) -> IPv4Network:
        return self._part(128, 20)

    @property
    def dns(self) -> IPv4Address:
        return self.services[10]

    @property
    def api(self) -> str:
        return f"https://{self.control}:{API_PORT}"


def make(network: IPv4Network, usable: Iterable[int]) -> Plan:
    """Two nodes on the usable CPUs.

    Each node owns half of the CPUs and keeps the first one for pods without exclusive CPUs. If half
    is a single CPU, each node has all CPUs and reserves the other node's.
    """
    usable = frozenset(usable)
    owned = split(usable)
    nodes = []
    for index, (name, mine) in enumerate(zip(NODES, owned, strict=True)):
        if all(len(half) > 1 for half in owned):
            cpus, reserved = mine, frozenset({min(mine)})
        else:
            cpus, reserved = usable, usable - mine
        nodes.append(_node(network, index, name, cpus, reserved))
    return Plan(network, tuple(nodes))


def of_machines(network: IPv4Network, cpus: int) -> Plan:
    """Two nodes with this many CPUs each; the first CPU is for pods without exclusive CPUs."""
    all_cpus, first = frozenset(range(cpus)), frozenset({0})
    nodes = [_node(network, index, name, all_cpus, first) for index, name in enumerate(NODES)]
    return Plan(network, tuple(nodes), machines=True)


def _node(
    network: IPv4Network, index: int, name: str, cpus: frozenset[int], reserved: frozenset[int]
) -> Node:
    plan = Plan(network, ())
    return Node(name, plan.links[11 + index], plan._part(64 + index, 24), cpus, reserved)


def split(usable: Iterable[int]) -> tuple[frozenset[int], frozenset[int]]:
    """The CPUs of the two nodes: the upper half and the lower half."""
    cpus = sorted(usable)
    if len(cpus) < 2:
        raise ToolError(
            f"the two nodes need a CPU each, and this machine has {len(cpus)} usable: "
            "take a machine with 2 CPUs, or another cluster with CLUSTER=current"
        )
    half = len(cpus) // 2
    return frozenset(cpus[half:]), frozenset(cpus[:half])


def cpu_list(text: str) -> frozenset[int]:
    """Parses the kernel's list format: 0-3,8."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def cpu_text(cpus: Iterable[int]) -> str:
    return ",".join(str(cpu) for cpu in sorted(cpus))
