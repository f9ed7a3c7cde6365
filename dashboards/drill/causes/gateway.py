"""Causes: gateways that are down, have no healthy replica, retry, or are at a limit."""

import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

from dashboards.drill.causes.certificates import YEAR, write
from dashboards.drill.drills import Labels, drill
from dashboards.drill.place import Place
from stack import HOST
from stack.credentials import certificate, issuer, token
from stack.gateway import Gateway
from stack.http import ask
from stack.http_server import Request, serving


@drill(
    "CorelaneGatewayDown/warning", how="one of two gateways is paused with SIGSTOP, then resumed"
)
def gateway_stopped(place: Place) -> Iterator[Labels]:
    server = place.server()
    gateway = place.gateway(server)
    place.gateway(server, pod="gateway-1")
    place.begins()
    gateway.process.signal(signal.SIGSTOP)
    yield {"pod": "gateway"}
    gateway.process.signal(signal.SIGCONT)


@drill("CorelaneGatewayDown/critical", how="the only gateway is paused with SIGSTOP, then resumed")
def gateways_stopped(place: Place) -> Iterator[Labels]:
    gateway = place.gateway(place.server())
    place.begins()
    gateway.process.signal(signal.SIGSTOP)
    yield {"service": "gateway"}
    gateway.process.signal(signal.SIGCONT)


@drill("CorelaneNoHealthyReplica", how="the only replica is killed with SIGKILL, then restarts")
def no_replica(place: Place) -> Iterator[Labels]:
    server = place.server()
    place.gateway(server)
    place.begins()
    server.kill()
    yield {"pod": "gateway"}
    server.start()


@drill(
    "CorelaneReplicaUnhealthy",
    how="one of two replicas is paused with SIGSTOP, then resumed",
    fires=300,
)
def replica_unhealthy(place: Place) -> Iterator[Labels]:
    servers = [place.server(pod=f"server-{index}") for index in range(2)]
    place.gateway(*servers)
    place.begins()
    servers[0].signal(signal.SIGSTOP)
    yield {"pod": "gateway"}
    servers[0].signal(signal.SIGCONT)


@drill(
    "CorelaneGatewayRetries",
    how="a direct client occupies the only slot of one of two replicas, so that the replica sheds the gateway's requests, then the client disconnects",
)
def retries(place: Place) -> Iterator[Labels]:
    small = ("--faults", "on", "--lanes", "1", "--limits.slots", "1", "--limits.queue", "0")
    taken = place.server(*small)
    # A route that the gateway's own requests do not use.
    taken.fault("/div/{n}", latency={"fixed": "1s", "jitter": "0s"})
    gateway = place.gateway(taken, place.server(pod="server-1"))
    with place.load(gateway.url, clients=4, rate=60):
        place.begins()
        with place.load(taken.url, "/div/4", clients=2):
            yield {"pod": "gateway"}


@drill(
    "CorelaneAuthorizationUnavailable",
    how="the external authorization service is paused with SIGSTOP, then resumed",
)
def authorization_stopped(place: Place) -> Iterator[Labels]:
    decider = place.server(pod="server-1")
    asked = {"enabled": True, "host": HOST, "port": urlsplit(decider.url).port}
    gateway = place.gateway(place.server(), values={"externalAuthorization": asked})
    with place.load(gateway.url, clients=4, rate=60):
        place.begins()
        decider.signal(signal.SIGSTOP)
        yield {"pod": "gateway"}
        decider.signal(signal.SIGCONT)


@drill(
    "CorelaneLoginUnavailable",
    how="clients with an expired session refresh it at a provider that rejects the client secret, then accepts it",
    resolves=360,
)
def login_refused(place: Place) -> Iterator[Labels]:
    status = [200]
    # A session without an ID token: Envoy counts the refresh and rejects the request.
    tokens = b'{"access_token": "a", "token_type": "Bearer", "expires_in": 3600}'
    keys = issuer(place.folder).keys().encode()
    trusted, key = certificate(place.folder, "provider", "ec")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(trusted, key)

    def answer(request: Request) -> None:
        request.body()
        known = request.path == "/keys"
        request.reply(200 if known else status[0], body=keys if known else tokens)

    url = place.stack.enter_context(serving(answer, tls=tls)).replace(HOST, "localhost")
    for name in ("client-secret", "hmac-secret", "token"):
        (place.folder / name).write_text(name)
    login = {"enabled": True, "issuer": url, "clientId": "drill", "ca": str(trusted)}
    login |= {"authorizationEndpoint": url, "tokenEndpoint": f"{url}/token"}
    login |= {"keysUrl": f"{url}/keys", "files": {"folder": str(place.folder)}}
    # As if a load balancer in front terminated TLS.
    values = {"authentication": {"oidc": login}, "listener": {"trustedHops": 1}}
    gateway = place.gateway(place.server(), values=values, reaches=False)
    refresh = {"Cookie": "RefreshToken=expired"}
    with place.again(lambda: ask(gateway.url, "/hello", headers=refresh)):
        place.begins()
        status[0] = 401
        yield {"pod": "gateway"}
        status[0] = 200


@drill(
    "CorelaneOutlierEjections",
    how="one of two replicas responds with 500 (fault injection) and is ejected for 1 s at a time, then the fault is removed",
)
def ejections(place: Place) -> Iterator[Labels]:
    failing = place.server("--faults", "on")
    short = {"ejectionTime": "1s", "maxEjectionTime": "1s", "jitter": "0s"}
    values = {"upstream": {"outliers": short}}
    gateway = place.gateway(failing, place.server(pod="server-1"), values=values)
    with place.load(gateway.url, clients=4, rate=150):
        place.begins()
        failing.fault("/hello", error={"status": 500})
        yield {"pod": "gateway"}
        failing.faults()


@drill(
    "CorelaneGatewayOverloaded/warning",
    "CorelaneGatewayOverloaded/critical",
    how="the gateway restarts with 4 MiB of memory instead of 512 MiB, then with 512 MiB again",
)
def gateway_overloaded(place: Place) -> Iterator[Labels]:
    server = place.server()
    with ExitStack() as stack:
        place.gateway(server, stack=stack)
        # The old pod is no longer a target, as if it had been replaced.
        place.unscraped("gateway")
    place.begins()
    with ExitStack() as stack:
        place.gateway(server, values={"memory": "4Mi"}, stack=stack, reaches=False)
        yield {"pod": "gateway"}
        place.unscraped("gateway")
    place.gateway(server)


@drill(
    "CorelaneGatewayConnections/warning",
    how="18 connections are open at a gateway with a limit of 20, then they close",
)
def gateway_connections(place: Place) -> Iterator[Labels]:
    gateway = place.gateway(place.server(), values={"listener": {"connections": 20}})
    place.begins()
    with _held(gateway, 18):
        yield {"pod": "gateway"}


@drill(
    "CorelaneGatewayConnections/critical",
    how="a gateway reaches its limit of 20 connections and rejects others, then the connections close",
)
def gateway_full(place: Place) -> Iterator[Labels]:
    gateway = place.gateway(place.server(), values={"listener": {"connections": 20}})
    place.begins()
    with _held(gateway, 20), place.again(lambda: ask(gateway.url, "/hello")):
        yield {"pod": "gateway"}


@contextmanager
def _held(gateway: Gateway, count: int) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(count):
            address = (HOST, urlsplit(gateway.url).port)
            stack.enter_context(socket.create_connection(address))
        yield


@drill(
    "CorelaneCertificateExpiry/warning",
    "CorelaneCertificateExpiry/critical",
    how="the gateway gets a certificate that expires within a day, then a one-year certificate",
)
def gateway_certificate(place: Place) -> Iterator[Labels]:
    files = dict(zip(("certificate", "key"), map(str, write(place.folder, YEAR)), strict=True))
    place.gateway(
        place.server(), values={"tls": {"enabled": True, "plain": "serve", "files": files}}
    )
    place.begins()
    write(place.folder, YEAR / 365 / 2)
    yield {"pod": "gateway"}
    write(place.folder, YEAR)


@drill(
    "CorelaneTokenKeysStale",
    how="the keys for JSON Web Tokens become invalid, then valid again",
)
def invalid_keys(place: Place) -> Iterator[Labels]:
    known, keys, own = issuer(place.folder), place.folder / "jwks.json", place.folder / "token"

    def publish(text: str) -> None:
        new = keys.with_suffix(".new")
        new.write_text(text)
        new.rename(keys)

    publish(known.keys())
    own.write_text(token())
    files = {"jwks": str(keys), "token": str(own)}
    jwt = {"enabled": True, "issuer": known.name, "audiences": ["corelane"], "files": files}
    place.gateway(place.server(), values={"authentication": {"jwt": jwt}})
    place.begins()
    publish("{")
    yield {"pod": "gateway"}
    publish(known.keys())
