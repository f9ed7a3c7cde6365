"""Checks the machine's requirements, and whether names and addresses are free; each error names the
problem.
"""

import ipaddress
import json
import os
import resource
import shutil
import subprocess
from pathlib import Path

from cluster import cgroups
from cluster.network import ALIAS
from cluster.plan import HOST_LINK
from cluster.programs import Programs
from cluster.settings import Settings, kind
from machines import qemu
from tools import resolve
from tools.errors import ToolError

TUN = Path("/dev/net/tun")
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
    """Raises an error unless this is root: namespaces, cgroups and mounts need it."""
    if os.geteuid() != 0:
        raise ToolError("the local cluster needs root: run it with sudo")


def require_machine(settings: Settings) -> None:
    """Runs the checks that need no program of the cluster."""
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
    if kind() != "vm":
        cgroups.require(settings.cgroups)
    elif not qemu.usable() or not TUN.exists():
        raise ToolError(
            "CLUSTER=vm needs Debian on x86-64 and /dev/net/tun; CLUSTER=local needs neither"
        )


def require_kernel(programs: Programs) -> None:
    """Tries the kernel features of the nodes in temporary namespaces."""
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


def require_free(settings: Settings) -> None:
    """Raises an error that names what uses the interface or the network."""
    if _host_link() is not None and owner() is None:
        raise ToolError(
            f"an interface {HOST_LINK} exists that is not the cluster's: remove it "
            f"(ip link delete {HOST_LINK}) or rename it"
        )
    for network, holder in _in_use():
        if network.overlaps(settings.network):
            raise ToolError(
                f"the network {settings.network} is in use: {holder}. "
                "Set CLUSTER_NETWORK to a free /16, as in CLUSTER_NETWORK=10.214.0.0/16"
            )


def require_ours(state: Path) -> None:
    """Raises an error if a cluster with another state folder is up, because cgroups are shared."""
    if owner() not in (None, state):
        raise ToolError(
            f"another cluster is running, with CLUSTER_STATE={owner()}. Use it, or stop it: "
            f"make cluster-down CLUSTER_STATE={owner()}"
        )


def owner() -> Path | None:
    alias = (_host_link() or {}).get("ifalias", "")
    return Path(alias.removeprefix(ALIAS)) if alias.startswith(ALIAS) else None


def _host_link() -> dict | None:
    links = [link for link in _ask("link", "show") if link["ifname"] == HOST_LINK]
    return links[0] if links else None


def _in_use() -> list[tuple[ipaddress.IPv4Network, str]]:
    found = []
    for link in _ask("addr", "show"):
        for address in link.get("addr_info", []):
            if address["family"] != "inet":
                continue
            text = f"{address['local']}/{address['prefixlen']}"
            holder = f"{link['ifname']} has {text}"
            found.append((ipaddress.IPv4Interface(text).network, holder))
    for route in _ask("-4", "route", "show", "table", "all"):
        destination = route.get("dst", "default")
        # A default route matches every address; narrower routes have precedence.
        if destination not in ("default", "0.0.0.0/0"):
            holder = f"a route to {destination} by {route.get('dev', 'no interface')}"
            found.append((ipaddress.IPv4Network(destination), holder))
    return found


def _ask(*words: str) -> list[dict]:
    argv = [resolve.tool("ip"), "-json", *words]
    result = subprocess.run(argv, capture_output=True, text=True, check=True)
    return json.loads(result.stdout or "[]")
