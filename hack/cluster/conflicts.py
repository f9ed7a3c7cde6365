"""Names and addresses of the cluster that the machine already uses."""

import ipaddress
import json
import subprocess
from pathlib import Path

from cluster.network import ALIAS
from cluster.plan import HOST_LINK
from cluster.settings import Settings
from tools import resolve
from tools.errors import ToolError


def require_free(settings: Settings) -> None:
    """Raises an error that names the holder of the interface or of the network."""
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
    """Raises an error when the cluster of another state folder is up: cgroups are shared."""
    if owner() not in (None, state):
        raise ToolError(
            f"another cluster is running, with CLUSTER_STATE={owner()}. Use it, or stop it: "
            f"make cluster-down CLUSTER_STATE={owner()}"
        )


def owner() -> Path | None:
    """The state folder of the cluster whose interface the host has."""
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
        # A default route leads everywhere; narrower routes have precedence.
        if destination not in ("default", "0.0.0.0/0"):
            holder = f"a route to {destination} by {route.get('dev', 'no interface')}"
            found.append((ipaddress.IPv4Network(destination), holder))
    return found


def _ask(*words: str) -> list[dict]:
    argv = [resolve.ensure(["ip"])["ip"], "-json", *words]
    result = subprocess.run(argv, capture_output=True, text=True, check=True)
    return json.loads(result.stdout or "[]")
