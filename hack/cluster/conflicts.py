"""What on the machine already has a name or an address that the cluster wants."""

import ipaddress
import json
import subprocess
from pathlib import Path

from cluster.network import ALIAS
from cluster.plan import HOST_LINK
from cluster.settings import Settings
from tools.errors import ToolError

LINKS = Path("/sys/class/net")


def require_free(settings: Settings, ip: Path) -> None:
    """Raises an error that names the holder of the interface or of the network."""
    link = LINKS / HOST_LINK
    if link.exists() and not own_link():
        raise ToolError(
            f"an interface {HOST_LINK} exists that is not the cluster's: remove it "
            f"(ip link delete {HOST_LINK}) or rename it"
        )
    for network, holder in _in_use(ip):
        if network.overlaps(settings.network):
            raise ToolError(
                f"the network {settings.network} is in use: {holder}. "
                "Set CLUSTER_NETWORK to a free /16, as in CLUSTER_NETWORK=10.214.0.0/16"
            )


def own_link() -> bool:
    """Whether the cluster's interface on the host exists."""
    try:
        return (LINKS / HOST_LINK / "ifalias").read_text().strip() == ALIAS
    except OSError:
        return False


def _in_use(ip: Path) -> list[tuple[ipaddress.IPv4Network, str]]:
    found = []
    for link in _ask(ip, "addr", "show"):
        for address in link.get("addr_info", []):
            text = f"{address['local']}/{address['prefixlen']}"
            holder = f"{link['ifname']} has {text}"
            found.append((ipaddress.IPv4Interface(text).network, holder))
    for route in _ask(ip, "route", "show", "table", "all"):
        destination = route.get("dst", "default")
        # A default route leads everywhere, and every narrower one comes before it.
        if destination not in ("default", "0.0.0.0/0"):
            holder = f"a route to {destination} by {route.get('dev', 'no interface')}"
            found.append((ipaddress.IPv4Network(destination), holder))
    return found


def _ask(ip: Path, *words: str) -> list[dict]:
    argv = [ip, "-4", "-json", *words]
    result = subprocess.run(argv, capture_output=True, text=True, check=True)
    return json.loads(result.stdout or "[]")
