"""Requirements of the machine; each check names what is missing."""

import os
import resource
import shutil
import subprocess
from pathlib import Path

from cluster import cgroups
from cluster.programs import Programs
from cluster.settings import Settings
from tools.errors import ToolError

OPEN_FILES = 8192
DISK = 2 * 1024**3
"""Bytes for the nodes' images and the files of pods."""

TRIES = {
    "network namespaces (CONFIG_NET_NS)": "true",
    "bridge (CONFIG_BRIDGE)": "ip link add probe0 type bridge",
    "veth (CONFIG_VETH)": "ip link add probe1 type veth peer name probe2",
    "nf_tables with NAT (CONFIG_NF_TABLES, CONFIG_NFT_NAT, CONFIG_NFT_MASQ)": (
        "nft add table ip t && nft add chain ip t c "
        "'{ type nat hook postrouting priority 100; }' && nft add rule ip t c masquerade"
    ),
    "overlay file system (CONFIG_OVERLAY_FS)": (
        "mount -t tmpfs try /tmp && cd /tmp && mkdir low up work all && "
        "mount -t overlay -o lowerdir=low,upperdir=up,workdir=work try all"
    ),
}


def require_user() -> None:
    """Namespaces, cgroups and mounts need root."""
    if os.geteuid() != 0:
        raise ToolError("the local cluster needs root: run it with sudo")


def require_machine(settings: Settings) -> None:
    """The checks that need no program of the cluster."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < OPEN_FILES:
        raise ToolError(
            f"a process may open {hard} files at most, and the cluster needs {OPEN_FILES}: "
            f"raise the hard limit (ulimit -Hn {OPEN_FILES})"
        )
    free = shutil.disk_usage(_existing(settings.state)).free
    if free < DISK:
        raise ToolError(
            f"{settings.state} is on a disk with {free >> 20} MiB free, and {DISK >> 20} are "
            "needed: make room, or set CLUSTER_STATE to a folder of another disk"
        )
    cgroups.require(settings.cgroups)


def require_kernel(programs: Programs) -> None:
    """Tries what the nodes will do, in temporary namespaces."""
    for feature, script in TRIES.items():
        result = subprocess.run(
            ["unshare", "--net", "--mount", "sh", "-c", script],
            env=programs.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            raise ToolError(f"this kernel has no {feature}: {result.stderr.strip()}. {_ELSEWHERE}")


_ELSEWHERE = "Take a machine whose kernel has it, or another cluster with CLUSTER=current"


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)
