"""Replicas that end without a word, and which requests then have a line in the access log."""

import json
from typing import Any

from stack import eventually
from stack.http import Client, ask

SETTINGS = ["accessLog.percent=50"]


def test_requests_go_to_the_other_replica_and_then_the_gateway_answers(platform: Any) -> None:
    first, second = platform.replicas
    client = Client(platform.url)
    seen = set()

    def both() -> bool:
        seen.add(client.ask("/hello").replica)
        return {"127.0.0.2", "127.0.0.3"} <= seen

    # A replica that is not known for healthy yet could not take over.
    eventually(both)
    first.kill()
    first.wait()
    # Also those that may run only once: nobody has accepted their connection.
    for method, status in [("GET", 200), ("POST", 405)] * 40:
        reply = client.ask("/hello?other", method)
        assert (reply.status, reply.replica) == (status, "127.0.0.3")
    client.close()
    second.kill()
    second.wait()
    reply = ask(platform.url, "/hello?none")
    assert (reply.status, reply.replica) == (503, None)
    assert reply.headers["content-type"] == "application/problem+json"
    problem = "urn:corelane:problem:service-unavailable"
    assert json.loads(reply.body) == {
        "type": problem,
        "title": "Service Unavailable",
        "status": 503,
    }
    eventually(lambda: platform.running.logged("/hello?none"), "a line for /hello?none")
    lines = platform.running.logged("/hello?other")
    sampled = [line for line in lines if line["request_id"] < "80000000"]
    assert sampled
    assert [line for line in lines if line not in sampled and not remarkable(line)] == []


def remarkable(line: dict) -> bool:
    """Whether a request has a line though it is not in the sample."""
    return line["status"] >= 500 or line["flags"] not in ("-", None) or line["duration_ms"] >= 1000
