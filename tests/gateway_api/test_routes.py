"""Routes in mode gatewayAPI: what Envoy Gateway says of the objects, and which route gets a request."""

from typing import Any

import pytest

from stack import becomes
from stack.http import ask
from support.envoy_gateway import unhappy

ROUTES = [
    # For any host, and first: it wins over a more specific path and over a more specific host.
    "name=first,path.prefix=/x,rewrite.path=/hello",
    "name=hello,path.exact=/hello",
    "name=second,hosts={a.test},path.exact=/x,rewrite.path=/none",
    "name=regex,hosts={a.test},path.regex=/v[0-9]+,rewrite.host=b.test,timeout=5s,idleTimeout=1s",
    "name=team,hosts={*.a.test},headers[0].name=x-team,headers[0].exact=blue,retries=0",
    "name=write,hosts={*.a.test},methods={POST},headers[0].name=x-any,headers[0].present=true",
]
SETTINGS = [
    f"routes[{number}].{setting}"
    for number, route in enumerate(ROUTES)
    for setting in [*route.split(","), "service.name=pages"]
]


def test_every_object_is_accepted(platform: Any) -> None:
    def conditions() -> dict:
        found = unhappy(platform.running, platform.objects)
        return {name: list(conditions) for name, conditions in found.items()}

    # Only a cluster gives a Gateway an address.
    becomes(conditions, {("Gateway", "corelane-gateway"): ["Programmed"]})


@pytest.mark.parametrize(
    ("host", "method", "path", "fields", "status", "passed"),
    [
        ("any.test", "GET", "/x", {}, 200, True),
        ("a.test", "GET", "/x", {}, 200, True),
        ("b.a.test", "GET", "/x", {}, 200, True),
        ("any.test", "GET", "/xy", {}, 404, False),
        ("a.test", "GET", "/v12", {}, 404, True),
        ("a.test", "GET", "/v12/x", {}, 404, False),
        ("any.test", "GET", "/v12", {}, 404, False),
        ("b.a.test", "GET", "/", {"x-team": "blue"}, 200, True),
        ("b.a.test", "GET", "/", {"x-team": "red"}, 404, False),
        ("b.a.test", "POST", "/", {"x-any": "1"}, 405, True),
        ("b.a.test", "GET", "/", {"x-any": "1"}, 404, False),
        ("b.a.test", "POST", "/", {}, 404, False),
    ],
)
def test_the_first_route_that_matches_gets_a_request(
    platform: Any, host: str, method: str, path: str, fields: dict, status: int, passed: bool
) -> None:
    reply = ask(platform.url, path, method, headers={"host": host, **fields})
    assert (reply.status, reply.replica is not None) == (status, passed)
