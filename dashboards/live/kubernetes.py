"""The Kubernetes of a platform: what the agents of gateway and node ask.

No kubelet and no controller acts on the API server, so the platform itself says which pods run and are ready.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.live import node
from stack.apiserver import Api, own_address

SERVICE = "server"


@dataclass(frozen=True)
class Cluster:
    """The node, its pods and the Service of the replicas, in a namespace."""

    api: Api
    namespace: str

    def prepare(self) -> None:
        """Makes the namespace and the node."""
        self.api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self.api.create("/api/v1/nodes", {"metadata": {"name": node.NAME}})

    def pod(self, name: str, cpus: str, pid: int) -> node.Container:
        """A pod that runs on the node, with whole CPUs, and a process for its container."""
        count = len(cpus.split(","))
        amount = {"cpu": str(count), "memory": "64Mi"}
        kind, main = ("gateway", "envoy") if name == "gateway" else ("server", "server")
        described = {
            "metadata": {"name": name, "labels": {"app.kubernetes.io/name": f"corelane-{kind}"}},
            "spec": {
                "nodeName": node.NAME,
                "containers": [
                    {
                        "name": main,
                        "image": "none",
                        "resources": {"requests": amount, "limits": amount},
                    }
                ],
            },
        }
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        uid = self.api.create(path, described)["metadata"]["uid"]
        container = node.Container(name, uid, secrets.token_hex(32), cpus, pid)
        status = {
            "name": main,
            "containerID": f"containerd://{container.id}",
            "image": "none",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }
        phase = {"phase": "Running", "containerStatuses": [status]}
        self.api.change(f"{path}/{name}/status", {"status": phase})
        return container

    def endpoint(self, name: str, ports: Sequence[int], *, serving: bool, ending: bool) -> None:
        """Says of a replica whether it serves, and whether it has begun to end."""
        conditions = {"ready": serving and not ending, "serving": serving, "terminating": ending}
        one = {"addresses": [own_address()], "conditions": conditions, "nodeName": node.NAME}
        self._slice(name, [one], ports)

    def slice(self, name: str, addresses: Sequence[str]) -> None:
        """Writes a slice of replicas that are ready, at these addresses."""
        self._slice(name, [{"addresses": [address]} for address in addresses], (8080, 8081))

    def touch(self, name: str, number: int) -> None:
        """Changes nothing of a slice but an annotation."""
        change = {"metadata": {"annotations": {"beat": str(number)}}}
        self.api.change(f"{self._slices}/{name}", change)

    def remove(self, name: str) -> None:
        """Deletes a slice."""
        self.api.call("DELETE", f"{self._slices}/{name}")

    @property
    def _slices(self) -> str:
        return f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices"

    def _slice(self, name: str, endpoints: list[dict], ports: Sequence[int]) -> None:
        numbers = zip(("http", "admin"), ports, strict=True)
        described = {
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": SERVICE}},
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{"name": port, "port": number} for port, number in numbers],
        }
        if self.api.call("GET", f"{self._slices}/{name}").status == 404:
            self.api.create(self._slices, described)
        else:
            self.api.change(f"{self._slices}/{name}", described)
