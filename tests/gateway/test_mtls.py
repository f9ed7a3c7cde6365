"""Mutual TLS between the real Envoy and real replicas: admission of clients, and renewal of
certificates and CAs under load.
"""

import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from stack import becomes, eventually
from stack.credentials import Authority, Pair, SecretFolder, authority
from stack.gateway import Gateway, endpoint, gateway_to
from stack.http import ask, replies
from stack.load import Load
from stack.ports import free_ports
from stack.process import running as process
from stack.programs import program
from stack.replica import Server
from support.exchanges import Exchanges, calls, events, messages, talks
from support.http2 import Http2Client
from support.raw import connect

ACCOUNT = "spiffe://cluster.local/ns/prod/sa"
GATEWAY = f"URI:{ACCOUNT}/corelane-gateway"
REPLICA = f"URI:{ACCOUNT}/corelane-server"

SSL = "cluster.server.ssl"
UPDATES = "cluster.server.client_ssl_socket_factory.ssl_context_update_by_sds"
SHORT = {"idleTimeout": "100ms", "health": {"interval": "100ms"}}
"""Values of a gateway whose connections end when they are idle."""
REFUSED = ("missing", "unknown", "expired", "not_allowed", "invalid")


def files(pair: Pair, *trusted: Authority) -> dict[str, bytes]:
    """Returns the content of a Secret."""
    ca = b"".join(each.certificate for each in trusted)
    return {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": ca}


def flags(folder: SecretFolder, *more: object) -> list[object]:
    """Returns the settings of a replica with this Secret."""
    names = {"certificate": "tls.crt", "key": "tls.key", "clients.ca": "ca.crt"}
    paths = [word for key, name in names.items() for word in (f"--tls.{key}", folder.path / name)]
    allow = ["--tls.clients.allow", f"{ACCOUNT}/corelane-gateway", "--tls.reload", "200ms"]
    return [*paths, *allow, "--drain.settle", "500ms", *more]


def values(folder: SecretFolder, **more: object) -> dict:
    """Returns the values of a gateway with this Secret."""
    mtls = {"enabled": True, "files": {"folder": str(folder.path)}}
    return {"mtls": mtls, "upstream": {"health": {"interval": "100ms"}}, **more}


@dataclass
class Mesh:
    """A gateway and its replicas, with their CA and Secrets."""

    ca: Authority
    gateway_secret: SecretFolder
    replica_secret: SecretFolder
    replicas: list[Server]
    gateway: Gateway

    def handshakes(self) -> int:
        """Number of the gateway's successful handshakes."""
        return self.gateway.counted(f"{SSL}.handshake")

    def reconnect(self) -> None:
        """Sends a request on a new connection."""
        becomes(lambda: self.gateway.counted("cluster.server.upstream_cx_active"), 0)
        assert ask(self.gateway.url, "/hello").status == 200

    def refusals(self) -> dict[str, float]:
        """Refusals by both sides."""
        names = ("connection_error", "fail_verify_san", "fail_verify_error")
        found = {name: self.gateway.counted(f"{SSL}.{name}") for name in names}
        for replica in self.replicas:
            found |= {(replica.name, reason): refused(replica, reason) for reason in REFUSED}
        return {name: count for name, count in found.items() if count}

    def renew(self, folder: SecretFolder, content: dict[str, bytes]) -> None:
        """Replaces a Secret and waits until its side uses it."""
        if folder is self.gateway_secret:
            changed = {it for it in content if (folder.path / it).read_bytes() != content[it]}
            # One update for the certificate, and one for the CA.
            updates = len(changed & {"tls.crt"}) + len(changed & {"ca.crt"})
            wanted = self.gateway.counted(UPDATES) + updates
            folder.put(content)
            return eventually(lambda: self.gateway.counted(UPDATES) >= wanted, "new files in Envoy")
        series = 'corelane_tls_reloads_total{result="success"}'
        before = [each.metrics()[series] for each in self.replicas]
        folder.put(content)
        for each, count in zip(self.replicas, before, strict=True):
            eventually(lambda each=each, count=count: each.metrics()[series] > count, each.name)


def refused(replica: Server, reason: str) -> float:
    """Number of clients that the replica refused for this reason."""
    end = f'result="client_{reason}"}}'
    found = replica.metrics().items()
    return sum(count for name, count in found if "tls_handshakes_total" in name and end in name)


@pytest.fixture
def mesh(start: Callable[..., Server], tmp_path: Path) -> Iterator[Callable[..., Mesh]]:
    """Starts two replicas with additional flags, and a gateway with additional values."""
    with ExitStack() as stack:

        def begin(*more: object, count: int = 2, **options: object) -> Mesh:
            ca = authority(tmp_path, "old")
            gateway, replica = (SecretFolder(tmp_path / name) for name in ("gateway", "replica"))
            gateway.put(files(ca.issue(GATEWAY), ca))
            replica.put(files(ca.issue(REPLICA), ca))
            own, names = flags(replica, *more), [f"replica-{number}" for number in range(count)]
            replicas = [start(*own, replica=name, scheme="https") for name in names]
            endpoints = [endpoint(each.url, each.admin) for each in replicas]
            running = stack.enter_context(
                gateway_to(endpoints, tmp_path, values(gateway, **options))
            )
            becomes(lambda: running.counted("cluster.server.membership_healthy"), count)
            return Mesh(ca, gateway, replica, replicas, running)

        yield begin


def route(name: str, match: dict, target: dict, service: dict, **more: object) -> dict:
    """Returns a route to a Service with one replica."""
    return {"name": name, "path": match, "service": {**service, "endpoints": [target]}, **more}


def client(folder: Path, pair: Pair | None) -> ssl.SSLContext:
    """Returns the TLS settings of a client with this certificate that trusts any server."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if pair:
        (folder / "client.pem").write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(folder / "client.pem")
    return context


def rejected(url: str, context: ssl.SSLContext) -> bool:
    """Whether a connection ends before the client has sent a request."""
    try:
        with context.wrap_socket(connect(url)) as connection:
            # With TLS 1.3, the server verifies the certificate after the client has finished the
            # handshake.
            return connection.recv(1) == b""
    except ssl.SSLError:
        return True


def test_only_the_gateway_reaches_replicas(mesh: Callable[..., Mesh], tmp_path: Path) -> None:
    running = mesh(upstream={**SHORT, "protocol": "auto", "idleTimeout": "30s"})
    http2 = Http2Client(running.gateway.url)
    for _ in range(4):
        assert ask(running.gateway.url, "/hello").status == 200
        assert ask(running.gateway.url, "/hello", "POST", body=b"x").status == 405
        assert http2.ask("/hello").status == 200
    http2.close()
    assert running.handshakes() > 0
    assert running.gateway.counted("cluster.server.upstream_cx_http2_total") > 0
    replica = running.replicas[0]
    other = authority(tmp_path, "other")
    for reason, pair in {
        "missing": None,
        "not_allowed": running.ca.issue(REPLICA),
        "unknown": other.issue(GATEWAY),
        "expired": running.ca.issue(GATEWAY, days=-1),
    }.items():
        assert rejected(replica.url, client(tmp_path, pair))
        becomes(lambda reason=reason: refused(replica, reason), 1)
    own = client(tmp_path, running.ca.issue(GATEWAY))
    with connect(replica.url) as plaintext:
        plaintext.sendall(b"GET /hello HTTP/1.1\r\nhost: replica\r\n\r\n")
        assert b"a plain HTTP request was sent to an HTTPS port" in plaintext.recv(65536)
    with own.wrap_socket(connect(replica.url)) as admitted:
        admitted.sendall(b"GET /hello HTTP/1.1\r\nhost: replica\r\n\r\n")
        assert admitted.recv(65536).startswith(b"HTTP/1.1 200")
    own.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.deprecated_call():
        own.minimum_version = own.maximum_version = ssl.TLSVersion.TLSv1_1
    assert rejected(replica.url, own)
    # Probes and metrics are exposed without TLS.
    assert ask(replica.admin, "/readyz").status == 200


def test_the_gateway_sends_nothing_to_others(start: Callable[..., Server], tmp_path: Path) -> None:
    """Replicas with certificates that anyone could have, each behind its own route."""
    ca, other = authority(tmp_path, "ca"), authority(tmp_path, "other")
    secret = SecretFolder(tmp_path / "gateway")
    secret.put(files(ca.issue(GATEWAY), ca))

    def proving(name: str, *names: str, by: Authority = ca, days: int = 30) -> list[object]:
        folder = SecretFolder(tmp_path / name)
        folder.put(files(by.issue(*names, days=days), ca))
        return flags(folder, "--lanes", "1")

    right = f"URI:{ACCOUNT}/right"
    kinds = {
        "right": (200, proving("right", right)),
        "named": (200, proving("named", "DNS:shop.internal")),
        "off": (200, ["--lanes", "1"]),
        "another": (503, proving("another", right)),
        "address": (503, proving("address", "IP:127.0.0.1", "DNS:address.prod.svc")),
        "untrusted": (503, proving("untrusted", f"URI:{ACCOUNT}/untrusted", by=other)),
        "expired": (503, proving("expired", f"URI:{ACCOUNT}/expired", days=-1)),
        "plaintext": (503, ["--lanes", "1"]),
    }
    said = {"named": {"identity": "shop.internal"}, "off": {"mtls": "off"}}
    replicas = {name: start(*more, replica=name) for name, (_, more) in kinds.items()}
    hello = {"path": "/hello"}
    routes = [
        route(name, {"exact": f"/{name}"}, endpoint(it.url, it.admin), service, rewrite=hello)
        for name, it in replicas.items()
        for service in [{"name": name, **said.get(name, {})}]
    ]
    with gateway_to([], tmp_path, values(secret, routes=routes)) as gateway:
        for name, (status, _) in kinds.items():
            healthy = f"cluster.prod-{name}-http.membership_healthy"
            becomes(lambda healthy=healthy: gateway.counted(healthy), 1)
            assert (name, ask(gateway.url, f"/{name}").status) == (name, status)
            posted = ask(gateway.url, f"/{name}", "POST", body=b"x").status
            assert (name, posted) == (name, 405 if status == 200 else 503)
        reasons = {"another": "san", "address": "san", "untrusted": "error", "expired": "error"}
        for name, reason in reasons.items():
            assert gateway.counted(f"cluster.prod-{name}-http.ssl.fail_verify_{reason}") > 0
        for name, (status, _) in kinds.items():
            found = replicas[name].metrics()
            served = [found[it] for it in found if it.startswith("corelane_requests_total")]
            assert (name, sum(served) > 0) == (name, status == 200)


def test_canaries_and_mirrors_prove_their_identity(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    """The replica of `wrong` has the certificate of another service."""
    ca, secret = authority(tmp_path, "ca"), SecretFolder(tmp_path / "gateway")
    secret.put(files(ca.issue(GATEWAY), ca))

    def target(name: str, identity: str, **more: object) -> dict:
        folder = SecretFolder(tmp_path / name)
        folder.put(files(ca.issue(f"URI:{ACCOUNT}/{identity}"), ca))
        replica = start(*flags(folder, "--lanes", "1"), replica=name)
        return {"name": name, "endpoints": [endpoint(replica.url, replica.admin)], **more}

    stable, canary = (target(name, name, weight=1) for name in ("stable", "canary"))
    mirrors = target("mirror", "mirror", percent=100), target("wrong", "stable", percent=100)
    routes = [
        {"name": path, "path": {"prefix": f"/{path}"}, "services": [stable, canary], "mirror": it}
        for path, it in zip(("hello", "div"), mirrors, strict=True)
    ]
    with gateway_to([], tmp_path, values(secret, routes=routes)) as gateway:
        count = lambda name, of: gateway.counted(f"cluster.prod-{name}-http.{of}")
        for name in ("stable", "canary", "mirror", "wrong"):
            becomes(lambda name=name: count(name, "membership_healthy"), 1)
        found = Counter(ask(gateway.url, "/hello").replica for _ in range(50))
        assert found.keys() == {"stable", "canary"}
        becomes(lambda: count("mirror", "upstream_rq_200"), 50)
        assert all(count(name, "ssl.handshake") for name in ("stable", "canary", "mirror"))
        # A refused mirror costs its original nothing.
        assert ask(gateway.url, "/div/4").status == 200
        eventually(lambda: count("wrong", "ssl.fail_verify_san"), "a refused mirror")
        assert count("wrong", "ssl.handshake") == count("wrong", "upstream_rq_200") == 0


@pytest.mark.parametrize(
    "each", [pytest.param(300), pytest.param(4000, marks=pytest.mark.nightly)], ids=str
)
def test_certificates_and_cas_are_renewed_without_a_failed_request(
    mesh: Callable[..., Mesh], tmp_path: Path, each: int
) -> None:
    """This many requests follow each step. Connections last one second, so that every step includes
    handshakes.
    """
    running = mesh("--timeouts.connection-age", "1s")
    gateway, replica = running.gateway_secret, running.replica_secret
    old, new = running.ca, authority(tmp_path, "new")
    mine, yours = old.issue(GATEWAY), old.issue(REPLICA)
    fresh = new.issue(GATEWAY), new.issue(REPLICA)
    steps = [
        [(gateway, files(mine, old))],
        [(replica, files(yours, old))],
        [(gateway, files(mine, old, new)), (replica, files(yours, old, new))],
        [(gateway, files(fresh[0], old, new)), (replica, files(fresh[1], old, new))],
        [(gateway, files(fresh[0], new)), (replica, files(fresh[1], new))],
    ]
    with Load(running.gateway.url, rate=600) as load:
        for step in steps:
            for folder, content in step:
                running.renew(folder, content)
            seen = running.handshakes()
            load.wait_for(each)
            eventually(lambda seen=seen: running.handshakes() >= seen + 4, "new connections")
    assert load.failures == []
    assert load.total >= 5 * each
    assert running.refusals() == {}
    # A side that has only a certificate from the old CA is rejected.
    assert rejected(running.replicas[0].url, client(tmp_path, mine))


def test_replicas_end_without_a_failed_request(mesh: Callable[..., Mesh]) -> None:
    running = mesh()
    with Load(running.gateway.url, rate=300) as load:
        for replica in running.replicas:
            replica.terminate()
            code, _ = replica.end()
            assert code == 0
            replica.start()
            load.wait_for(100, replica.name)
        first, second = running.replicas
        first.kill()
        load.wait_for(100, second.name)
        first.start()
        load.wait_for(100, first.name)
    assert load.failures == []
    # A connection to a killed replica may end during its handshake.
    assert running.refusals().keys() <= {"connection_error"}


def test_files_that_do_not_fit_are_not_taken(mesh: Callable[..., Mesh]) -> None:
    running = mesh(count=1, upstream=SHORT)
    gateway, secret, ca = running.gateway, running.gateway_secret, running.ca
    first, second = (files(ca.issue(GATEWAY), ca) for _ in range(2))

    def rejects(content: dict[str, bytes], name: str) -> None:
        """Writes files and waits until Envoy rejects the named one and keeps its own."""
        counter = f"sds.mtls-{name}.key_rotation_failed"
        before = gateway.counted(counter)
        secret.put(content)
        eventually(lambda: gateway.counted(counter) > before, f"{name} rejected")
        running.reconnect()

    mismatched = {**second, "tls.key": first["tls.key"]}
    rejects(mismatched, "certificate")
    # Envoy reads the two files in any order. A pair that fits would be accepted if it came first.
    rejects({**mismatched, "ca.crt": b"no certificate"}, "ca")
    # Envoy 1.40 rejects every new certificate until the CA's content also differs from the
    # content in use.
    rejects(second, "certificate")
    seen = gateway.counted(UPDATES)
    secret.put({**second, "ca.crt": second["ca.crt"] + b"\n"})
    eventually(lambda: gateway.counted(UPDATES) > seen, "files that fit")
    running.reconnect()
    assert running.refusals() == {}


def test_each_connection_verifies_the_replica(mesh: Callable[..., Mesh]) -> None:
    """No session is resumed, because that would skip the verification."""
    running = mesh(count=1, upstream=SHORT)
    for count in (1, 2, 3):
        running.reconnect()
        assert running.handshakes() == count
    running.renew(running.replica_secret, files(running.ca.issue(GATEWAY), running.ca))
    becomes(lambda: running.gateway.counted("cluster.server.upstream_cx_active"), 0)
    assert ask(running.gateway.url, "/hello").status == 503
    assert running.refusals().keys() == {"fail_verify_san"}


def test_long_exchanges_go_on_while_certificates_change(tmp_path: Path) -> None:
    ca = authority(tmp_path, "ca")
    secrets = {name: SecretFolder(tmp_path / name) for name in ("gateway", "mixed")}
    secrets["gateway"].put(files(ca.issue(GATEWAY), ca))
    secrets["mixed"].put(files(ca.issue(f"URI:{ACCOUNT}/mixed"), ca))
    first = free_ports(2)
    url, admin = (f"http://127.0.0.1:{port}" for port in (first, first + 1))
    variables = {"TLS": str(secrets["mixed"].path), "CLIENT": f"{ACCOUNT}/corelane-gateway"}
    argv = [program("mixed"), urlsplit(url).netloc, urlsplit(admin).netloc]
    # Calls are checked like requests, by TLS on the traffic port.
    calling, rest = {"name": "mixed", "port": "grpc"}, {"name": "mixed"}
    more = {"rewrite": {"path": "/"}, "upgrade": ["websocket"]}
    routes = [
        route("calls", {"prefix": "/example.Talk"}, endpoint(url, url), calling, protocol="grpc"),
        route("rest", {"prefix": "/mixed"}, endpoint(url, admin), rest, **more),
    ]
    with ExitStack() as stack:
        ready = lambda: replies(admin, "/readyz")
        stack.enter_context(process("mixed", argv, tmp_path, ready, environment=variables))
        own = values(secrets["gateway"], routes=routes)
        gateway = stack.enter_context(gateway_to([], tmp_path, own))
        for cluster in ("prod-mixed-grpc", "prod-mixed-http"):
            becomes(lambda it=cluster: gateway.counted(f"cluster.{it}.membership_healthy"), 1)
        kinds = dict.fromkeys((messages, events, calls, talks), 2)
        with Exchanges(gateway.url, kinds) as exchanges:
            exchanges.wait_for_each(2)
            for secret, name in (("gateway", GATEWAY), ("mixed", f"URI:{ACCOUNT}/mixed")):
                secrets[secret].put(files(ca.issue(name), ca))
            renewed = "cluster.prod-mixed-http.client_ssl_socket_factory.ssl_context_update_by_sds"
            becomes(lambda: gateway.counted(renewed), 3)
            exchanges.wait_for_each(3)
            ends = {kind.__name__: exchanges.seen(kind).ends for kind in kinds}
        assert not any(ends.values()), ends
