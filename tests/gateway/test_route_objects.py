"""HTTPRoutes and GRPCRoutes of a real API server, served by the real Envoy while they change."""

import base64
import json
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from gateway.test_mtls import GATEWAY, files, flags
from gateway.test_route_changes import MAP, Routes
from stack import eventually
from stack.apiserver import Api, own_address
from stack.credentials import Authority, SecretFolder, authority, certificate
from stack.gateway import Gateway, gateway_to
from stack.http import Reply, ask
from stack.load import Load
from stack.ports import free_ports
from stack.rendering import config_maps, documents
from stack.replica import Server
from support import gateway_api
from support.slices import READY, Agents, EndpointsAgent, Slices, Wire

GROUP = "gateway.networking.k8s.io"
VALUES = {"routeObjects": {"enabled": True, "allowedNamespaces": "All"}}
KINDS = {"GatewayClass", "Gateway"}


@pytest.fixture(scope="module")
def definitions(api: Api) -> None:
    """Creates the Gateway API definitions on the API server."""
    define(api)


def define(api: Api) -> None:
    files = gateway_api.definitions()
    established = ("wait", "--for=condition=Established", "crd", "--all")
    for arguments in (("apply", "--server-side", "--filename", files), established):
        done = api.kubectl(*arguments)
        assert done.returncode == 0, done.stderr


@dataclass
class Objects(Routes):
    """A Gateway object, and the agent and Envoy that follow it."""

    other: Slices
    more: dict = field(default_factory=dict)
    """Additional values, apart from the routes' values."""

    def apply(self, *objects: dict, namespace: str = "") -> None:
        """Writes objects, by default in the gateway's namespace."""
        where = ("--namespace", namespace or self.slices.namespace)
        text = yaml.safe_dump_all(objects)
        done = self.slices.api.kubectl("apply", *where, "--filename", "-", text=text)
        assert done.returncode == 0, done.stderr

    def delete(self, *names: str, namespace: str = "") -> None:
        """Deletes an object by its kind and name."""
        where = ("--namespace", namespace or self.slices.namespace)
        done = self.slices.api.kubectl("delete", *names, *where)
        assert done.returncode == 0, done.stderr

    def route_object(
        self, name: str, *rules: dict, kind: str = "HTTPRoute", **spec: object
    ) -> dict:
        """Returns a route that is attached to the Gateway."""
        parent = {"name": "edge", "namespace": self.slices.namespace}
        spec = {"parentRefs": [parent], "rules": list(rules), **spec}
        metadata = {"name": name}
        return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "spec": spec}

    def conditions(self, kind: str, name: str, namespace: str = "") -> dict[str, str]:
        """Returns the reasons of an object's conditions, by type."""
        found = self.slices.api.get(kind, name, "--namespace", namespace or self.slices.namespace)
        status = found.get("status", {})
        entries = [*status.get("parents", []), *status.get("ancestors", [])]
        parents = [each["conditions"] for each in entries]
        return {
            each["type"]: each["reason"]
            for each in chain(status.get("conditions", []), *parents)
            if each.get("observedGeneration") == found["metadata"]["generation"]
        }

    def expect(self, kind: str, name: str, namespace: str = "", **reasons: str) -> None:
        """Waits until the status contains these reasons."""
        known = lambda: self.conditions(kind, name, namespace)
        eventually(lambda: reasons.items() <= known().items(), f"{reasons}, not {known()}")

    def rendered_objects(self) -> list[dict]:
        """Returns all objects that the chart renders."""
        return documents("gateway", values=self.values())

    def values(self) -> Path:
        """Returns the file with the chart's values."""
        file = self.folder / "objects.yaml"
        file.write_text(yaml.safe_dump({**VALUES, **self.more}))
        return file

    def start(self) -> None:
        """Writes the rendered ConfigMap, and writes the rendered objects under different names."""
        data = config_maps(values=self.values())[1].items()
        self.write({key: text.replace("/run/corelane", str(self.folder)) for key, text in data})
        rendered = [each for each in self.rendered_objects() if each["kind"] in KINDS]
        assert {each["kind"] for each in rendered} == KINDS
        for each in rendered:
            name = self.slices.namespace if each["kind"] == "GatewayClass" else "edge"
            each["metadata"] = {"name": name}
            if each["kind"] == "Gateway":
                each["spec"]["gatewayClassName"] = self.slices.namespace
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "edge"}}
        self.apply(*rendered, {**service, "spec": {"ports": [{"port": 80}]}})

    @contextmanager
    def agent(self) -> Iterator[EndpointsAgent]:
        """Starts an agent, which is killed at the end."""
        here = self.slices.namespace
        (pods,) = (it for it in self.rendered_objects() if it["kind"] == "Deployment")
        (container,) = pods["spec"]["template"]["spec"]["initContainers"]
        given = [each for each in container["args"] if each.startswith("--gateway")]
        assert len(given) == 3 + 2 * ("tls" in self.more), given
        own = [
            each.replace("prod/", f"{here}/").replace("corelane-gateway", "edge") for each in given
        ]
        flags = (f"--routes={here}/{MAP}", f"--envoy-admin=127.0.0.1:{self.admin}", *own)
        with self.agents.run(None, *flags) as agent:
            yield agent

    @contextmanager
    def envoy(self) -> Iterator[Gateway]:
        """Starts Envoy with the parts that do not depend on routes."""
        upstream = {"upstream": {"discovery": "eds"}, "admin": {"port": self.admin}}
        values = {**VALUES, **self.more, **upstream}
        with gateway_to([], self.folder, values, dynamic=True) as gateway:
            yield gateway


@pytest.fixture
def objects(api: Api, wire: Wire, tmp_path: Path, definitions: None) -> Iterator[Objects]:
    """Yields two namespaces, and a Gateway in the first; no process is running yet."""
    with api.namespace() as namespace, api.namespace() as other:
        agents = Agents(tmp_path, namespace, wire)
        slices = Slices(api, namespace), Slices(api, other)
        found = Objects(slices[0], tmp_path, agents, free_ports(1), slices[1])
        found.start()
        yield found
        found.delete("gatewayclass", namespace)


@pytest.fixture
def served(start: Callable[..., Server], objects: Objects) -> Callable[..., dict]:
    """Starts a Service with one replica; returns its reference for rules."""

    def serve(
        name: str, slices: Slices | None = None, protocol: str = "", more: Sequence[object] = ()
    ) -> dict:
        slices = slices or objects.slices
        server = start("--lanes", "1", *more, replica=name, address=own_address())
        ports = (urlsplit(server.url).port, urlsplit(server.admin).port)
        slices.put(name, (own_address(), READY), ports=ports, service=name)
        port = {"name": "http", "port": 80, "appProtocol": protocol or "http"}
        spec = {"clusterIP": "None", "ports": [port, {"name": "admin", "port": 81}]}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
        objects.apply(service, namespace=slices.namespace)
        return {"name": name, "namespace": slices.namespace, "port": 80}

    return serve


def rule(*backends: dict, path: str = "/", **more: object) -> dict:
    """Returns a rule for a path prefix."""
    matches = [{"path": {"type": "PathPrefix", "value": path}}]
    return {"matches": matches, "backendRefs": list(backends), **more}


def test_routes_come_change_and_go_without_a_lost_request(
    objects: Objects, served: Callable[..., dict]
) -> None:
    one, two = served("one"), served("two")
    objects.apply(objects.route_object("one", rule(one)))
    with objects.agent() as agent:
        agent.wait_until_ready()
        with objects.envoy() as gateway, Load(gateway.url, clients=4) as load:
            here = objects.slices.namespace
            objects.expect("gatewayclass", here, Accepted="Accepted")
            objects.expect("gateway", "edge", Accepted="Accepted", Programmed="Programmed")
            objects.expect("httproute", "one", Accepted="Accepted", ResolvedRefs="ResolvedRefs")
            (address,) = objects.slices.api.get("gateway", "edge", "-n", here)["status"][
                "addresses"
            ]
            service = objects.slices.api.get("service", "edge", "-n", here)["spec"]
            assert address == {"type": "IPAddress", "value": service["clusterIP"]}
            # A more specific path of another route, to a cluster that is new to Envoy.
            objects.apply(objects.route_object("two", rule(two, path="/hello")))
            load.wait_for(50, "two")
            objects.expect("httproute", "two", Accepted="Accepted")
            # The same prefix: the older route has priority.
            objects.apply(objects.route_object("one", rule(one, path="/hello")))
            load.wait_for(50, "one")
            objects.apply(
                objects.route_object("one", rule({**one, "weight": 1}, {**two, "weight": 1}))
            )
            objects.delete("httproute", "two")
            load.wait_for(50, "one")
            load.wait_for(50, "two")
            # Envoy removes the cluster of `one`, which no longer receives requests.
            objects.apply(objects.route_object("one", rule(two, path="/hello")))
            load.wait_for(50, "two")
            gone = [each for each in objects.folder.glob(f"{here}_one_80.json")]
            eventually(lambda: not any(map(Path.exists, gone)), "a removed cluster")
            reply = ask(gateway.url, "/other")
            assert (reply.status, reply.headers["content-type"]) == (
                404,
                "application/problem+json",
            )
        assert not load.failures, load.failures[:10]


def policy(service: str, **validation: object) -> dict:
    """Returns a BackendTLSPolicy for a Service, with the CAs in the ConfigMap `roots`."""
    kind = {"apiVersion": f"{GROUP}/v1", "kind": "BackendTLSPolicy"}
    references = [{"group": "", "kind": "ConfigMap", "name": "roots"}]
    spec = {
        "targetRefs": [{"group": "", "kind": "Service", "name": service}],
        "validation": {"caCertificateRefs": references, **validation},
    }
    return {**kind, "metadata": {"name": service}, "spec": spec}


def clusters(gateway: Gateway) -> Reply:
    return ask(gateway.admin, "/config_dump?resource=dynamic_active_clusters")


def roots(*trusted: Authority) -> dict:
    """Returns a ConfigMap with CAs."""
    data = {"ca.crt": "".join(each.certificate.decode() for each in trusted)}
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    return {**kind, "metadata": {"name": "roots"}, "data": data}


def test_a_policy_decides_what_replicas_must_prove(
    objects: Objects, served: Callable[..., dict], tmp_path: Path
) -> None:
    ca, other = (authority(tmp_path, name) for name in ("ca", "other"))
    secret, identity = SecretFolder(tmp_path / "replica"), "spiffe://shop.example/web"
    secret.put(files(ca.issue("DNS:web.example", f"URI:{identity}"), ca))
    paths = ("--tls.certificate", secret.path / "tls.crt", "--tls.key", secret.path / "tls.key")
    objects.apply(
        objects.route_object("a", rule(served("web", more=paths))),
        roots(ca),
        policy("web", hostname="web.example"),
    )
    uri = {"type": "URI", "uri": identity}
    with objects.agent() as agent:
        agent.wait_until_ready()
        with objects.envoy() as gateway:
            judged = lambda **reasons: objects.expect("backendtlspolicy", "web", **reasons)
            file = tmp_path / "certificates" / f"policy_{objects.slices.namespace}_web.json"

            def answers(status: int) -> None:
                eventually(lambda: ask(gateway.url, "/hello").status == status, str(status))

            answers(200)
            judged(Accepted="Accepted", ResolvedRefs="ResolvedRefs")
            with Load(gateway.url, clients=2) as load:
                before = file.read_text()
                objects.apply(roots(ca, other))
                eventually(lambda: file.read_text() != before, "both CAs")
                load.wait_for(50, "web")
                objects.apply(policy("web", hostname="a.example", subjectAltNames=[uri]))
                eventually(lambda: identity.encode() in clusters(gateway).body, "the new name")
                load.wait_for(50, "web")
            assert not load.failures, load.failures[:10]
            objects.apply(policy("web", hostname="a.example"))
            answers(503)
            objects.apply(policy("web", hostname="web.example"))
            answers(200)
            objects.delete("configmap", "roots")
            answers(500)
            judged(Accepted="NoValidCACertificate", ResolvedRefs="InvalidCACertificateRef")
            objects.expect("httproute", "a", ResolvedRefs="InvalidBackendTLS")
            eventually(lambda: not file.exists(), "no file")
            objects.apply(roots(other))
            judged(Accepted="Accepted", ResolvedRefs="ResolvedRefs")
            line = other.certificate.decode().splitlines()[1]
            eventually(lambda: file.exists() and line in file.read_text(), "the other CA")
            # Open connections would continue, but this replaces the cluster.
            objects.apply(policy("web", hostname="web.example", subjectAltNames=[uri]))
            answers(503)
            # Without a policy, the gateway does not use TLS.
            objects.delete("backendtlspolicy", "web")
            answers(400)


def test_policies_need_not_be_defined(objects: Objects, served: Callable[..., dict]) -> None:
    """Gateway API before 1.4 does not define them."""
    objects.delete("crd", f"backendtlspolicies.{GROUP}")
    try:
        objects.apply(objects.route_object("a", rule(served("web"))))
        with objects.agent() as agent:
            agent.wait_until_ready()
            objects.expect("httproute", "a", Accepted="Accepted", ResolvedRefs="ResolvedRefs")
    finally:
        define(objects.slices.api)


def test_replicas_prove_the_identity_of_their_service(
    objects: Objects, served: Callable[..., dict], tmp_path: Path
) -> None:
    ca, here = authority(tmp_path, "ca"), objects.slices.namespace
    mine, yours = (SecretFolder(tmp_path / name) for name in ("mine", "yours"))
    mine.put(files(ca.issue(GATEWAY), ca))
    yours.put(files(ca.issue(f"URI:spiffe://cluster.local/ns/{here}/sa/right"), ca))
    paths = {"folder": str(mine.path), "sds": str(objects.folder)}
    objects.more = {"mtls": {"enabled": True, "files": paths}}
    objects.start()
    right, wrong = (served(name, more=flags(yours)) for name in ("right", "wrong"))
    rules = rule(right, path="/hello"), rule(wrong, path="/div")
    objects.apply(objects.route_object("both", *rules))
    with objects.agent() as agent:
        agent.wait_until_ready()
        with objects.envoy() as gateway:
            eventually(lambda: ask(gateway.url, "/hello").status == 200, "the right replica")
            eventually(lambda: ask(gateway.url, "/div/4").status == 503, "the wrong replica")
            refused = f"cluster.{here}_wrong_80.ssl.fail_verify_san"
            eventually(
                lambda: ask(gateway.url, "/div/4").status == 503 and gateway.counted(refused)
            )
            # A policy changes how replicas must authenticate, but not how the gateway does.
            identity = {"type": "URI", "uri": f"spiffe://cluster.local/ns/{here}/sa/right"}
            named = policy("wrong", hostname="right.example", subjectAltNames=[identity])
            objects.apply(roots(ca), named)
            eventually(lambda: ask(gateway.url, "/div/4").status == 200, "an admitted replica")


def test_a_grant_that_is_revoked_ends_the_way_to_its_service(
    objects: Objects, served: Callable[..., dict]
) -> None:
    store, web = served("store", objects.other), served("web")
    grant = {
        "from": [{"group": GROUP, "kind": "HTTPRoute", "namespace": objects.slices.namespace}],
        "to": [{"group": "", "kind": "Service", "name": "store"}],
    }
    kind = {"apiVersion": f"{GROUP}/v1beta1", "kind": "ReferenceGrant"}
    objects.apply(
        objects.route_object("a", rule(store, path="/store"), rule(web), hostnames=["a.example"])
    )
    with objects.agent() as agent:
        agent.wait_until_ready()
        with objects.envoy() as gateway:

            def status(path: str) -> int:
                return ask(gateway.url, path, headers={"host": "a.example"}).status

            objects.expect("httproute", "a", Accepted="Accepted", ResolvedRefs="RefNotPermitted")
            eventually(lambda: status("/hello") == 200, "the other rule")
            assert status("/store") == 500
            objects.apply(
                {**kind, "metadata": {"name": "a"}, "spec": grant},
                namespace=objects.other.namespace,
            )
            # The server does not have this path.
            eventually(lambda: status("/store") == 404, "the Service of the other namespace")
            objects.expect("httproute", "a", ResolvedRefs="ResolvedRefs")
            objects.delete("referencegrant", "a", namespace=objects.other.namespace)
            eventually(lambda: status("/store") == 500, "no way")
            objects.expect("httproute", "a", ResolvedRefs="RefNotPermitted")
            assert status("/hello") == 200


def test_two_agents_write_a_status_once(objects: Objects, served: Callable[..., dict]) -> None:
    objects.apply(objects.route_object("a", rule(served("web"))))
    now = {"lastTransitionTime": "2026-01-01T00:00:00Z", "message": "", "reason": "Accepted"}
    conditions = [{"type": "Accepted", "status": "True", **now}]
    other = {"parentRef": {"name": "other"}, "controllerName": "example.com/other"}
    foreign = {**other, "conditions": conditions}
    patch = json.dumps({"status": {"parents": [foreign]}})
    where = ("--namespace", objects.slices.namespace)
    done = objects.slices.api.kubectl(
        "patch",
        "httproute",
        "a",
        *where,
        "--subresource=status",
        "--type=merge",
        f"--patch={patch}",
    )
    assert done.returncode == 0, done.stderr
    with objects.agent() as first, objects.agent() as second:
        for agent in (first, second):
            agent.wait_until_ready()
        objects.expect("httproute", "a", Accepted="Accepted")
        objects.expect("gateway", "edge", Programmed="Programmed")
        expression = {"path": {"type": "RegularExpression", "value": "/.*"}}
        objects.apply(objects.route_object("b", {**rule(), "matches": [expression]}))
        objects.expect("httproute", "b", Accepted="UnsupportedValue")
        written = [
            (each["object"], each["name"])
            for agent in (first, second)
            for each in _lines(agent, "status written")
        ]
        (known, own) = objects.slices.api.get("httproute", "a", *where)["status"]["parents"]
        assert (known["controllerName"], own["controllerName"]) == (
            foreign["controllerName"],
            "corelane/gateway-agent",
        )
        # The Gateway is written again because its number of routes changes.
        assert sorted(written) == [
            ("Gateway", "edge"),
            ("GatewayClass", objects.slices.namespace),
            ("HTTPRoute", "a"),
            ("HTTPRoute", "b"),
        ]


def test_calls_of_grpc_and_upgrades_reach_their_services(
    objects: Objects, served: Callable[..., dict]
) -> None:
    plain, h2c = served("plain"), served("h2c", protocol="kubernetes.io/h2c")
    method = {"method": {"service": "hello"}}
    objects.apply(
        objects.route_object(
            "web", rule(plain), rule(h2c, path="/hello"), hostnames=["web.example"]
        ),
        objects.route_object(
            "calls",
            {"matches": [method], "backendRefs": [plain]},
            kind="GRPCRoute",
            hostnames=["calls.example"],
        ),
    )
    with objects.agent() as agent:
        agent.wait_until_ready()
        with objects.envoy() as gateway:
            objects.expect("grpcroute", "calls", Accepted="Accepted", ResolvedRefs="ResolvedRefs")
            web = lambda: ask(gateway.url, "/hello", headers={"host": "web.example"})
            eventually(lambda: web().replica == "h2c", "a reply by HTTP/2")
            call = lambda path: ask(gateway.url, path, headers={"host": "calls.example"})
            eventually(lambda: call("/hello").replica == "plain", "a reply by HTTP/2")
            assert call("/other").status == 404
            names = ("plain_80_http2", "h2c_80_http2", "plain_80")
            here = objects.slices.namespace
            found = json.loads(clusters(gateway).body)
            known = {each["cluster"]["name"]: each["cluster"] for each in found["configs"]}
            assert set(known) == {f"{here}_{name}" for name in names}


def secret(name: str, chain: Path, key: Path) -> dict:
    """Returns a Secret with a certificate."""
    data = {"tls.crt": chain.read_bytes(), "tls.key": key.read_bytes()}
    data = {key: base64.b64encode(text).decode() for key, text in data.items()}
    kind = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}
    return {**kind, "metadata": {"name": name}, "data": data}


def opened(port: int, host: str) -> ssl.SSLSocket:
    """Opens a connection for a host, and accepts any certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection(("127.0.0.1", port), timeout=20)
    return context.wrap_socket(plain, server_hostname=host)


def presents(port: int, host: str, chain: Path) -> bool:
    """Whether new connections for a host receive a certificate."""
    with opened(port, host) as connection:
        return connection.getpeercert(binary_form=True) == ssl.PEM_cert_to_DER_cert(
            chain.read_text()
        )


def test_a_listener_has_the_certificate_of_another_namespace_while_a_grant_permits_it(
    objects: Objects, served: Callable[..., dict], tmp_path: Path
) -> None:
    pairs = {name: certificate(tmp_path, name, "ec") for name in ("own", "web", "renewed")}
    here, there, port = objects.slices.namespace, objects.other.namespace, free_ports(1)
    places = dict(zip(("certificate", "key"), map(str, pairs["own"]), strict=True))
    files = {**places, "sds": f"{tmp_path}/certificate.yaml"}
    objects.more["listener"] = {"address": "127.0.0.1"}
    objects.more["tls"] = {"enabled": True, "plain": "serve", "port": port, "files": files}
    objects.start()
    gateway_object = objects.slices.api.get("gateway", "edge", "--namespace", here)
    (https,) = (it for it in gateway_object["spec"]["listeners"] if it["name"] == "https")
    reference = {"certificateRefs": [{"name": "web", "namespace": there}], "mode": "Terminate"}
    web = {**https, "name": "web", "hostname": "web.example", "tls": reference}
    spec = {**gateway_object["spec"], "listeners": [*gateway_object["spec"]["listeners"], web]}
    kind = {"apiVersion": f"{GROUP}/v1", "kind": "Gateway", "metadata": {"name": "edge"}}
    objects.apply({**kind, "spec": spec}, objects.route_object("a", rule(served("one"))))
    objects.apply(secret("web", *pairs["web"]), namespace=there)
    grant = {
        "from": [{"group": GROUP, "kind": "Gateway", "namespace": here}],
        "to": [{"group": "", "kind": "Secret", "name": "web"}],
    }
    kind = {"apiVersion": f"{GROUP}/v1beta1", "kind": "ReferenceGrant", "metadata": {"name": "a"}}

    def resolved(reason: str) -> None:
        def found() -> str:
            status = objects.slices.api.get("gateway", "edge", "--namespace", here)["status"]
            (own,) = (it for it in status["listeners"] if it["name"] == "web")
            return {it["type"]: it["reason"] for it in own["conditions"]}["ResolvedRefs"]

        objects.expect("gateway", "edge", Programmed="Programmed")
        eventually(lambda: found() == reason, f"{reason}, not {found()}")

    def shown(host: str, name: str) -> None:
        eventually(lambda: presents(port, host, pairs[name][0]), f"{name} for {host}")

    with objects.agent() as agent:
        agent.wait_until_ready()
        with objects.envoy() as gateway, Load(gateway.url, clients=2) as load:
            resolved("RefNotPermitted")
            shown("web.example", "own")
            with opened(port, "other.example") as kept:
                objects.apply({**kind, "spec": grant}, namespace=there)
                resolved("ResolvedRefs")
                shown("web.example", "web")
                shown("other.example", "own")
                objects.apply(secret("web", *pairs["renewed"]), namespace=there)
                shown("web.example", "renewed")
                objects.apply(secret("web", pairs["web"][0], pairs["own"][1]), namespace=there)
                resolved("InvalidCertificateRef")
                objects.apply(secret("web", *pairs["web"]), namespace=there)
                shown("web.example", "web")
                objects.delete("referencegrant", "a", namespace=there)
                resolved("RefNotPermitted")
                shown("web.example", "own")
                assert not list((tmp_path / "certificates").iterdir())
                # Listeners have changed five times during this connection.
                kept.sendall(b"GET /hello HTTP/1.1\r\nHost: other.example\r\n\r\n")
                assert kept.recv(65536).startswith(b"HTTP/1.1 200 ")
            load.wait_for(50, "one")
        assert not load.failures, load.failures[:10]


def _lines(agent: EndpointsAgent, words: str) -> list[dict]:
    """Returns the current log lines that contain these words."""
    return [json.loads(line) for line in agent.log.read_text().splitlines() if words in line]
