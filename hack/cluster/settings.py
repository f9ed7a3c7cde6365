"""Environment variables and their defaults."""

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from tools.errors import ToolError

FOLDER = Path(__file__).resolve().parent

KINDS = ("local", "vm", "kind", "current")

VARIABLES = ("CLUSTER", "CLUSTER_STATE", "CLUSTER_NETWORK", "CLUSTER_CGROUPS")


@dataclass(frozen=True)
class Settings:
    state: Path
    network: ipaddress.IPv4Network
    cgroups: Path


def kind() -> str:
    """Namespaces or virtual machines on this host, kind, or the current kubeconfig's cluster."""
    name = os.environ.get("CLUSTER") or "local"
    if name not in KINDS:
        raise ToolError(f"CLUSTER={name!r}: choose from {', '.join(KINDS)}")
    return name


def load() -> Settings:
    state = Path(os.environ.get("CLUSTER_STATE") or "/var/lib/corelane-cluster")
    if not state.is_absolute():
        raise ToolError(f"CLUSTER_STATE={str(state)!r}: must be an absolute path")
    text = os.environ.get("CLUSTER_NETWORK") or "10.213.0.0/16"
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise ToolError(
            f"CLUSTER_NETWORK: expected a network like 10.213.0.0/16: {error}"
        ) from None
    if network.prefixlen != 16:
        raise ToolError(f"CLUSTER_NETWORK={network}: must be a /16")
    return Settings(state, network, Path(os.environ.get("CLUSTER_CGROUPS") or "/sys/fs/cgroup"))
