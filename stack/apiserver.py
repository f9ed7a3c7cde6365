"""A real Kubernetes API server on loopback, with its etcd: no nodes, no controllers, no scheduler.

It validates and stores objects as in a cluster (schemas, defaults, immutable fields, Pod Security),
but nothing acts on them.
"""

import http.client
import json
import os
import secrets
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stack import HOST
from stack.http import Reply, ask
from stack.ports import free_ports
from stack.process import Process
from tools import resolve
from tools.errors import ToolError

PROGRAMS = ("etcd", "kube-apiserver", "kubectl", "helm", "openssl")

ELSEWHERE = "192.0.2.1"
"""An address that belongs to no one (RFC 5737)."""


def own_address() -> str:
    """This machine's address outside loopback, because EndpointSlices may not contain loopback
    addresses.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # This sends nothing: the kernel only looks up the route.
        try:
            probe.connect((ELSEWHERE, 9))
        except OSError as error:
            raise ToolError(
                f"this machine has no address other than loopback ({error.strerror}), and an EndpointSlice must not"
                " contain a loopback address: add a default route (nothing is sent over it)"
            ) from error
        return probe.getsockname()[0]


def pod_security(level: str) -> dict[str, str]:
    """Namespace labels: the server rejects pods that do not meet the level, and warns about
    templates of such pods.
    """
    return {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "warn", "audit")}


@dataclass(frozen=True)
class Api:
    kubeconfig: Path
    programs: Mapping[str, Path]

    def kubectl(self, *arguments: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
        return self._run("kubectl", *arguments, text=text)

    def helm(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return self._run("helm", *arguments)

    def get(self, *arguments: str) -> dict:
        found = self.kubectl("get", *arguments, "--output", "json")
        assert found.returncode == 0, found.stderr
        return json.loads(found.stdout)

    @contextmanager
    def namespace(self, level: str = "restricted") -> Iterator[str]:
        """A namespace that only the caller uses, with a Pod Security level."""
        name = f"test-{secrets.token_hex(4)}"
        metadata = {"name": name, "labels": pod_security(level)}
        created = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        result = self.kubectl("create", "--filename", "-", text=json.dumps(created))
        assert result.returncode == 0, result.stderr
        try:
            yield name
        finally:
            # Node ports belong to no namespace, so the next test may claim the same ports.
            self.kubectl("delete", "service", "--all", "--namespace", name)

    def call(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> Reply:
        """This avoids kubectl, which takes a fraction of a second to start."""
        configuration = json.loads(self.kubeconfig.read_text())
        cluster = configuration["clusters"][0]["cluster"]
        token = configuration["users"][0]["user"]["token"]
        return ask(
            cluster["server"],
            path,
            method,
            Path(cluster["certificate-authority"]),
            body=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": kind},
        )

    def create(self, path: str, described: dict) -> dict:
        return self._done("POST", path, described, 201)

    def change(self, path: str, patch: dict) -> dict:
        return self._done("PATCH", path, patch, 200, "application/merge-patch+json")

    def _done(self, method: str, path: str, body: dict, status: int, *kind: str) -> dict:
        reply = self.call(method, path, body, *kind)
        if reply.status != status:
            raise OSError(f"{method} {path}: {reply.status} {reply.body.decode()}")
        return reply.json()

    def _run(
        self, program: str, *arguments: str | Path, text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        argv = [self.programs[program], "--kubeconfig", self.kubeconfig, *arguments]
        # This server's discovery cache is useless for the next server.
        env = {**os.environ, "KUBECACHEDIR": str(self.kubeconfig.parent / "cache")}
        return subprocess.run(
            argv, input=text, capture_output=True, text=True, check=False, env=env
        )


@contextmanager
def running(folder: Path) -> Iterator[Api]:
    api, processes = make(folder, free_ports(3))
    try:
        for process in processes:
            process.start()
        yield api
    finally:
        # No data are kept, so an orderly shutdown is unnecessary.
        for process in processes:
            process.kill()


def make(folder: Path, port: int) -> tuple[Api, list[Process]]:
    """Uses three consecutive ports, starting with `port`. Returns the processes in start order."""
    folder.mkdir(exist_ok=True)
    programs = resolve.ensure(PROGRAMS)
    token = secrets.token_hex(16)
    (folder / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
    key = folder / "service-accounts.key"
    # Not genpkey: the API server extracts the public key only from keys in this form.
    argv = [programs["openssl"], "ecparam", "-genkey", "-noout", "-name", "prime256v1"]
    subprocess.run([*argv, "-out", key], check=True, capture_output=True)
    api = Api(_kubeconfig(folder, port + 2, token), programs)
    clients, peers = (f"http://{HOST}:{port + index}" for index in range(2))
    etcd = [
        programs["etcd"],
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
    ]
    server = [
        programs["kube-apiserver"],
        f"--etcd-servers={clients}",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        f"--secure-port={port + 2}",
        # The API server creates its own certificate there.
        f"--cert-dir={folder}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        # As in clusters, where Pod Security decides who may run privileged pods.
        "--allow-privileged=true",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        # The plugin requires service accounts, which only a controller creates.
        "--disable-admission-plugins=ServiceAccount",
        # The "kubernetes" Service would get a loopback address, which the API server rejects.
        "--endpoint-reconciler-type=none",
    ]

    def ready() -> bool:
        try:
            return api.call("GET", "/readyz").status == 200
        except (OSError, http.client.HTTPException):
            return False

    # The API server waits for etcd by itself.
    return api, [Process("etcd", etcd, folder), Process("kube-apiserver", server, folder, ready)]


def _kubeconfig(folder: Path, port: int, token: str) -> Path:
    cluster = {
        "server": f"https://{HOST}:{port}",
        "certificate-authority": str(folder / "apiserver.crt"),
    }
    file = folder / "kubeconfig"
    # JSON is YAML (YAML 1.2, section 1.3).
    configuration = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    file.write_text(json.dumps(configuration))
    return file
