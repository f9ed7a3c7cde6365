"""Mutual TLS with cert-manager's controllers, whose Secrets reach the pods through the kubelet."""

import base64
import json
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deploy import images
from e2e import test_disruptions, test_rollouts
from e2e.conftest import apply
from gateway.test_mtls import client, rejected
from stack import becomes, eventually
from stack.credentials import Pair
from stack.http import ask
from stack.load import Load
from stack.process import running
from support import gateway_api
from support.kubernetes import COMMAND, ROLL_OUT, Cluster, Pod
from support.pinning import processes_of
from support.raw import connect
from support.releases import Release
from tools.resolve import tool

REQUESTS = 20_000
"""Requests during each rotation, none of which may fail."""

FOLDERS = {"server": "/etc/corelane-tls", "gateway": "/etc/envoy-mtls"}
CAS = ("old", "new")
GROUP = "cert-manager.io"


def kind(name: str, of: str, spec: dict) -> dict:
    """An object of cert-manager."""
    return {"apiVersion": f"{GROUP}/v1", "kind": of, "metadata": {"name": name}, "spec": spec}


def issuing(name: str) -> list[dict]:
    """A root CA, and the issuer that uses it."""
    issuer = {"name": "self-signed", "kind": "Issuer", "group": GROUP}
    key = {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"}
    ca = {"isCA": True, "commonName": name, "secretName": f"ca-{name}", "privateKey": key}
    return [
        kind(f"ca-{name}", "Certificate", {**ca, "issuerRef": issuer}),
        kind(name, "Issuer", {"ca": {"secretName": f"ca-{name}"}}),
    ]


def counted(page: str, *words: str) -> float:
    """Sum of the series that contain all words."""
    lines = ask(page).body.decode().splitlines()
    found = [line for line in lines if line[:1] != "#" and all(word in line for word in words)]
    return sum(float(line.partition(" # ")[0].rpartition(" ")[2]) for line in found)


def secret(cluster: Cluster, name: str) -> dict[str, bytes]:
    """The files in a Secret."""
    data = cluster.get("secret", name)["data"]
    return {key: base64.b64decode(value) for key, value in data.items()}


@dataclass
class Mesh:
    """A release with mutual TLS, whose connections last only two seconds."""

    release: Release
    issuer: str = CAS[0]
    rate: float = 0.0
    """About 60% of the requests per second that 16 clients reach."""

    def trust(self, *cas: str) -> None:
        """Writes the values with the issuer and these CAs."""
        bundle = b"".join(secret(self.release.cluster, f"ca-{name}")["tls.crt"] for name in cas)
        mtls = {"enabled": True, "issuer": {"name": self.issuer}, "caBundle": bundle.decode()}
        service = {
            "config": {"timeouts": {"connection_age": "2s"}},
            # TLS alone must refuse other pods and this machine.
            "networkPolicy": {"enabled": False},
        }
        self.release.values[-1].write_text(
            json.dumps({"global": {"mtls": mtls}, "service": service})
        )

    @contextmanager
    def loaded(self, share: float = 1.0) -> Iterator[Load]:
        """Sends at least the required number of requests, none of which may fail."""
        with self.release.load(rate=self.rate * share) as load:
            yield load
            load.wait_for(max(2_000, REQUESTS - load.total), patience=COMMAND)
        print(f"{load.total} requests at {self.rate * share:.0f}/s, {len(load.failures)} failed")
        assert not load.failures, load.failures[:10]

    @contextmanager
    def reloaded(self, *apps: str) -> Iterator[None]:
        """Waits until all pods of these apps use the files that the body changes."""
        cluster = self.release.cluster
        with ExitStack() as stack, ThreadPoolExecutor() as pool:
            waits = []
            for app in apps:
                for pod in cluster.ready_pods(app):
                    page = f"http://{pod.ip}:8081/metrics"
                    words = ("corelane_tls_reloads_total", 'result="success"')
                    if app == "gateway":
                        stats = stack.enter_context(cluster.forwarded(pod.name, 9902))
                        page = f"{stats}/stats/prometheus"
                        words = ("ssl_context_update_by_sds", 'envoy_cluster_name="server"')
                    waits.append((pod, app, page, words, counted(page, *words)))
            yield
            list(pool.map(lambda each: _wait(*each), waits))


def _wait(pod: Pod, app: str, page: str, words: tuple[str, ...], before: float) -> None:
    wanted = f"new files in {pod.name}"
    eventually(lambda: counted(page, *words) > before, wanted, patience=ROLL_OUT, pause=0.2)
    # The kubelet replaces this link. Another machine's /proc is not visible here.
    pids = [it.pid for it in processes_of(pod.uid) if not it.machine]
    links = [Path(f"/proc/{pid}/root{FOLDERS[app]}/..data") for pid in pids]
    if changed := [link.lstat().st_mtime for link in links if link.is_symlink()]:
        print(f"{pod.name} used the new files {time.time() - max(changed):.1f} s after the change")


@pytest.fixture(scope="module")
def mesh(deployed: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """Starts the controllers, and deploys the release with certificates from the old CA."""
    cluster, folder = deployed.cluster, tmp_path_factory.mktemp("mtls")
    definitions = gateway_api.module("github.com/cert-manager/cert-manager", "cert-manager")
    crds = ("--filename", str(definitions / "deploy/crds"))
    cluster.kubectl("apply", "--server-side", *crds)
    argv, environment = [tool("cert-manager")], cluster.environment
    with running("cert-manager", argv, folder, environment=environment):
        objects = [kind("self-signed", "Issuer", {"selfSigned": {}})]
        apply(cluster, [*objects, *(it for name in CAS for it in issuing(name))])
        issuers = [f"issuer/{name}" for name in CAS]
        cluster.kubectl("wait", *issuers, "--for=condition=Ready", f"--timeout={ROLL_OUT:.0f}s")
        made = Mesh(replace(deployed, values=[*deployed.values, folder / "mtls.yaml"]))
        made.trust(made.issuer)
        made.release.serve()
        begun = time.monotonic()
        with made.release.load(rate=None) as load:
            load.wait_for(5_000)
        made.rate = 0.6 * load.total / (time.monotonic() - begun)
        yield made
        deployed.serve()
    cluster.kubectl("delete", *crds)
    names = [*(f"ca-{name}" for name in CAS), *(f"{deployed.name}-{app}-mtls" for app in FOLDERS)]
    cluster.kubectl("delete", "secret", *names)


def refuses(replica: Pod, context: ssl.SSLContext, reason: str) -> None:
    """Asserts that the replica refuses this client for this reason."""
    page = f"http://{replica.ip}:8081/metrics"
    words = ("corelane_tls_handshakes_total", f'result="client_{reason}"')
    before = counted(page, *words)
    assert rejected(f"https://{replica.ip}:8080", context)
    becomes(lambda: counted(page, *words), before + 1)


def test_only_the_gateway_reaches_a_replica(mesh: Mesh, tmp_path: Path) -> None:
    release, cluster = mesh.release, mesh.release.cluster
    (replica, *_) = cluster.ready_pods("server")
    check = (release.program, "/corelane", "check")
    answered = cluster.run(*check, f"http://{release.name}-gateway/hello")
    assert answered.succeeded, answered.said
    words = ("--status", "400", "--body", "a plain HTTP request was sent to an HTTPS port")
    plain = cluster.run(*check, f"http://{replica.ip}:8080/hello", *words)
    assert plain.succeeded, plain.said
    found = {app: secret(cluster, f"{release.name}-{app}-mtls") for app in FOLDERS}
    pairs = {app: Pair(files["tls.crt"], files["tls.key"]) for app, files in found.items()}
    refuses(replica, client(tmp_path, None), "missing")
    refuses(replica, client(tmp_path, pairs["server"]), "not_allowed")
    own = client(tmp_path, pairs["gateway"])
    with own.wrap_socket(connect(f"https://{replica.ip}:8080")) as admitted:
        admitted.sendall(b"GET /hello HTTP/1.1\r\nhost: replica\r\n\r\n")
        assert admitted.recv(65536).startswith(b"HTTP/1.1 200")
    notes = release.helm("get", "notes", release.name).stdout
    for app in FOLDERS:
        assert f"cert-manager writes the Secret {release.name}-{app}-mtls" in notes
        assert f"URI:spiffe://cluster.local/ns/{cluster.namespace}/sa/{release.name}-{app}" in notes


def renew(cluster: Cluster, name: str) -> None:
    """Does what `cmctl renew` does."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    issuing = {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered"}
    issuing |= {"message": "renewed by the test", "lastTransitionTime": now}
    patch = [{"op": "add", "path": "/status/conditions/-", "value": issuing}]
    where = ("certificate", name, "--subresource=status", "--type=json")
    cluster.kubectl("patch", *where, "--patch", json.dumps(patch))


@pytest.mark.parametrize("app", FOLDERS)
def test_a_renewed_certificate_fails_no_request(mesh: Mesh, app: str) -> None:
    cluster, name = mesh.release.cluster, f"{mesh.release.name}-{app}"
    before = secret(cluster, f"{name}-mtls")
    with mesh.loaded(), mesh.reloaded(app):
        renew(cluster, name)
    after = secret(cluster, f"{name}-mtls")
    assert after["tls.key"] != before["tls.key"]
    if app == "server":
        wanted = ssl.PEM_cert_to_DER_cert(after["tls.crt"].decode())
        for pod in cluster.ready_pods(app):
            shown = ssl.get_server_certificate((pod.ip, 8080))
            assert ssl.PEM_cert_to_DER_cert(shown) == wanted


def test_a_replaced_ca_fails_no_request(mesh: Mesh, tmp_path: Path) -> None:
    cluster, old = mesh.release.cluster, mesh.issuer
    (new,) = set(CAS) - {old}
    files = secret(cluster, f"{mesh.release.name}-gateway-mtls")
    pods = {pod.uid for app in FOLDERS for pod in cluster.ready_pods(app)}
    with mesh.loaded() as load:
        for issuer, trusted in [(old, (old, new)), (new, (old, new)), (new, (new,))]:
            mesh.issuer = issuer
            mesh.trust(*trusted)
            with mesh.reloaded(*FOLDERS):
                mesh.release.upgrade()
            load.wait_for(REQUESTS // 6, patience=COMMAND)
    assert pods == {pod.uid for app in FOLDERS for pod in cluster.ready_pods(app)}
    replaced = client(tmp_path, Pair(files["tls.crt"], files["tls.key"]))
    for pod in cluster.ready_pods("server"):
        refuses(pod, replaced, "unknown")


def test_pods_come_and_go_without_a_failed_request(mesh: Mesh, tmp_path: Path) -> None:
    """A rollout, a rollback, a killed replica and a drained node, as without mutual TLS."""
    release, tag = mesh.release, images.load_as("server", "next")
    # During the drain, one replica receives all requests.
    with mesh.loaded(0.5):
        test_rollouts.test_a_new_image_and_configuration_and_the_way_back(release, tag, tmp_path)
        test_disruptions.test_a_server_that_is_killed(release)
        test_disruptions.test_a_node_that_is_drained(release)
