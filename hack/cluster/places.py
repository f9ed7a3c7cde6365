"""Places where a node's commands run: namespaces on this machine, or a QEMU virtual machine."""

from pathlib import Path

from cluster import machines, network
from cluster.plan import NODES
from cluster.records import Record


def inside(record: Record, name: str) -> list[str]:
    """Command prefix for a node or for the control plane."""
    if record.content.get("machines") and name in NODES:
        return machines.inside(record.file.parent, name)
    return network.inside(record.content["processes"][name]["pid"])


def path(record: Record, file: Path) -> Path:
    """A node's path to a file that was written on this machine after the node started."""
    return machines.HOST / file.relative_to("/") if record.content.get("machines") else file
