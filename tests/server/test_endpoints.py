"""Endpoints of the reference service over real sockets."""

import json

import pytest

from stack.http import Client, Reply, ask
from stack.replica import Server


def problem(reply: Reply) -> dict:
    assert reply.headers["content-type"] == "application/problem+json"
    members = json.loads(reply.body)
    assert members["type"].startswith("urn:corelane:problem:")
    assert members["status"] == reply.status
    assert members["title"]
    return members


def test_every_reply_names_its_replica_and_lane(server: Server) -> None:
    for path in ("/", "/hello", "/div/4", "/work?ops=1", "/static/", "/none", "/div/x"):
        reply = ask(server.url, path)
        assert reply.replica == "test", path
        assert reply.headers["corelane-lane"].isdigit(), path


def test_root_says_who_answers(server: Server) -> None:
    reply = ask(server.url, "/")
    me = json.loads(reply.body)
    assert me["replica"] == "test"
    assert me["lane"] == int(reply.headers["corelane-lane"])


def test_hello_has_13_bytes(server: Server) -> None:
    reply = ask(server.url, "/hello")
    assert (reply.status, reply.body) == (200, b"Hello, World!")
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("n", "half"),
    [("4", "2"), ("5", "2.5"), ("0.1", "0.05"), ("-3", "-1.5"), ("9" * 40, "4" + "9" * 39 + ".5")],
)
def test_div_gives_exactly_half(server: Server, n: str, half: str) -> None:
    reply = ask(server.url, f"/div/{n}")
    assert (reply.status, reply.body.decode()) == (200, half)


def test_work_does_the_same_work_each_time(server: Server) -> None:
    once, again = ask(server.url, "/work?ops=1000"), ask(server.url, "/work?ops=1000")
    assert once.status == 200
    assert once.body == again.body
    assert once.body != ask(server.url, "/work?ops=1001").body


@pytest.mark.parametrize(
    ("path", "parameter", "bound"),
    [
        ("/div/four", "n", "1000 characters"),
        ("/div/1e3", "n", "1000 characters"),
        ("/div/+4", "n", "1000 characters"),
        ("/div/%2b4", "n", "1000 characters"),
        ("/div/4%2f2", "n", "1000 characters"),
        ("/div/%00", "n", "1000 characters"),
        ("/div/%ff", "n", "1000 characters"),
        ("/div/%d9%a3", "n", "1000 characters"),
        ("/div/%", "n", "1000 characters"),
        ("/div/.5", "n", "1000 characters"),
        ("/div/", "n", "1000 characters"),
        ("/div/" + "9" * 1001, "n", "1000 characters"),
        ("/work", "ops", "100000000"),
        ("/work?ops=many", "ops", "100000000"),
        ("/work?ops=-1", "ops", "100000000"),
        ("/work?ops=100000001", "ops", "100000000"),
        ("/work?ops=1&ops=1", "ops", "100000000"),
        ("/work?ops", "ops", "100000000"),
        ("/work?ops=", "ops", "100000000"),
        ("/work?OPS=1", "ops", "100000000"),
        ("/work?ops=1.0", "ops", "100000000"),
        ("/work?ops=0x1", "ops", "100000000"),
        ("/work?ops=%2b1", "ops", "100000000"),
        ("/work?ops=+1", "ops", "100000000"),
        ("/work?ops=1%00", "ops", "100000000"),
        ("/work?ops=%d9%a3", "ops", "100000000"),
        ("/work?ops=18446744073709551616", "ops", "100000000"),
        ("/work?ops=" + "9" * 8000, "ops", "100000000"),
    ],
)
def test_a_bad_parameter_is_named_with_its_bound(
    server: Server, path: str, parameter: str, bound: str
) -> None:
    reply = ask(server.url, path)
    assert reply.status == 400
    members = problem(reply)
    assert members["type"] == "urn:corelane:problem:bad-parameter"
    assert members["parameter"] == parameter
    assert bound in members["detail"]


@pytest.mark.parametrize(
    ("path", "same"),
    [
        ("/div/%34", "/div/4"),
        ("/div/%2D%37", "/div/-7"),
        ("/work?%6fps=%31%30", "/work?ops=10"),
        ("/work?utm=x&ops=10&other=1", "/work?ops=10"),
        ("/work?ops=0010", "/work?ops=10"),
        ("/work/short?ops=10", "/work?ops=10"),
        ("/hello?any=thing", "/hello"),
    ],
)
def test_two_ways_to_write_the_same(server: Server, path: str, same: str) -> None:
    """RFC 3986 section 6.2.2.2; unknown parameters are ignored."""
    reply = ask(server.url, path)
    assert (reply.status, reply.body) == (200, ask(server.url, same).body)


@pytest.mark.parametrize(
    "path",
    [
        "/none",
        "/hello/",
        "/work/",
        "/work/?ops=1",
        "/work/a/b?ops=1",
        "/div",
        "/div/4/",
        "/div/4/2",
        "/projects",
        "/static/none",
        "/static/../Cargo.toml",
    ],
)
def test_what_is_not_there_is_404(server: Server, path: str) -> None:
    reply = ask(server.url, path)
    assert reply.status == 404
    problem(reply)


@pytest.mark.parametrize("path", ["/", "/hello", "/div/4", "/work?ops=1", "/static/"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "BREW"])
def test_other_methods_are_405_with_allow(server: Server, path: str, method: str) -> None:
    reply = ask(server.url, path, method)
    assert reply.status == 405
    assert reply.headers["allow"] == "GET, HEAD, OPTIONS"
    problem(reply)


@pytest.mark.parametrize(
    "target", ["/", "/hello", "/div/4", "/div/x", "/work", "/openapi.json", "/docs", "*"]
)
def test_options_says_what_is_allowed(server: Server, target: str) -> None:
    reply = ask(server.url, target, "OPTIONS")
    assert (reply.status, reply.body) == (204, b"")
    assert reply.headers["allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/hello",
        "/div/4",
        "/div/x",
        "/work?ops=1",
        "/work",
        "/openapi.json",
        "/docs",
        "/static/",
        "/static/4k.txt",
        "/none",
    ],
)
def test_head_equals_get_without_body(server: Server, path: str) -> None:
    client = Client(server.url)
    get, head = client.ask(path), client.ask(path, "HEAD")
    assert head.body == b""
    assert get.status == head.status
    varying = {"date", "corelane-lane", "x-request-id"}
    assert {k: v for k, v in get.headers.items() if k not in varying} == {
        k: v for k, v in head.headers.items() if k not in varying
    }
    client.close()


def test_histograms_end_in_infinity(server: Server) -> None:
    """Prometheus needs the +Inf bucket for quantiles."""
    lane = ask(server.url, "/hello").headers["corelane-lane"]
    labels, series = f'lane="{lane}",route="/hello"', server.metrics()
    bucket = series[f'corelane_request_duration_seconds_bucket{{{labels},le="+Inf"}}']
    assert bucket == series[f"corelane_request_duration_seconds_count{{{labels}}}"] >= 1
