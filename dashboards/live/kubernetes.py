"""A real API server with its etcd, on loopback: what the agents of gateway and node ask.

No kubelet and no controller acts on it, so the stage itself says which pods run and are ready.
"""

import http.client
import json
import secrets
import socket
import ssl
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dashboards.live import node
from local.topology import HOST
from tools.errors import ToolError

SERVICE = "server"

ELSEWHERE = ("192.0.2.1", 9)
"""An unassigned address (RFC 5737)."""


def own_address() -> str:
    """An address of this machine that is not loopback, which no EndpointSlice may hold."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Sends nothing: the kernel only selects a route.
        try:
            probe.connect(ELSEWHERE)
        except OSError as error:
            raise ToolError(
                f"this machine has no way out of loopback ({error.strerror}), and no EndpointSlice"
                " may hold an address of loopback: a default route is needed, over which nothing is sent"
            ) from error
        return probe.getsockname()[0]


@dataclass(frozen=True)
class Api:
    """The API server and its etcd: files in `folder`, four ports from `port` on."""

    folder: Path
    port: int
    token: str

    @property
    def kubeconfig(self) -> Path:
        """What a client is given."""
        return self.folder / "kubeconfig"

    def etcd(self, program: Path) -> list[object]:
        """The command line of etcd."""
        clients, peers = (f"http://{HOST}:{self.port + index}" for index in range(2))
        return [
            program,
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
        ]

    def server(self, program: Path) -> list[object]:
        """The command line of the API server."""
        key = self.folder / "service-accounts.key"
        return [
            program,
            f"--etcd-servers=http://{HOST}:{self.port}",
            f"--bind-address={HOST}",
            f"--advertise-address={HOST}",
            f"--secure-port={self.port + 2}",
            # It makes itself a certificate there.
            f"--cert-dir={self.folder}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            # It requires service accounts, which only a controller creates.
            "--disable-admission-plugins=ServiceAccount",
            # The Service "kubernetes" would have an address of loopback, which is rejected.
            "--endpoint-reconciler-type=none",
        ]

    def ready(self) -> bool:
        """Whether it serves."""
        with suppress(OSError, http.client.HTTPException):
            return self.call("GET", "/readyz")[0] == 200
        return False

    def call(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> tuple[int, bytes]:
        """One request of an administrator."""
        trust = ssl.create_default_context(cafile=str(self.folder / "apiserver.crt"))
        connection = http.client.HTTPSConnection(HOST, self.port + 2, timeout=10, context=trust)
        head = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, head)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def create(self, path: str, described: dict) -> dict:
        """Creates an object; as the API server has it."""
        status, body = self.call("POST", path, described)
        if status != 201:
            raise OSError(f"POST {path}: {status} {body.decode()}")
        return json.loads(body)

    def change(self, path: str, patch: dict) -> None:
        """Lays a merge patch over an object (RFC 7386)."""
        status, body = self.call("PATCH", path, patch, "application/merge-patch+json")
        if status != 200:
            raise OSError(f"PATCH {path}: {status} {body.decode()}")


def make(folder: Path, port: int, openssl: Path) -> Api:
    """Writes the files of an API server."""
    folder.mkdir()
    api = Api(folder, port, secrets.token_hex(16))
    (folder / "tokens.csv").write_text(f'{api.token},stage,stage,"system:masters"\n')
    # Not genpkey: the API server takes the public part only out of keys in this form.
    argv = [openssl, "ecparam", "-genkey", "-noout", "-name", "prime256v1"]
    argv += ["-out", folder / "service-accounts.key"]
    subprocess.run(argv, check=True, capture_output=True)
    cluster = {
        "server": f"https://{HOST}:{port + 2}",
        "certificate-authority": str(folder / "apiserver.crt"),
    }
    described = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "stage",
        "clusters": [{"name": "stage", "cluster": cluster}],
        "users": [{"name": "stage", "user": {"token": api.token}}],
        "contexts": [{"name": "stage", "context": {"cluster": "stage", "user": "stage"}}],
    }
    # JSON is YAML (YAML 1.2, section 1.3).
    api.kubeconfig.write_text(json.dumps(described))
    return api


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
        if self.api.call("GET", f"{self._slices}/{name}")[0] == 404:
            self.api.create(self._slices, described)
        else:
            self.api.change(f"{self._slices}/{name}", described)
