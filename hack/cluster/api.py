"""API server requests as the administrator."""

import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from cluster import records

WATCH = 300
"""Seconds after which a watch is renewed."""


class Api:
    @classmethod
    def of(cls, state: Path) -> "Api":
        config = json.loads(records.kubeconfig(state).read_text())
        folder = state / "pki"
        return cls(config["clusters"][0]["cluster"]["server"], folder)

    def __init__(self, url: str, pki: Path) -> None:
        self.url = url
        self.context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self.context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        # Proxies from the environment cannot reach the cluster.
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.context)
        )

    def get(self, path: str) -> str | None:
        try:
            with self.opener.open(self.url + path, timeout=5) as reply:
                return reply.read().decode()
        except (urllib.error.URLError, OSError, ValueError):
            return None

    def changes(self, path: str) -> Iterator[bytes]:
        """Yields a line for each object of a list, and then one for each change."""
        query = f"?watch=true&timeoutSeconds={WATCH}"
        with self.opener.open(self.url + path + query, timeout=WATCH + 30) as reply:
            yield from reply

    def ready(self) -> bool:
        return self.get("/readyz") == "ok"

    def ready_nodes(self) -> set[str]:
        nodes = json.loads(self.get("/api/v1/nodes") or "{}").get("items", [])
        return {node["metadata"]["name"] for node in nodes if _is_ready(node)}


def _is_ready(node: dict) -> bool:
    conditions = node["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def resolves(server: str, name: str) -> bool:
    """Whether a DNS server resolves `name` to an IPv4 address (RFC 1035, section 4)."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    # Recursion desired; one question: type A, class IN.
    query = b"\x2a\x2a\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + labels + b"\x00\x00\x01\x00\x01"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.settimeout(0.5)
        try:
            link.sendto(query, (server, 53))
            answer = link.recv(512)
        except OSError:
            return False
    return answer[3] & 0x0F == 0 and int.from_bytes(answer[6:8]) > 0
