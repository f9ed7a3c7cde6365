"""Namespaces and links.

The control plane and each node have their own network namespace, joined by the control plane's
bridge; the host gets one interface. Namespaces have no name in /run/netns. A sleeping anchor
process keeps each namespace alive, which disappears when its last process has exited.
"""

from pathlib import Path

from cluster import records
from cluster.plan import CONTROL, HOST_LINK, Node, Plan
from cluster.programs import Programs
from stack import in_time, pids
from tools import command
from tools.errors import ToolError

ALIAS = "corelane-cluster "
"""Prefix of the host interface's alias, followed by the state folder that owns the interface."""

BRIDGE = "bridge"


def anchor(record: records.Record, programs: Programs, name: str) -> int:
    """Starts the process that holds a node's network and mount namespace."""
    # A node's mounts are visible only in its namespace and disappear with it.
    argv = ["unshare", "--net", "--mount", "--propagation", "private", "sleep", "infinity"]
    pid = record.start(name, argv, programs.environment())
    if not in_time(lambda: pids.name(pid) == "sleep", 10, 0.005):
        raise ToolError(f"no namespaces for {name}: see {records.log(record.file.parent, name)}")
    inodes = {kind: Path(f"/proc/{pid}/ns/{kind}").readlink().name for kind in ("net", "mnt")}
    record.save(namespaces={**record.content.get("namespaces", {}), name: inodes})
    return pid


def inside(pid: int) -> list[str]:
    """Command prefix for an anchor's namespaces.

    `ip netns exec` would mount another /sys and hide the cgroups.
    """
    return ["nsenter", "--target", str(pid), "--net", "--mount"]


def connect(folder: Path, plan: Plan, programs: Programs, anchors: dict[str, int]) -> None:
    """Joins the host, the control plane and the nodes, and routes pods and Services."""
    ip, control = programs["ip"], anchors[CONTROL]
    length = plan.links.prefixlen
    _batch(
        [ip],
        f"link add {HOST_LINK} type veth peer name host netns {control}",
        f'link set {HOST_LINK} alias "{ALIAS}{folder}"',
        f"addr add {plan.host}/{length} dev {HOST_LINK}",
        f"link set {HOST_LINK} up",
    )
    links = [f"link add {BRIDGE} type bridge", "link set lo up", "link set host master bridge up"]
    for node in plan.nodes:
        link = f"link add {node.name} type veth peer name eth0 netns {anchors.get(node.name)}"
        links.append(f"tuntap add {node.name} mode tap multi_queue" if plan.machines else link)
        links.append(f"link set {node.name} master {BRIDGE} up")
    links += [f"addr add {plan.control}/{length} dev {BRIDGE}", f"link set {BRIDGE} up"]
    _batch([*inside(control), ip], *links)
    for node in plan.nodes:
        if not plan.machines:
            _batch([*inside(anchors[node.name]), ip], *of_node(plan, node))
            _forward(anchors[node.name])
    pods = [f"route add {node.pods} via {node.address}" for node in plan.nodes]
    _batch([*inside(control), ip], *pods)
    # The host can also reach Services, because the first node's kube-proxy translates the
    # addresses.
    _batch([ip], *pods, f"route add {plan.services} via {plan.nodes[0].address}")


def of_node(plan: Plan, node: Node) -> list[str]:
    """`ip` commands for a node's link, eth0."""
    others = [other for other in plan.nodes if other is not node]
    return [
        "link set lo up",
        f"addr add {node.address}/{plan.links.prefixlen} dev eth0",
        "link set eth0 up",
        f"route add default via {plan.host}",
        *(f"route add {other.pods} via {other.address}" for other in others),
    ]


def _forward(pid: int) -> None:
    command.output([*inside(pid), "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"])


def _batch(ip: list[object], *lines: str) -> None:
    command.output([*ip, "-batch", "-"], stdin="".join(f"{line}\n" for line in lines))
