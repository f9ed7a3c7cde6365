"""The dashboard of `make up`: content, buttons and access control."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from stack import becomes, eventually
from stack.http import Reply, ask
from support.platforms import Platform


def state(platform: Platform) -> dict:
    """Returns the page's data, without parts that timed out."""
    reply = ask(platform.dashboard, "/state")
    assert reply.status == 200, reply.body
    return json.loads(reply.body)


def act(platform: Platform, path: str) -> Reply:
    page = ask(platform.dashboard).body.decode()
    (token,) = re.findall(r'<meta name="token" content="([0-9a-f]{32})">', page)
    return ask(platform.dashboard, path, "POST", headers={"corelane-token": token})


def replica(platform: Platform, index: int) -> dict:
    return state(platform)["replicas"][index]


def serving(platform: Platform) -> bool:
    return all((each["gateway"] or {}).get("healthy") for each in state(platform)["replicas"])


def test_the_page_needs_nothing_from_elsewhere(platform: Platform) -> None:
    page = ask(platform.dashboard)
    assert page.status == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    own = re.findall(r'(?:href|src)="(/page[^"]+)"', page.body.decode())
    assert {ask(platform.dashboard, path).status for path in own} == {200}
    assert len(own) == 2


def test_the_state_is_that_of_the_instance(platform: Platform) -> None:
    ask(platform.gateway, "/hello")

    def whole() -> dict | None:
        found = state(platform)
        parts = [found["gateway"]["total"], *(each["lanes"] for each in found["replicas"])]
        return found if all(parts) else None

    found = eventually(whole, "requests of the gateway and lanes of every replica")
    assert (found["services"], found["instance"]) == (["server"], platform.run.name)
    shown = {each["name"]: [lane["cpu"] for lane in each["lanes"]] for each in found["replicas"]}
    assert list(shown) == [each.name for each in platform.replicas]
    for each in platform.replicas:
        # Unpinned lanes have no CPU.
        assert shown[each.name] in ([each.cpu], [None])


def test_routes_have_rates_and_quantiles(platform: Platform) -> None:
    def known() -> bool:
        ask(platform.gateway, "/div/4")
        rows = {row["name"]: row for row in state(platform)["routes"]}
        names = ("all requests", "/div/{n}")
        # A rate needs more than one request.
        return all(rows.get(name, {}).get("p99") and rows[name]["rate"] > 0 for name in names)

    eventually(known, "rates of the gateway and of a route", pause=0.2)


@pytest.mark.parametrize(
    "host", ["example.org", "localhost.example.org", "10.0.0.1", "127.0.0.1.example.org:80"]
)
def test_another_host_is_refused(platform: Platform, host: str) -> None:
    for path in ("/", "/state"):
        assert ask(platform.dashboard, path, headers={"host": host}).status == 403
    assert ask(platform.dashboard, "/load/start", "POST", headers={"host": host}).status == 403


def test_actions_need_the_token_of_the_page(platform: Platform) -> None:
    before = platform.pid("server-0")
    for headers in ({}, {"corelane-token": ""}, {"corelane-token": "0" * 32}):
        reply = ask(platform.dashboard, "/replicas/server-0/kill", "POST", headers=headers)
        assert reply.status == 403
    assert ask(platform.dashboard, "/replicas/server-0/kill").status == 405
    assert ask(platform.dashboard, "/", "OPTIONS").status == 405
    assert platform.pid("server-0") == before


def test_only_replicas_are_killed(platform: Platform) -> None:
    before = sorted(platform.pids())
    for name in ("gateway", "prometheus", "dashboard", "server-9", "../server-0"):
        assert act(platform, f"/replicas/{name}/kill").status in (404, 409)
    assert sorted(platform.pids()) == before


def test_nothing_fails_while_replicas_are_killed_drained_and_delayed(platform: Platform) -> None:
    def returns_after(deed: str, name: str) -> None:
        before = platform.pid(name)
        assert act(platform, f"/replicas/{name}/{deed}").status == 204
        eventually(lambda: platform.pid(name) not in (0, before), f"{name} after its {deed}")
        eventually(lambda: ready(platform), "requests for all replicas")

    with loaded(platform):
        returns_after("kill", "server-0")
    with loaded(platform):
        returns_after("drain", "server-1")
    with loaded(platform):
        assert act(platform, "/replicas/server-0/delay").status == 204
        eventually(lambda: replica(platform, 0)["faults"], "faults")
        direct = platform.replicas[0].url
        assert ask(direct, "/hello").headers["corelane-fault"] == "latency"
        becomes(lambda: replica(platform, 1)["faults"], 0)
    assert act(platform, "/replicas/server-0/undelay").status == 204
    assert "corelane-fault" not in ask(direct, "/hello").headers


@contextmanager
def loaded(platform: Platform) -> Iterator[None]:
    """Starts the page's load, which ends within a minute; no request may fail."""

    def answered(more: int) -> None:
        wanted = state(platform)["load"]["ended"] + more
        eventually(lambda: state(platform)["load"]["ended"] >= wanted, f"{more} replies")

    assert act(platform, "/load/start").status == 204
    answered(50)
    yield
    answered(50)
    assert act(platform, "/load/stop").status == 204
    becomes(lambda: (now := state(platform)["load"])["sent"] - now["ended"], 0)
    load = state(platform)["load"]
    assert (load["failed"], load["failure"], load["left"]) == (0, None, None)


def ready(platform: Platform) -> bool:
    return serving(platform) and all(
        each["phase"] == "serving" for each in state(platform)["replicas"]
    )


def test_a_service_without_faults_has_no_button_for_them(
    new_platform: Callable[[int], Platform],
) -> None:
    platform = new_platform(1)
    result = platform.command("up", CORELANE_FAULTS="off")
    assert result.returncode == 0, result.stderr
    assert replica(platform, 0)["faults"] is None
    assert act(platform, "/replicas/server-0/delay").status == 409
