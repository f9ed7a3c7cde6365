"""Replicas that end without a word."""

import json
from typing import Any

from support.client import Client, ask

SETTINGS: list[str] = []


def test_requests_go_to_the_other_replica_and_then_the_gateway_answers(platform: Any) -> None:
    first, second = platform.replicas
    client = Client(platform.url)
    first.kill()
    first.wait()
    # Also those that may run only once: nobody has accepted their connection.
    for method, status in [("GET", 200), ("POST", 405)] * 20:
        reply = client.ask("/hello", method)
        assert (reply.status, reply.replica) == (status, "127.0.0.3")
    second.kill()
    second.wait()
    reply = ask(platform.url, "/hello")
    assert (reply.status, reply.replica) == (503, None)
    assert reply.headers["content-type"] == "application/problem+json"
    problem = "urn:corelane:problem:service-unavailable"
    assert json.loads(reply.body) == {
        "type": problem,
        "title": "Service Unavailable",
        "status": 503,
    }
    client.close()
