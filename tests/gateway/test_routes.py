"""Routes to several services: the real Envoy in front of real servers and in front of back ends
that record requests."""

import json
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from math import sqrt
from pathlib import Path

import pytest

from stack import becomes, eventually
from stack.gateway import Gateway, endpoint, gateway_to
from stack.http import Client, Reply, ask
from stack.replica import Server
from support.http2 import Http2Client
from support.raw import UPGRADE, connect, read_until, until_end, upgrading
from support.recorder import Recorder, Request

Start = Callable[..., Gateway]


@pytest.fixture(scope="module")
def services(starter: Callable[..., Server]) -> Iterator[dict[str, Server]]:
    """Yields two services whose responses identify them on any path."""
    yield {name: starter("--lanes", "1", replica=name) for name in ("orders", "pages")}


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """Yields a service that records requests."""
    running = Recorder()
    yield running
    running.close()


def named(name: str, service: Server | Recorder) -> dict:
    """Returns a service's reference in a route."""
    return {"name": name, "endpoints": [endpoint(service.url, service.admin)]}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Start]:
    """Returns a function that starts a gateway with these routes, and waits for its services."""
    with ExitStack() as stack:

        def run(*routes: dict, healthy: bool = True, **values: dict) -> Gateway:
            running = stack.enter_context(
                gateway_to([], tmp_path, values={"routes": list(routes), **values})
            )
            for each in routes if healthy else ():
                for service in [*each.get("services", ()), each.get("service"), each.get("mirror")]:
                    if service:
                        count = f"cluster.prod-{service['name']}-http.membership_healthy"
                        eventually(lambda count=count: running.counted(count) == 1, count)
            return running

        yield run


@pytest.fixture
def to(services: dict[str, Server]) -> Callable[..., dict]:
    """Returns a route to one of the two services."""

    def route(name: str, service: str, **more: object) -> dict:
        return {"name": name, "service": named(service, services[service]), **more}

    return route


def chosen(gateway: Gateway, path: str = "/", method: str = "GET", **headers: str) -> str | int:
    """Returns the service that answers a request, or the status of the gateway's own response."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = ask(gateway.url, path, method, headers=fields)
    return reply.replica or reply.status


def problem(reply: Reply) -> tuple[int, str]:
    """Returns the status and type of the gateway's own response."""
    assert reply.replica is None
    assert reply.headers["content-type"] == "application/problem+json"
    body = json.loads(reply.body)
    assert body["status"] == reply.status
    return reply.status, body["type"].removeprefix("urn:corelane:problem:")


def test_hosts_are_exact_or_end_alike(gateway: Start, to: Callable[..., dict]) -> None:
    running = gateway(
        to("shop", "orders", hosts=["shop.test", "store.test"]),
        to("any", "pages", hosts=["*.shop.test"]),
    )
    hosts = {
        "shop.test": "orders",
        "store.test": "orders",
        "SHOP.test": "orders",
        "shop.test:8443": "orders",
        "www.shop.test": "pages",
        "a.b.shop.test:80": "pages",
        "noshop.test": 404,
        "shop.test.other": 404,
        "127.0.0.1": 404,
    }
    assert {host: chosen(running, host=host) for host in hosts} == hosts


def test_the_first_route_wins_even_over_a_more_specific_host(
    gateway: Start, to: Callable[..., dict]
) -> None:
    running = gateway(
        to("wild", "pages", hosts=["*.shop.test"], path={"prefix": "/docs"}),
        to("shop", "orders", hosts=["www.shop.test"]),
        to("docs", "pages", path={"prefix": "/docs"}),
        to("rest", "orders", path={"exact": "/rest"}),
    )
    found = {
        ("www.shop.test", "/docs/1"): "pages",
        ("www.shop.test", "/"): "orders",
        ("img.shop.test", "/docs"): "pages",
        ("img.shop.test", "/rest"): "orders",
        ("img.shop.test", "/"): 404,
        ("other.test", "/docs"): "pages",
        ("other.test", "/rest"): "orders",
    }
    assert {(host, path): chosen(running, path, host=host) for host, path in found} == found


def test_paths_are_exact_a_prefix_of_segments_or_an_expression(
    gateway: Start, to: Callable[..., dict]
) -> None:
    running = gateway(
        to("exact", "orders", path={"exact": "/a"}),
        to("slash", "orders", path={"prefix": "/c/"}),
        to("prefix", "pages", path={"prefix": "/a/b"}),
        to("regex", "orders", path={"regex": "/v[0-9]+/(x|y)"}),
    )
    paths = {
        "/a": "orders",
        "/a?q=1": "orders",
        "/a/": 404,
        "/a/b": "pages",
        "/a/b/": "pages",
        "/a/b/c?d": "pages",
        "/a/bc": 404,
        "/c": "orders",
        "/c/d": "orders",
        "/v12/x?q": "orders",
        "/v12/xy": 404,
        "/w/v12/x": 404,
        # Envoy normalises paths before it matches routes (RFC 3986 section 6.2.2.3).
        "/x/../a": "orders",
        "//a/b": "pages",
    }
    assert {path: chosen(running, path) for path in paths} == paths


def test_methods_and_headers_must_all_match(gateway: Start, to: Callable[..., dict]) -> None:
    blue = {"name": "X-Team", "exact": "blue"}
    running = gateway(
        to("write", "orders", methods=["POST", "PUT"]),
        to("team", "orders", headers=[blue, {"name": "x-build", "regex": "[0-9]+"}]),
        to("seen", "pages", methods=["GET"], headers=[{"name": "x-any", "present": True}]),
    )
    assert [chosen(running, method=each) for each in ("POST", "PUT")] == ["orders"] * 2
    # By default, PUT is retried like POST, and GET is retried like HEAD, because a route has no
    # rule for other methods.
    assert [chosen(running, method=each) for each in ("GET", "HEAD", "DELETE")] == [404] * 3
    assert chosen(running, x_team="blue", x_build="17") == "orders"
    assert chosen(running, x_team="blue", x_build="17a") == 404
    assert chosen(running, x_team="blue") == 404
    assert chosen(running, x_any="1") == "pages"
    assert chosen(running, method="HEAD", x_any="1") == 404


def test_what_no_route_takes_is_refused_by_the_gateway(
    gateway: Start, to: Callable[..., dict]
) -> None:
    running = gateway(to("shop", "orders", hosts=["shop.test"]))
    assert problem(ask(running.url, "/")) == (404, "not-found")
    assert problem(ask(running.url, "/", "TRACE", headers={"host": "shop.test"}))[0] == 501
    for host in ("shop.test", "other.test"):
        with connect(running.url) as client:
            client.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nHost: b\r\n\r\n".encode())
            assert client.recv(65536).startswith(b"HTTP/1.1 400 ")


def test_statistics_and_the_log_tell_services_and_routes_apart(
    gateway: Start, to: Callable[..., dict]
) -> None:
    running = gateway(to("first", "orders", path={"prefix": "/first"}), to("rest", "pages"))
    for path in ("/first", "/second", "/third"):
        ask(running.url, path)
    assert running.counted("cluster.prod-orders-http.upstream_rq_total") == 1
    assert running.counted("cluster.prod-pages-http.upstream_rq_total") == 2
    assert running.logged("/first")["route"] == "first"
    assert running.logged("/third")["route"] == "rest"
    ask(running.url, "/fourth", "POST")
    assert running.logged("/fourth")["route"] == "rest"


def test_weights_share_the_requests(gateway: Start, services: dict[str, Server]) -> None:
    shares = {"orders": 3, "pages": 1}
    both = [{**named(name, services[name]), "weight": weight} for name, weight in shares.items()]
    running = gateway({"name": "canary", "services": both})
    client = Client(running.url)
    number = 1_500
    count = Counter(client.ask("/hello").replica for _ in range(number))
    client.close()
    assert set(count) == set(shares)
    # Six standard deviations of a binomial distribution, exceeded once in 10^9 runs.
    assert abs(count["pages"] - number / 4) < 6 * sqrt(number * 1 / 4 * 3 / 4)


def test_a_weight_of_0_gets_nothing(gateway: Start, services: dict[str, Server]) -> None:
    both = [named("orders", services["orders"]), {**named("pages", services["pages"]), "weight": 0}]
    running = gateway({"name": "blue-green", "services": both})
    assert {chosen(running) for _ in range(50)} == {"orders"}


@pytest.mark.parametrize("percent", [100, 0])
def test_a_mirror_gets_the_same_request_and_its_reply_is_dropped(
    gateway: Start, to: Callable[..., dict], recorder: Recorder, percent: int
) -> None:
    mirror = {**named("next", recorder), "percent": percent}
    running = gateway(to("mirrored", "pages", mirror=mirror))
    # Sent in one piece: a copy is cut if the service responds before the request is complete.
    request = b"POST /hello HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 4\r\nConnection: close\r\n\r\ntext"
    for _ in range(20):
        with connect(running.url) as client:
            client.sendall(request)
            assert b"corelane-replica: pages\r\n" in until_end(client)
    if percent:
        becomes(lambda: running.counted("cluster.prod-next-http.upstream_rq_completed"), 20)
    requests = recorder.take().requests
    assert len(requests) == (20 if percent else 0)
    for request in requests:
        assert (request.values(b"host"), request.body) == ([b"shop.test"], b"text")


def seen(recorder: Recorder, gateway: Gateway, path: str, method: str = "GET") -> Request:
    """Returns a request as the service received it."""
    assert ask(gateway.url, path, method, headers={"host": "shop.test"}).body == b"recorded"
    (request,) = recorder.take().requests
    return request


def test_a_rewrite_replaces_what_matched(gateway: Start, recorder: Recorder) -> None:
    service = named("old", recorder)
    rewrites = [
        ({"prefix": "/orders"}, "/v2/orders", {"/orders/1?q=1": "/v2/orders/1?q=1"}),
        ({"prefix": "/root/"}, "/", {"/root": "/", "/root/1": "/1", "/root//x?y": "/x?y"}),
        ({"prefix": "/a.b"}, "/c/", {"/a.b/d": "/c/d", "/a.b": "/c/"}),
        ({"exact": "/ping"}, "/health", {"/ping?q": "/health?q"}),
        ({"prefix": "/"}, "/all", {"/": "/all/", "/x/y": "/all/x/y"}),
    ]
    routes = [
        {"name": f"r{number}", "service": service, "path": path, "rewrite": {"path": new}}
        for number, (path, new, _) in enumerate(rewrites)
    ]
    running = gateway(*routes)
    for _, _, paths in rewrites:
        for path, expected in paths.items():
            request = seen(recorder, running, path)
            assert request.line == f"GET {expected} HTTP/1.1".encode(), path
            assert request.values(b"host") == [b"shop.test"]


def test_a_rewrite_replaces_the_host(gateway: Start, recorder: Recorder) -> None:
    running = gateway(
        {"name": "one", "service": named("old", recorder), "rewrite": {"host": "orders.internal"}}
    )
    request = seen(recorder, running, "/x")
    assert request.values(b"host") == [b"orders.internal"]
    assert request.line == b"GET /x HTTP/1.1"


def test_times_of_a_route_are_its_own(
    gateway: Start, start: Callable[..., Server], to: Callable[..., dict]
) -> None:
    slow = start("--faults", "on", replica="slow")
    fault = {"route": "/hello", "share": 1, "expires_in": "1h", "latency": {"fixed": "1m"}}
    body = json.dumps({"faults": [fault]}).encode()
    assert ask(slow.admin, "/faults", "PUT", body=body).status == 200
    service = named("slow", slow)
    running = gateway(
        {"name": "short", "service": service, "hosts": ["short.test"], "timeout": "600ms"},
        {"name": "idle", "service": service, "timeout": "0s", "idleTimeout": "600ms"},
        upstream={"timeout": "30m", "connectTimeout": "500ms"},
        listener={"timeouts": {"stream": "30m"}},
        shutdown={"deadline": "1m"},
    )
    for route, flag in (("short", "UT"), ("idle", "SI")):
        reply = ask(running.url, f"/hello?{route}", headers={"host": f"{route}.test"})
        assert problem(reply) == (504, "gateway-timeout")
        assert running.logged(f"/hello?{route}")["flags"] == flag


def test_retries_of_a_route_are_its_own(gateway: Start) -> None:
    # These sockets are bound, so that no other process gets their ports, but they do not listen and
    # therefore refuse connections.
    with socket.socket() as traffic, socket.socket() as admin:
        for held in (traffic, admin):
            held.bind(("127.0.0.1", 0))
        ports = {"port": traffic.getsockname()[1], "adminPort": admin.getsockname()[1]}
        down = {"name": "down", "endpoints": [{"address": "127.0.0.1", **ports}]}
        running = gateway(
            {"name": "none", "service": down, "path": {"prefix": "/none"}, "retries": 0},
            {"name": "one", "service": down, "path": {"prefix": "/one"}, "retries": 1},
            {"name": "usual", "service": down},
            healthy=False,
        )
        attempts = {"/none": 1, "/one": 2, "/usual": 6}
        for path, number in attempts.items():
            for method in ("GET", "POST"):
                assert ask(running.url, f"{path}?{method}", method).status == 503
                assert running.logged(f"{path}?{method}")["attempts"] == number


def test_body_limits_of_a_route_are_its_own(gateway: Start, recorder: Recorder) -> None:
    service = named("old", recorder)
    running = gateway(
        {"name": "small", "service": service, "path": {"prefix": "/small"}, "bodyBytes": 100},
        {"name": "any", "service": service, "path": {"prefix": "/any"}, "bodyBytes": 0},
        {"name": "usual", "service": service},
        listener={"bodyBytes": 1000},
    )

    def status(path: str, length: int) -> int:
        return ask(running.url, path, "POST", body=b"x" * length).status

    assert [status("/small", length) for length in (100, 101)] == [200, 413]
    assert [status("/usual", length) for length in (101, 1000, 1001)] == [200, 200, 413]
    assert status("/any", 20_000) == 200
    assert problem(ask(running.url, "/small", "POST", body=b"x" * 101)) == (
        413,
        "payload-too-large",
    )


def test_a_rate_limit_of_a_route_counts_all_its_requests_and_no_others(
    gateway: Start, to: Callable[..., dict]
) -> None:
    rate = {"requests": 1, "interval": "1h", "burst": 3}
    running = gateway(
        to("few", "orders", path={"prefix": "/few"}, hosts=["a.test", "b.test"], rateLimit=rate),
        to("also", "orders", path={"prefix": "/also"}, rateLimit={**rate, "burst": 1}),
        to("rest", "pages"),
    )
    # There is one bucket, although Envoy has separate routes for retriable requests and for every host name.
    asked = [("GET", "a.test"), ("POST", "b.test"), ("GET", "b.test"), ("GET", "a.test")]
    replies = [ask(running.url, "/few", each, headers={"host": host}) for each, host in asked]
    assert [reply.replica for reply in replies[:3]] == ["orders"] * 3
    assert problem(replies[3]) == (429, "too-many-requests")
    assert int(replies[3].headers["retry-after"]) > 0
    assert [chosen(running, "/also") for _ in range(2)] == ["orders", 429]
    assert {chosen(running, "/hello") for _ in range(5)} == {"pages"}
    assert running.counted("ingress.http_local_rate_limit.rate_limited") == 2


def test_only_a_route_that_says_so_upgrades(gateway: Start, recorder: Recorder) -> None:
    with upgrading() as port:
        chat = endpoint(f"http://127.0.0.1:{port}", recorder.admin)
        running = gateway(
            {
                "name": "chat",
                "path": {"prefix": "/chat"},
                "service": {"name": "chat", "endpoints": [chat]},
                "upgrade": ["websocket"],
                "bodyBytes": 100,
            },
            {"name": "rest", "service": named("old", recorder)},
        )
        with connect(running.url) as client:
            client.sendall(UPGRADE % b"/other")
            assert client.recv(65536).startswith(b"HTTP/1.1 403 ")
        with connect(running.url) as client:
            client.sendall(UPGRADE % b"/chat")
            assert client.recv(65536).startswith(b"HTTP/1.1 101 ")
            # The limit for bodies does not apply to the data after the upgrade.
            client.sendall(b"x" * 2000)
            read_until(client, b"x" * 2000)
        # Other requests on the route keep its limits.
        reply = ask(running.url, "/chat", "POST", body=b"x" * 101)
        assert problem(reply) == (413, "payload-too-large")


def test_each_service_has_a_file_of_endpoints(
    gateway: Start, services: dict[str, Server], tmp_path: Path
) -> None:
    def write(cluster: str, service: Server) -> None:
        """Writes a file as the agent does."""
        at = endpoint(service.url, service.admin)
        address = {"address": at["address"], "port_value": at["port"]}
        place = {
            "address": {"socket_address": address},
            "health_check_config": {"port_value": at["adminPort"]},
        }
        resource = {
            "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            "cluster_name": cluster,
            "endpoints": [{"lb_endpoints": [{"endpoint": place}]}],
        }
        (tmp_path / "new").write_text(json.dumps({"resources": [resource]}))
        (tmp_path / "new").rename(tmp_path / f"{cluster}.json")

    write("shop-one-http", services["orders"])
    write("prod-two-http", services["pages"])
    one = {"name": "one", "namespace": "shop"}
    running = gateway(
        {"name": "one", "path": {"prefix": "/one"}, "service": one},
        {"name": "two", "service": {"name": "two"}},
        healthy=False,
        upstream={"discovery": "eds"},
    )
    eventually(lambda: (chosen(running, "/one"), chosen(running)) == ("orders", "pages"))
    write("shop-one-http", services["pages"])
    eventually(lambda: chosen(running, "/one") == "pages")
    assert chosen(running) == "pages"


def test_services_have_protocols_of_their_own(gateway: Start, to: Callable[..., dict]) -> None:
    running = gateway(
        to("new", "orders", path={"prefix": "/hello"}, protocol="http2"),
        to("same", "pages", protocol="auto"),
    )
    assert chosen(running, "/hello") == "orders"
    assert running.counted("cluster.prod-orders-http.upstream_cx_http2_total") == 1
    assert running.counted("cluster.prod-orders-http.upstream_cx_http1_total") == 0
    client = Http2Client(running.url)
    assert json.loads(client.ask("/").body)["replica"] == "pages"
    client.close()
    assert chosen(running) == "pages"
    assert running.counted("cluster.prod-pages-http.upstream_cx_http2_total") == 1
    assert running.counted("cluster.prod-pages-http.upstream_cx_http1_total") == 1
