"""A real Kubernetes API server on loopback, with its etcd: no nodes, no controllers, no scheduler.

It judges and keeps objects as in a cluster (schemas, defaults, immutable fields, Pod Security), and
nothing acts on them. The fixture `api` starts one for the whole run.
"""

import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from stack import eventually
from stack.ports import free_ports
from tools import resolve

PROGRAMS = ("etcd", "kube-apiserver", "kubectl", "helm", "openssl")

START = 180.0
"""Longest time in seconds for a start; most of it the API server writes its first objects."""


def pod_security(level: str) -> dict[str, str]:
    """Labels of a namespace: pods that are not of the level are refused, templates of such pods warned of."""
    return {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "warn", "audit")}


@dataclass(frozen=True)
class Api:
    """A running API server."""

    kubeconfig: Path
    programs: dict[str, Path]

    def kubectl(self, *arguments: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
        """Runs kubectl; the caller judges the result."""
        return self._run("kubectl", *arguments, text=text)

    def helm(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Runs Helm; the caller judges the result."""
        return self._run("helm", *arguments)

    def get(self, *arguments: str) -> dict:
        """What `kubectl get` finds."""
        found = self.kubectl("get", *arguments, "--output", "json")
        assert found.returncode == 0, found.stderr
        return json.loads(found.stdout)

    @contextmanager
    def namespace(self, level: str = "restricted") -> Iterator[str]:
        """A namespace of its own, with a level of Pod Security."""
        name = f"test-{secrets.token_hex(4)}"
        metadata = {"name": name, "labels": pod_security(level)}
        created = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        result = self.kubectl("create", "--filename", "-", text=json.dumps(created))
        assert result.returncode == 0, result.stderr
        try:
            yield name
        finally:
            # The ports of nodes belong to no namespace: the next test may ask for the same.
            self.kubectl("delete", "service", "--all", "--namespace", name)

    def _run(
        self, program: str, *arguments: str | Path, text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        argv = [self.programs[program], "--kubeconfig", self.kubeconfig, *arguments]
        # What they learn of this server is of no use to the next one.
        env = {**os.environ, "KUBECACHEDIR": str(self.kubeconfig.parent / "cache")}
        return subprocess.run(
            argv, input=text, capture_output=True, text=True, check=False, env=env
        )


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """An API server that every test may use, each with namespaces of its own."""
    folder = tmp_path_factory.mktemp("apiserver")
    programs = resolve.ensure(PROGRAMS)
    first = free_ports(3)
    token = secrets.token_hex(16)
    (folder / "tokens.csv").write_text(f'{token},test,test,"system:masters"\n')
    _service_account_key(programs["openssl"], folder)
    with ExitStack() as stack:
        etcd = [programs["etcd"], *_etcd_flags(folder, first)]
        stack.enter_context(_process(etcd, folder / "etcd.log"))
        server = [programs["kube-apiserver"], *_server_flags(folder, first)]
        process = stack.enter_context(_process(server, folder / "kube-apiserver.log"))
        running = Api(_kubeconfig(folder, first + 2, token), programs)

        def ready() -> bool:
            log = (folder / "kube-apiserver.log").read_text()
            assert process.poll() is None, log[-3000:]
            return running.kubectl("get", "--raw", "/readyz").returncode == 0

        eventually(ready, patience=START, pause=0.5)
        yield running


@contextmanager
def _process(argv: list[str | Path], log: Path) -> Iterator[subprocess.Popen]:
    """A child that ends with the test run."""
    with log.open("wb") as output, subprocess.Popen(argv, stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            # Nothing of it is kept, so there is nothing to end in order.
            process.kill()


def _etcd_flags(folder: Path, first: int) -> list[str]:
    clients, peers = (f"http://127.0.0.1:{port}" for port in (first, first + 1))
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
    ]


def _server_flags(folder: Path, first: int) -> list[str]:
    key = folder / "service-accounts.key"
    return [
        f"--etcd-servers=http://127.0.0.1:{first}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={first + 2}",
        # It makes itself a certificate there.
        f"--cert-dir={folder}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        # As in clusters, where Pod Security says who may.
        "--allow-privileged=true",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        # It asks for service accounts that only a controller makes.
        "--disable-admission-plugins=ServiceAccount",
        # The Service "kubernetes" would have an address of loopback, which is refused.
        "--endpoint-reconciler-type=none",
    ]


def _service_account_key(openssl: Path, folder: Path) -> None:
    # Not genpkey: the API server takes the public part only out of keys in this form.
    argv = [openssl, "ecparam", "-genkey", "-noout", "-name", "prime256v1"]
    argv += ["-out", folder / "service-accounts.key"]
    subprocess.run(argv, check=True, capture_output=True)


def _kubeconfig(folder: Path, port: int, token: str) -> Path:
    cluster = {
        "server": f"https://127.0.0.1:{port}",
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
