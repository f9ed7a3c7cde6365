"""The other proxies with so many pods: least connections, as both recommend for requests of unequal length."""

from collections.abc import Sequence
from pathlib import Path

from loadtests.bench.field.scaling.fleet import address
from loadtests.bench.gateway import proxies
from loadtests.bench.gateway.proxies import Proxy, filled

NGINX = "nginx, least_conn"
HAPROXY = "HAProxy, leastconn"
SPARE = 128
"""Kept connections beside one to each pod: more than there are requests at once."""


def others(pods: Sequence[int], port: int) -> list[Proxy]:
    """Those that are compared; they do not check their pods' health."""
    return [_nginx(pods, port), _haproxy(pods, port)]


def _nginx(pods: Sequence[int], port: int) -> Proxy:
    servers = " ".join(f"server {address(pod)}:{port};" for pod in pods)
    text = filled(
        (proxies.HERE / "nginx.conf").read_text(),
        {"ACCESS_LOG": "off", "SERVERS": f"least_conn; {servers}"},
    )
    return Proxy(NGINX, "nginx", text.replace("keepalive 128;", f"keepalive {len(pods) + SPARE};"))


def _haproxy(pods: Sequence[int], port: int) -> Proxy:
    servers = "\n".join(f"  server {pod} {address(pod)}:{port}" for pod in pods)
    text = filled(
        (proxies.HERE / "haproxy.cfg").read_text(), {"ACCESS_LOG": "no log", "SERVERS": servers}
    )
    return Proxy(HAPROXY, "haproxy", text.replace("balance roundrobin", "balance leastconn"))


def programs(tools: dict[str, Path]) -> proxies.Programs:
    """What they are started from."""
    return proxies.Programs(tools, Path(), Path())
