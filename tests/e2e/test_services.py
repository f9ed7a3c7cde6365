"""Two services behind one gateway: the reference server and an independent service.

The independent service is services/examples/mixed.rs in two charts/service releases in its own
namespace.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from typing import Any

import grpc
import pytest

from deploy import images
from stack import PATIENCE, SLOWER, eventually
from stack.http import Client, Reply, ask
from stack.load import Load
from support import gateway_api
from support.exchanges import HEARTBEAT, Exchanges, Seen, calls, channel, events, messages, talks
from support.kubernetes import PAUSE, ROLL_OUT
from support.raw import connect
from support.releases import Release, beside

NAMESPACE = "corelane-services"
IDLE = 5 * SLOWER
"""The gateway's idle timeout for streams."""
MIXED = {"name": "mixed", "namespace": NAMESPACE}
NEXT = {"name": "mixed-next", "namespace": NAMESPACE}
CALLS = {"name": "mixed-calls", "namespace": NAMESPACE}
REFERENCE = {"name": "corelane-server"}
ROUTES = [
    {
        "name": "calls",
        "path": {"prefix": "/example.Talk"},
        "service": CALLS,
        "protocol": "grpc",
    },
    {
        "name": "canary",
        "hosts": ["canary.test"],
        "services": [{**MIXED, "weight": 90}, {**NEXT, "weight": 10}],
    },
    # One heartbeat per second; streams start late on slow machines.
    {
        "name": "events",
        "path": {"prefix": "/mixed/events"},
        "service": MIXED,
        "rewrite": {"path": "/events"},
        "idleTimeout": f"{IDLE:g}s",
    },
    {
        "name": "path",
        "path": {"prefix": "/mixed"},
        "service": MIXED,
        "rewrite": {"path": "/"},
        "upgrade": ["websocket"],
    },
    {"name": "host", "hosts": ["mixed.test"], "service": MIXED},
    {"name": "reference-host", "hosts": ["reference.test"], "service": REFERENCE},
    {"name": "reference", "path": {"prefix": "/hello"}, "service": REFERENCE},
]


# Calls use another protocol, so they have their own Service.
CALLS_SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": CALLS["name"]},
    "spec": {
        "selector": {"app.kubernetes.io/instance": "mixed", "app.kubernetes.io/name": "mixed"},
        "ports": [{"name": "http", "port": 8080}],
    },
}


@dataclass(frozen=True)
class Begun:
    """The other service's releases, installed during the platform's upgrade."""

    next: Release
    mixed: Release
    upgrades: list[Future]


@pytest.fixture(scope="module")
def begun(deployed: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Begun]:
    """Two replicas, and one replica of the next version. Responses name the version."""
    image = {"repository": "corelane-mixed", "tag": images.load_as("mixed", "")}
    folder = tmp_path_factory.mktemp("mixed")

    def made(name: str, replicas: int) -> Release:
        values = {
            "image": {**image, "pullPolicy": "Never"},
            "args": ["0.0.0.0:8080", "0.0.0.0:8081"],
            "env": [{"name": "VERSION", "value": name}],
            "replicas": replicas,
            "minReadySeconds": 1,
            "drain": {"settle": "3s"},
        }
        return beside(deployed, own, name, folder, values)

    with deployed.cluster.restricted(NAMESPACE) as own, ThreadPoolExecutor() as pool:
        own.kubectl("apply", "--filename", "-", stdin=json.dumps(CALLS_SERVICE))
        both = (made("mixed-next", 1), made("mixed", 2))
        yield Begun(*both, [pool.submit(each.upgrade) for each in both])


def write(release: Release, routes: list[dict]) -> None:
    release.values[-1].write_text(json.dumps({"gateway": {"routes": routes}}))


@pytest.fixture(scope="module")
def routed(deployed: Release, begun: Begun, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Routes to both services are active on every gateway."""
    file = tmp_path_factory.mktemp("routes") / "routes.yaml"
    found = replace(deployed, values=[*deployed.values, file])
    write(found, ROUTES)
    found.serve()
    for upgrade in begun.upgrades:
        upgrade.result()
    wanted = begun.mixed.pods() | begun.next.pods()

    def answered(url: str, seen: set[str | None]) -> bool:
        seen.add(ask(url, "/", headers={"host": "canary.test"}).replica)
        return wanted <= seen

    with found.each_gateway() as urls:
        for url in urls:
            eventually(partial(answered, url, set()), f"replies of {wanted}", patience=ROLL_OUT)
            eventually(partial(answers_calls, url), "a reply to a call", patience=ROLL_OUT)
    return found


@pytest.fixture(scope="module")
def mixed(routed: Release, begun: Begun) -> Release:
    """Returns once gateways know the service."""
    del routed
    return begun.mixed


def answers_calls(url: str) -> bool:
    with channel(url) as opened, suppress(grpc.RpcError):
        return opened.unary_unary("/example.Talk/Who")(b"", timeout=PATIENCE) is not None
    return False


def test_hosts_and_paths_lead_to_both_services(routed: Release, mixed: Release) -> None:
    replicas = {name: replace(mixed, name=name).pods() for name in ("mixed", "mixed-next")}
    servers = {pod.name for pod in routed.cluster.ready_pods("server")}
    for path, host, expected in [
        ("/mixed", "any.test", replicas["mixed"]),
        ("/", "mixed.test", replicas["mixed"]),
        ("/hello", "any.test", servers),
        ("/", "reference.test", servers),
        # The first matching rule wins.
        ("/hello", "canary.test", replicas["mixed"] | replicas["mixed-next"]),
    ]:
        reply = ask(routed.gateway, path, headers={"host": host})
        assert reply.replica in expected, (path, host)
    for path, host in [("/", "any.test"), ("/mixed2", "any.test"), ("/helloo", "canary")]:
        reply = ask(routed.gateway, path, headers={"host": host})
        assert (reply.status, reply.headers["content-type"]) == (404, "application/problem+json")
        assert reply.replica is None


def test_a_canary_gets_its_share(routed: Release) -> None:
    client = Client(routed.gateway)
    number = 2_000
    versions = Counter(
        client.ask("/", headers={"host": "canary.test"}).body.split()[1] for _ in range(number)
    )
    client.close()
    assert len(versions) == 2
    # Seven standard deviations of a binomial distribution: one false failure in 10^11 runs.
    assert abs(versions[b"mixed-next"] - number * 0.1) < 7 * sqrt(number * 0.1 * 0.9)


# Takes five minutes. The route test also covers long-lived streams.
@pytest.mark.nightly
def test_a_stream_without_events_lives_by_its_heartbeats(routed: Release) -> None:
    with connect(routed.gateway) as client:
        client.sendall(b"GET /mixed/events HTTP/1.1\r\nhost: gateway\r\n\r\n")
        received = b""
        while received.count(HEARTBEAT) < 300:
            data = client.recv(65536)
            assert data, f"it ended: {received[-200:]!r}"
            received += data
    assert received.startswith(b"HTTP/1.1 200 ")


def autoscale(mixed: Release, replicas: int) -> None:
    """Scales the other service with a fixed autoscaler."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "mixed"}
    # With equal bounds, no metric is needed.
    spec = {"scaleTargetRef": target, "minReplicas": replicas, "maxReplicas": replicas}
    made = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": spec}
    made["metadata"] = {"name": "mixed"}
    mixed.cluster.kubectl("apply", "--filename", "-", stdin=json.dumps(made))
    eventually(
        lambda: len(mixed.pods()) == replicas, "its replicas", patience=ROLL_OUT, pause=PAUSE
    )
    mixed.cluster.kubectl("rollout", "status", "deployment/mixed")


@dataclass(frozen=True)
class Rolled:
    """Results that clients saw during a rollout or scale-down."""

    load: Load
    exchanges: Exchanges
    old: set[str]
    new: set[str]
    all_go: bool

    def seen(self, kind: object) -> Seen:
        return self.exchanges.seen(kind)

    def least(self, clients: int) -> int:
        return clients if self.all_go else 1


@pytest.fixture(
    scope="module", params=["roll out", pytest.param("scale", marks=pytest.mark.nightly)]
)
def rolled(routed: Release, mixed: Release, request: pytest.FixtureRequest) -> Iterator[Rolled]:
    """Runs all kinds of clients during a rollout or a scale-down from three replicas."""
    rolls = request.param == "roll out"
    if not rolls:
        autoscale(mixed, 3)
    old = mixed.pods()
    kinds = {messages: 8, events: 4, calls: 4, talks: 4}
    # The gateway prefers replicas with fewer open requests. Uneven streams can keep plain requests
    # away from a replica, so wait for each replica only while there are no streams.
    with routed.load(path="/mixed", rate=100.0) as load:
        for pod in old:
            load.wait_for(1, pod)
        with Exchanges(routed.gateway, kinds) as exchanges:
            exchanges.wait_for_each(1)
            if rolls:
                mixed.cluster.kubectl("set", "env", "deployment/mixed", "VERSION=new")
                mixed.cluster.kubectl("rollout", "status", "deployment/mixed")
                eventually(
                    lambda: not old & mixed.pods(),
                    "the end of the old",
                    patience=ROLL_OUT,
                    pause=PAUSE,
                )
            else:
                autoscale(mixed, 1)
            exchanges.wait_for_each(1)
        new = mixed.pods()
        for pod in new:
            load.wait_for(1, pod)
    for kind in kinds:
        seen = exchanges.seen(kind)
        print(f"\n{kind.__name__}: {seen.got} in {seen.begun} sessions, {dict(seen.ends)}", end="")
    print(f"\n{load.total} requests, {len(load.failures)} failed")
    yield Rolled(load, exchanges, old, new, rolls)
    if not rolls:
        autoscale(mixed, 2)
        mixed.cluster.kubectl("delete", "hpa", "mixed")


def test_an_end_of_replicas_fails_no_plain_request(rolled: Rolled) -> None:
    assert not rolled.load.failures, rolled.load.failures[:10]
    assert set(rolled.load.replies) == rolled.old | rolled.new


def test_an_end_of_replicas_closes_websockets_and_others_open(rolled: Rolled) -> None:
    seen = rolled.seen(messages)
    assert set(seen.ends) == {"closed"}
    # Sessions end at least once if all of their replicas are replaced.
    assert seen.ends["closed"] >= rolled.least(8)
    assert seen.begun > seen.ends["closed"]


def test_an_end_of_replicas_says_bye_to_streams_of_events(rolled: Rolled) -> None:
    seen = rolled.seen(events)
    assert set(seen.ends) == {"bye"}
    assert seen.ends["bye"] >= rolled.least(4)


def test_an_end_of_replicas_fails_no_unary_call(rolled: Rolled) -> None:
    assert not rolled.seen(calls).ends


def test_an_end_of_replicas_ends_calls_that_stream_with_a_status(rolled: Rolled) -> None:
    seen = rolled.seen(talks)
    assert set(seen.ends) == {"UNAVAILABLE: this replica drains"}
    assert seen.ends.total() >= rolled.least(4)


def gateways(release: Release) -> dict[str, list[str]]:
    return {
        pod["metadata"]["uid"]: sorted(x["containerID"] for x in pod["status"]["containerStatuses"])
        for pod in release.cluster.items(
            "pods", "--selector", "app.kubernetes.io/name=corelane-gateway"
        )
    }


def change(
    release: Release, routes: list[dict], followed: Callable[[str], bool], urls: list[str]
) -> str:
    """Changes routes and waits for every gateway; returns the duration."""

    def wait(url: str) -> float:
        eventually(lambda: followed(url), "the new routes", patience=ROLL_OUT)
        return time.monotonic() - begun

    write(release, routes)
    with ThreadPoolExecutor() as pool:
        begun = time.monotonic()
        seconds = [pool.submit(wait, url) for url in urls]
        release.upgrade(wait=False)
        upgraded = time.monotonic() - begun
    took = ", ".join(f"{each.result():.2f}" for each in seconds)
    return f"the gateways follow after {took} s, of which helm took {upgraded:.2f} s"


@pytest.mark.parametrize("number", [3_000, pytest.param(20_000, marks=pytest.mark.nightly)])
def test_routes_change_under_load_without_new_gateways(routed: Release, number: int) -> None:
    # CoreDNS, in a namespace the gateway could not read before.
    added = {"name": "added", "path": {"exact": "/ready"}, "health": {"tcp": True}}
    added["service"] = {"name": "kube-dns", "namespace": "kube-system", "port": 8181}
    turned = [{**MIXED, "weight": 0}, {**NEXT, "weight": 1}]
    turned = [{**x, "services": turned} if x["name"] == "canary" else x for x in ROUTES]

    def canary(url: str) -> set[bytes]:
        asked = [ask(url, "/", headers={"host": "canary.test"}) for _ in range(20)]
        return {reply.body.split()[1] for reply in asked}

    changes = {
        "a route comes": ([added, *ROUTES], lambda url: ask(url, "/ready").status == 200),
        "weights change": ([added, *turned], lambda url: canary(url) == {b"mixed-next"}),
        "a route goes": (ROUTES, lambda url: ask(url, "/ready").status == 404),
    }
    before = gateways(routed)
    with ExitStack() as stack:
        urls = stack.enter_context(routed.each_gateway())
        load = stack.enter_context(routed.load(rate=400.0))
        kinds = {messages: 4, talks: 2, events: 2}
        exchanges = stack.enter_context(Exchanges(routed.gateway, kinds))
        exchanges.wait_for_each(1)
        for what, (routes, followed) in changes.items():
            print(f"\n{what}: {change(routed, routes, followed, urls)}", end="")
        exchanges.wait_for_each(1)
        # Heartbeats are rarer than the idle timeout.
        beats = kinds[events] * (IDLE + 2)
        eventually(lambda: exchanges.seen(events).got >= beats, "heartbeats", patience=ROLL_OUT)
        load.wait_for(max(0, number - load.total), patience=ROLL_OUT)
    print(f"\n{load.total} requests, {len(load.failures)} failed")
    assert not load.failures, load.failures[:10]
    for kind in kinds:
        assert not exchanges.seen(kind).ends
    assert gateways(routed) == before


GROUP = "gateway.networking.k8s.io"
TEAM = "team.test"


class TeamClient(Client):
    def ask(self, path: str, *arguments: Any, **options: Any) -> Reply:
        return super().ask(path, *arguments, headers={"host": TEAM}, **options)


def team_route(release: Release, *names: str) -> str:
    """An HTTPRoute in the other namespace to one or more equivalent services."""
    parent = {"name": f"{release.name}-gateway", "namespace": release.cluster.namespace}
    backends = [{"name": name, "port": 8080, "weight": 1} for name in names]
    rules = [{"backendRefs": backends}]
    spec = {"parentRefs": [parent], "hostnames": [TEAM], "rules": rules}
    kind = {"apiVersion": f"{GROUP}/v1", "kind": "HTTPRoute", "metadata": {"name": "team"}}
    return json.dumps({**kind, "spec": spec})


@pytest.fixture
def objects(routed: Release, mixed: Release) -> Iterator[Release]:
    """Adds routes from objects in all namespaces."""
    definitions = str(gateway_api.definitions())
    mixed.cluster.kubectl("apply", "--server-side", "--filename", definitions)
    mixed.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")
    more = {"routeObjects": {"enabled": True, "allowedNamespaces": "All"}}
    before = routed.values[-1].read_text()
    routed.values[-1].write_text(json.dumps({"gateway": {"routes": ROUTES, **more}}))
    routed.upgrade()
    routed.cluster.wait_for_pods("gateway", 2)
    yield routed
    routed.values[-1].write_text(before)
    routed.upgrade()
    routed.cluster.wait_for_pods("gateway", 2)
    mixed.cluster.kubectl("delete", "--filename", definitions)


def team(url: str) -> str:
    """Version served at the team's host, or the error status."""
    reply = ask(url, "/", headers={"host": TEAM})
    return reply.body.split()[1].decode() if reply.status == 200 else str(reply.status)


@pytest.mark.nightly
def test_a_team_adds_changes_and_deletes_its_route_under_load(
    objects: Release, mixed: Release
) -> None:
    cluster = objects.cluster
    for namespace in (cluster.namespace, NAMESPACE):
        labels = cluster.get("namespace", namespace)["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    policies = [it["metadata"]["name"] for it in cluster.items("networkpolicies")]
    assert f"{objects.name}-gateway" in policies

    def apply(*names: str) -> None:
        mixed.cluster.kubectl("apply", "--filename", "-", stdin=team_route(objects, *names))

    def everywhere(wanted: Callable[[str], bool], what: str) -> None:
        for url in urls:
            eventually(lambda url=url: wanted(team(url)), what, patience=ROLL_OUT)

    before = gateways(objects)
    with ExitStack() as stack:
        urls = stack.enter_context(objects.each_gateway())
        others = stack.enter_context(objects.load(path="/mixed"))
        everywhere(lambda version: version == "404", "no route yet")
        apply("mixed")
        everywhere(lambda version: version in ("mixed", "new"), "the route")
        (parent,) = mixed.cluster.get("httproute", "team")["status"]["parents"]
        assert {it["type"]: it["status"] for it in parent["conditions"]} == {
            "Accepted": "True",
            "ResolvedRefs": "True",
        }
        with objects.load(path="/", connect=TeamClient) as own:
            apply("mixed-next")
            everywhere(lambda version: version == "mixed-next", "another service")
            own.wait_for(500, patience=ROLL_OUT)
            apply("mixed", "mixed-next")
            everywhere(lambda version: version in ("mixed", "new"), "both services")
            own.wait_for(500, patience=ROLL_OUT)
        mixed.cluster.kubectl("delete", "httproute", "team")
        everywhere(lambda version: version == "404", "no route any more")
        others.wait_for(500, patience=ROLL_OUT)
    print(f"\n{own.total} and {others.total} requests")
    assert not own.failures, own.failures[:10]
    assert not others.failures, others.failures[:10]
    assert gateways(objects) == before
