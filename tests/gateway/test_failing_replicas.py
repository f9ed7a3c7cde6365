"""Failing replicas: retried requests, the number of attempts, and ejections."""

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stack import becomes, eventually
from stack.gateway import Gateway, endpoint, gateway_to
from stack.http import Client, ask
from stack.http_server import Request, serving
from stack.load import Load
from stack.replica import Server
from support.networks import network
from support.raw import connect

TURNS = {"balancing": {"policy": "round-robin"}}
SOON = {"interval": "100ms"}
"""Interval of health checks."""


@dataclass
class Failing:
    """A replica that passes health checks and fails requests."""

    url: str = ""
    seen: Counter[str] = field(default_factory=Counter)
    """Requests by method; each is counted before its response."""
    checks: int = 0


@contextmanager
def failing(how: str) -> Iterator[Failing]:
    """Starts a replica that passes its health check.

    It responds to other requests with 500 (`answer`), or with 503 like a server that is overloaded (`overload`)
    or did not start the request (`shed`). Or it closes the connection (`hang-up`), or does nothing (`silence`).
    """
    replica, ends = Failing(), threading.Event()
    fields = [("corelane-replica", "failing")]
    if how in ("overload", "shed"):
        fields.append(("retry-after", "1"))
    if how == "shed":
        fields.append(("corelane-not-started", "1"))

    def answer(request: Request) -> None:
        request.body()
        if request.path == "/readyz":
            replica.checks += 1
            return request.reply(200, *fields)
        replica.seen[request.command] += 1
        if how == "silence":
            ends.wait()
        if how in ("hang-up", "silence"):
            request.close_connection = True
            return None
        return request.reply(500 if how == "answer" else 503, *fields)

    with serving(answer) as replica.url:
        try:
            yield replica
        finally:
            ends.set()


ANSWERED = {"GET": 6, "PUT": 1, "POST": 1, "DELETE": 1, "PATCH": 1}
"""Methods, and how often the only replica receives a request whose connection it always closes."""


WAYS = ("hang-up", "overload", "shed")


@pytest.fixture(scope="module")
def failures(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Gateway, dict[str, Failing]]]:
    """Yields a gateway with a route to a replica for each kind of failure, and these replicas."""
    with ExitStack() as stack:
        replicas = {way: stack.enter_context(failing(way)) for way in WAYS}
        routes = [
            {
                "name": way,
                "path": {"exact": f"/{way}"},
                "service": {"name": way, "endpoints": [endpoint(each.url, each.url)]},
            }
            for way, each in replicas.items()
        ]
        # Outlier detection is off, because it would eject the only replica.
        values = {"routes": routes, "upstream": {"outliers": {"consecutiveFailures": 100}}}
        folder = tmp_path_factory.mktemp("failures")
        yield stack.enter_context(gateway_to([], folder, values)), replicas


@pytest.mark.parametrize("method", ANSWERED)
@pytest.mark.parametrize("how", WAYS)
def test_only_what_has_not_started_or_may_run_twice_is_sent_again(
    failures: tuple[Gateway, dict[str, Failing]], method: str, how: str
) -> None:
    """A server also sends 503 if it does not know whether a save was made in time."""
    times = {"hang-up": ANSWERED[method], "overload": 1, "shed": 6}[how]
    gateway, replicas = failures
    before = replicas[how].seen.copy()
    reply = ask(gateway.url, f"/{how}", method, body=b"1")
    assert reply.status == 503
    assert "corelane-not-started" not in reply.headers
    assert replicas[how].seen - before == {method: times}


def test_a_replica_that_fails_everything_is_left_out_though_its_check_is_good(
    server: Server, tmp_path: Path
) -> None:
    name = "cluster.server.outlier_detection.ejections_enforced_failure_percentage"
    with failing("answer") as bad:
        replicas = [endpoint(bad.url, bad.url), endpoint(server.url, server.admin)]
        # The ejection lasts for the rest of the test, and the threshold is low enough for a slow
        # machine to reach it within a second.
        outliers = {"ejectionTime": "10m", "maxEjectionTime": "10m", "failureRequests": 3}
        values = {"upstream": {"outliers": outliers, "health": SOON}}
        with gateway_to(replicas, tmp_path, values=values) as gateway:
            with Load(gateway.url, clients=4):
                eventually(lambda: gateway.counted(name) == 1, "an ejection")
            checks = bad.checks
            eventually(lambda: bad.checks >= checks + 3, "two more checks that have passed")
            before = gateway.sent_to(bad.url)
            client = Client(gateway.url)
            assert {client.ask("/hello").status for _ in range(50)} == {200}
            client.close()
            assert gateway.sent_to(bad.url) == before


@pytest.mark.parametrize(
    "times",
    [{"timeout": "1s", "connectTimeout": "500ms"}, {"retries": {"perTryTimeout": "500ms"}}],
    ids=lambda each: next(iter(each)),
)
def test_a_replica_that_never_answers_is_left_out_though_its_check_is_good(
    server: Server, tmp_path: Path, times: dict
) -> None:
    name = "cluster.server.outlier_detection.ejections_enforced_consecutive_gateway_failure"
    with failing("silence") as silent:
        replicas = [endpoint(silent.url, silent.url), endpoint(server.url, server.admin)]
        # Requests alternate between the replicas. With least-request, the silent replica's pending
        # requests would keep new requests away from it.
        outliers = {"ejectionTime": "10m", "maxEjectionTime": "10m"}
        more = {"outliers": outliers, **TURNS}
        with gateway_to(replicas, tmp_path, values={"upstream": {**times, **more}}) as gateway:
            eventually(lambda: gateway.counted("cluster.server.membership_healthy") == 2)
            client = Client(gateway.url)
            # Sends one request at a time. Each request is answered: if the silent replica received
            # it first, the other replica answers it.
            for _ in range(100):
                if gateway.counted(name):
                    break
                assert client.ask("/hello").status == 200
            assert gateway.counted(name) == 1
            before = gateway.sent_to(silent.url)
            assert before >= 3
            assert {client.ask("/hello").status for _ in range(50)} == {200}
            client.close()
            assert gateway.sent_to(silent.url) == before


def sweeping(configuration: dict) -> None:
    """Makes Envoy check for failures as often as it checks health; the chart has no value for
    this."""
    (server,) = (x for x in configuration["static_resources"]["clusters"] if x["name"] == "server")
    server["outlier_detection"]["interval"] = "0.1s"


@contextmanager
def full() -> Iterator[tuple[str, Callable[[], None]]]:
    """Yields the URL of a replica with a full accept queue: the kernel drops SYNs until the replica
    accepts a connection.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()

        def serve() -> None:
            listener.accept()[0].close()
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

        with socket.create_connection(address):
            yield f"http://127.0.0.1:{address[1]}", serve


def connecting(url: str) -> bool:
    """Whether a connection to a port of this machine waits for its handshake: SYN_SENT in proc_net_tcp(5)."""
    port = f":{int(url.rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[2].endswith(port) and row[3] == "02" for row in rows)


# The replica must accept within the second after which TCP retransmits the packet.
@pytest.mark.nightly
def test_a_connection_whose_first_packet_was_lost_is_waited_for(tmp_path: Path) -> None:
    """TCP retransmits a SYN after a second (RFC 6298), so only networks without loss allow a
    shorter limit.
    """
    values = {"upstream": {"retries": {"attempts": 0}, "outliers": {"consecutiveFailures": 100}}}
    with (
        full() as (url, serve),
        failing("answer") as healthy,
        gateway_to([endpoint(url, healthy.url)], tmp_path, values=values) as gateway,
        ThreadPoolExecutor() as pool,
    ):
        eventually(lambda: gateway.counted("cluster.server.membership_healthy") == 1)
        reply = pool.submit(ask, gateway.url, "/hello")
        eventually(lambda: connecting(url))
        serve()
        assert reply.result().status == 200


def test_a_replica_that_takes_no_connection_is_left_out_and_fails_no_request(
    server: Server, tmp_path: Path
) -> None:
    """Like a lost node: nothing rejects its connections, but here the health check still passes."""
    name = "cluster.server.outlier_detection.ejections_enforced_consecutive_gateway_failure"
    with full() as (url, _), failing("answer") as healthy:
        replicas = [endpoint(url, healthy.url), endpoint(server.url, server.admin)]
        # Requests that wait at the same time fail together, so one connectTimeout is enough.
        # Connections to the other replica are completed by the kernel, no matter how busy the
        # replica is.
        values = {"upstream": {"connectTimeout": "500ms"}}
        with gateway_to(replicas, tmp_path, values=values) as gateway:
            eventually(lambda: gateway.counted("cluster.server.membership_healthy") == 2)
            with Load(gateway.url, clients=8) as load:
                eventually(lambda: gateway.counted(name) > 0, "an ejection")
            assert not load.failures
            assert gateway.counted("cluster.server.upstream_cx_connect_timeout") >= 1
            assert gateway.counted("cluster.server.upstream_rq_retry_success") >= 1


def test_a_replica_that_is_back_waits_for_its_health_check_only(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    good, killed = start(replica="good"), start(replica="killed")
    replicas = [endpoint(each.url, each.admin) for each in (good, killed)]
    with gateway_to(replicas, tmp_path) as gateway:
        eventually(lambda: gateway.counted("cluster.server.membership_healthy") == 2)
        with Load(gateway.url, clients=4) as load:
            load.wait_for(1, "killed")
            killed.kill()
            killed.wait()
            attempts = "cluster.server.health_check.attempt"
            ejected = "cluster.server.outlier_detection.ejections_active"
            before = gateway.counted(attempts)

            def returned() -> bool:
                # Because of the order of these reads, all counted checks happened during the ejection. Envoy's
                # own timers are the clock: it checks each of the two replicas once a second, and ejects for 30
                # s by default.
                checks = gateway.counted(attempts) - before
                over = gateway.counted(ejected) == 0
                assert over or checks < 2 * 15
                return over

            eventually(lambda: gateway.counted(ejected) == 1, "an ejection")
            eventually(returned, "its end")
            becomes(lambda: gateway.counted("cluster.server.membership_healthy"), 1)
            killed.start(wait=False)
            load.wait_for(1, "killed")
            assert gateway.counted(ejected) == 0
        assert not load.failures


def test_the_only_replica_is_not_left_out(tmp_path: Path) -> None:
    outliers = {"failureRequests": 3}
    values = {"upstream": {"outliers": outliers, "health": SOON}}
    with (
        failing("answer") as bad,
        gateway_to([endpoint(bad.url, bad.url)], tmp_path, values, sweeping) as gateway,
        Load(gateway.url, clients=2),
    ):
        eventually(lambda: bad.seen["GET"] > 200)
        checks = bad.checks
        # Envoy checks for failures as often as it checks health.
        eventually(lambda: bad.checks >= checks + 4)
        assert gateway.counted("cluster.server.outlier_detection.ejections_active") == 0


def test_replicas_that_shed_load_are_not_left_out(tmp_path: Path) -> None:
    with failing("overload") as one, failing("overload") as two:
        replicas = [endpoint(each.url, each.url) for each in (one, two)]
        values = {"upstream": {"outliers": {"failureRequests": 3}, "health": SOON}}
        with (
            gateway_to(replicas, tmp_path, values, sweeping) as gateway,
            Load(gateway.url, clients=2),
        ):
            eventually(lambda: one.seen["GET"] > 200 and two.seen["GET"] > 200)
            checks = one.checks
            # Envoy sweeps for outliers as often as it checks health.
            eventually(lambda: one.checks >= checks + 4)
            assert gateway.counted("cluster.server.outlier_detection.ejections_enforced_total") == 0


def test_another_replica_is_asked_where_one_falls_silent(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    silent, good = start(replica="silent"), start(replica="good")
    replicas = [endpoint(each.url, each.admin) for each in (silent, good)]
    # A slow response from the good replica results in another attempt, not in a failure.
    values = {"upstream": {"retries": {"perTryTimeout": "500ms"}, **TURNS}}
    with gateway_to(replicas, tmp_path, values=values) as gateway:
        eventually(lambda: gateway.counted("cluster.server.membership_healthy") == 2)
        silent.freeze()
        client = Client(gateway.url)
        replies = [client.ask("/hello") for _ in range(20)]
        client.close()
        assert {(reply.status, reply.replica) for reply in replies} == {(200, "good")}
        # If this fails, the silent replica received no request.
        assert gateway.counted("cluster.server.upstream_rq_per_try_timeout") > 0


def test_another_replica_is_asked_where_a_node_is_lost(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    """No kernel acknowledges or rejects data for its replica."""
    with network() as node:
        # In its own network, the server has a different address.
        lost = start(address="0.0.0.0", within=node.inside, replica="lost", wait=False)
        of_lost = [url.replace("0.0.0.0", node.address) for url in (lost.url, lost.admin)]
        good = start(replica="good")
        replicas = [endpoint(*of_lost), endpoint(good.url, good.admin)]
        # The kernel acknowledges data for a running replica, no matter how busy the replica is.
        unacknowledged = {"keepalive": {"unacknowledged": "1s"}}
        values = {"upstream": {"timeout": "10m", "health": SOON, **unacknowledged, **TURNS}}
        with gateway_to(replicas, tmp_path, values=values) as gateway:
            eventually(lambda: gateway.counted("cluster.server.membership_healthy") == 2)
            client = Client(gateway.url)
            assert {client.ask("/hello").replica for _ in range(4)} == {"good", "lost"}
            node.ip("link", "set", "eth0", "down")
            # At least one of the two requests first goes to the lost replica.
            assert {client.ask("/hello").replica for _ in range(2)} == {"good"}
            assert gateway.counted("cluster.server.upstream_rq_retry_success") >= 1
            client.close()


SLOTS = ("--lanes", "1", "--limits.slots", "1", "--limits.queue", "0", "--faults", "on")
LATENCY = 'corelane_faults_injected_total{route="/hello",fault="latency"}'
SHED = 'reason="queue_full"'
METHODS = ("GET", "POST")


def summed(server: Server, name: str) -> float:
    """Returns the sum of all series with this name and, if given, these labels."""
    same = (value for series, value in server.metrics().items() if name in series)
    return sum(same)


def slow(server: Server) -> None:
    """Makes each /hello handler wait for an hour."""
    fault = {"route": "/hello", "share": 1, "expires_in": "1h", "latency": {"fixed": "1m"}}
    body = json.dumps({"faults": [fault]}).encode()
    assert ask(server.admin, "/faults", "PUT", body=body).status == 200


@contextmanager
def held(server: Server) -> Iterator[None]:
    """Yields a server whose only slot is occupied: it sheds all requests."""
    slow(server)
    with connect(server.url) as client:
        client.sendall(b"GET /hello HTTP/1.1\r\nHost: held\r\n\r\n")
        eventually(lambda: summed(server, LATENCY) == 1)
        yield


@contextmanager
def gateway_over(replicas: list[Server], folder: Path) -> Iterator[Gateway]:
    """Starts a gateway that alternates between these replicas, and waits until all of them are
    healthy."""
    endpoints = [endpoint(each.url, each.admin) for each in replicas]
    with gateway_to(endpoints, folder, {"upstream": TURNS}) as gateway:
        healthy = "cluster.server.membership_healthy"
        eventually(lambda: gateway.counted(healthy) == len(replicas))
        yield gateway


def test_a_handler_that_took_too_long_does_not_run_again(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    flags = ("--faults", "on", "--timeouts.request", "1s")
    replicas = [start(*flags, replica=name) for name in ("one", "two")]
    for replica in replicas:
        slow(replica)
    with gateway_over(replicas, tmp_path) as gateway:
        for count, method in enumerate(METHODS, 1):
            reply = ask(gateway.url, "/hello", method)
            kind = json.loads(reply.body)["type"]
            assert (reply.status, kind) == (503, "urn:corelane:problem:deadline-exceeded")
            assert sum(summed(replica, LATENCY) for replica in replicas) == count


def test_what_a_replica_sheds_runs_on_another(start: Callable[..., Server], tmp_path: Path) -> None:
    full, free = start(*SLOTS, replica="full"), start(*SLOTS, replica="free")
    with held(full), gateway_over([full, free], tmp_path) as gateway:
        for method in METHODS:
            before = summed(full, SHED)
            client = Client(gateway.url)
            replies = [client.ask("/hello", method) for _ in range(20)]
            client.close()
            assert {reply.replica for reply in replies} == {"free"}
            # If this fails, the full replica received no request.
            assert summed(full, SHED) > before
        assert summed(full, LATENCY) == 1


def test_retries_do_not_multiply_the_overload_of_a_fleet(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    """Each lane of a fleet that sheds everything marks one response in six, after a burst of 64."""
    replicas = [start(*SLOTS, replica=name) for name in ("one", "two")]
    offered, burst = 600, 64 * len(replicas)
    with ExitStack() as stack:
        for replica in replicas:
            stack.enter_context(held(replica))
        gateway = stack.enter_context(gateway_over(replicas, tmp_path))
        client = Client(gateway.url)
        assert {client.ask("/hello").status for _ in range(offered)} == {503}
        client.close()
        arrived = sum(summed(replica, SHED) for replica in replicas)
    assert offered + burst < arrived <= (offered + burst) * 1.2
