"""A service calls another one directly: `shop` (services/examples/cart.rs) calls three replicas of
`orders`. Each disruption of `orders` runs under 300 requests per second, of which none may fail.

`make e2e TESTS="-k services_call -s"` prints each disruption's requests and p99.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from deploy import images
from stack import SLOWER, eventually
from stack.http import Client, Reply, ask
from stack.load import Load
from support.kubernetes import PAUSE, ROLL_OUT, Cluster, Pod
from support.pinning import processes_of
from support.releases import Release, beside

NAMESPACE = "corelane-calls"
PATH = "/orders/7"
TAKES = 0.005
"""Seconds for an order."""

REQUESTS = int(20_000 / SLOWER)
"""During each disruption."""

ROUTES = [
    {
        "name": name,
        "hosts": [f"{name}.test"],
        "service": {"name": name, "namespace": NAMESPACE},
    }
    for name in ("shop", "front", "lonely")
]


def cart(calls: str, **more: Any) -> dict:
    """Values of a service that calls another one."""
    return {
        "command": ["/cart"],
        "replicas": 2,
        "config": {"orders": {"url": f"http://{calls}:8080"}, **more.pop("config", {})},
        "networkPolicy": {"presets": {"services": [{"service": calls}]}},
        **more,
    }


@dataclass(frozen=True)
class Services:
    """`front` calls `shop`, which calls `orders`. `lonely` also calls `orders`, which does not list
    it.
    """

    platform: Release
    orders: Release
    shop: Release

    @property
    def cluster(self) -> Cluster:
        return self.orders.cluster

    def ask(self, host: str = "shop") -> Reply:
        return ask(self.platform.gateway, PATH, headers={"host": f"{host}.test"})

    def answers(self, host: str) -> bool:
        """False while the first route replaces the gateways."""
        with suppress(OSError):
            return self.ask(host).status == 200
        return False

    def load(self) -> Load:
        """Counts the replies of each replica of `orders`."""
        rate = 300.0 / SLOWER
        return Load(self.platform.gateway, PATH, clients=24, connect=Shopper, rate=rate)

    def pods(self) -> list[Pod]:
        """Ready replicas of `orders`."""
        found = self.cluster.items("pods", "--selector", "corelane/service=orders")
        return [pod for pod in map(Pod.of, found) if pod.ready and not pod.ending]

    def settled(self, count: int = 3) -> list[Pod]:
        def all_ready() -> list[Pod]:
            pods = self.pods()
            return pods if len(pods) == count == len(self.orders.pods()) else []

        return eventually(all_ready, f"{count} replicas", patience=ROLL_OUT, pause=PAUSE)

    def counted(self, pod: str, name: str, **labels: str) -> float:
        """A counter of a replica, summed over its other labels."""
        with self.cluster.forwarded(pod, 8081) as url:
            lines = ask(url, "/metrics").body.decode().splitlines()
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        series = [line for line in lines if re.match(rf"{name}[{{ ]", line)]
        return sum(
            float(line.split(" # ")[0].rpartition(" ")[2])
            for line in series
            if all(label in line for label in wanted)
        )


class Shopper(Client):
    """Names the replica of `orders`, which is the last word of the body, instead of the replica of
    `shop`.
    """

    def ask(self, path: str, *arguments: Any, **options: Any) -> Reply:
        reply = super().ask(path, *arguments, headers={"host": "shop.test"}, **options)
        if reply.status != 200:
            return reply
        named = {"corelane-replica": reply.body.split()[-1].decode()}
        return replace(reply, headers={**reply.headers, **named})


@pytest.fixture(scope="module")
def services(deployed: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    folder = tmp_path_factory.mktemp("calls")
    image = {"repository": "corelane-calls", "tag": images.load_as("calls", "")}
    values = {
        "orders": {
            "replicas": 3,
            "env": [{"name": "CORELANE_FAULTS", "value": "on"}],
            "networkPolicy": {"callers": [{"service": "shop"}]},
        },
        "shop": cart(
            "orders",
            networkPolicy={
                "presets": {"services": [{"service": "orders"}]},
                "callers": [{"service": "front"}],
            },
        ),
        # Its client has 100 ms for each request.
        "front": cart("shop", config={"timeouts": {"request": "100ms"}}, replicas=1),
        "lonely": cart("orders", replicas=1),
    }
    file = folder / "routes.yaml"
    file.write_text(json.dumps({"gateway": {"routes": ROUTES}}))
    platform = replace(deployed, values=[*deployed.values, file])
    with deployed.cluster.restricted(NAMESPACE) as own, ThreadPoolExecutor() as pool:
        made = {
            name: beside(
                deployed, own, name, folder, {"image": {**image, "pullPolicy": "Never"}, **each}
            )
            for name, each in values.items()
        }
        list(pool.map(Release.upgrade, made.values()))
        platform.upgrade()
        found = Services(platform, made["orders"], made["shop"])
        for name in ("shop", "front"):
            eventually(lambda name=name: found.answers(name), name, patience=ROLL_OUT)
        yield found


@contextmanager
def unnoticed(services: Services, what: str) -> Iterator[Load]:
    """Load during a disruption and until the number of requests is reached, without a failure."""
    with services.load() as load:
        yield load
        load.wait_for(max(0, REQUESTS - load.total), patience=ROLL_OUT)
    print(f"\n{what}: {load.total} requests, {len(load.failures)} failed, p99 {p99(load):.1f} ms")
    assert not load.failures, load.failures[:10]


def p99(load: Load) -> float:
    took = sorted(took for _, took in load.times)
    return 1e3 * took[int(len(took) * 0.99)]


def test_a_rollout_and_its_rollback_fail_no_call(services: Services) -> None:
    before = {pod.name for pod in services.settled()}
    revision = services.orders.revision
    with unnoticed(services, "rollout") as load:
        services.orders.upgrade("podLabels.version=next")
        for pod in services.settled():
            load.wait_for(1, pod.name, patience=ROLL_OUT)
            assert pod.name not in before
    with unnoticed(services, "rollback") as load:
        services.orders.rollback(revision)
        for pod in services.settled():
            load.wait_for(1, pod.name, patience=ROLL_OUT)


def test_killed_replicas_fail_no_call(services: Services) -> None:
    with unnoticed(services, "kill -9") as load:
        for victim in services.settled():
            load.wait_for(100, victim.name, patience=ROLL_OUT)
            (process,) = processes_of(victim.uid)
            process.kill()
            # Its successor runs in the same pod.
            eventually(
                lambda victim=victim: any(
                    pod.uid == victim.uid and pod.restarts > victim.restarts
                    for pod in services.pods()
                ),
                "the container's restart",
                patience=ROLL_OUT,
                pause=PAUSE,
            )
            load.wait_for(100, victim.name, patience=ROLL_OUT)


def test_a_drained_node_fails_no_call(services: Services) -> None:
    cluster = services.cluster
    node = services.settled()[0].node
    with unnoticed(services, "node drain"):
        try:
            drain = ("drain", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout")
            cluster.kubectl(*drain, f"{ROLL_OUT:.0f}s", node)
            assert node not in {pod.node for pod in services.settled()}
        finally:
            cluster.kubectl("uncordon", node)
    services.platform.cluster.wait_for_pods("gateway", 2)


@contextmanager
def slower(services: Services, pods: list[Pod], by: str) -> Iterator[None]:
    """Adds a delay to every order of these replicas."""
    latency = {"fixed": by, "jitter": "0s"}
    fault = {"route": "/orders/{id}", "share": 1, "expires_in": "30m", "latency": latency}
    body = json.dumps({"faults": [fault]}).encode()
    with ExitStack() as stack:
        urls = [stack.enter_context(services.cluster.forwarded(pod.name, 8081)) for pod in pods]
        assert {ask(url, "/faults", "PUT", body=body).status for url in urls} <= {200, 204}
        yield
        for url in urls:
            ask(url, "/faults", "DELETE")


def test_a_slow_replica_gets_fewer_calls(services: Services) -> None:
    """The p99 is printed, because it depends on the machine."""
    slow, *rest = services.settled()
    with unnoticed(services, "all equal") as usual:
        pass
    with slower(services, [slow], f"{TAKES * 1e3:.0f}ms"), unnoticed(services, "one slow") as load:
        pass
    print(f"p99 with a slow replica: {p99(load) / p99(usual):.2f} times", end="")
    assert all(load.replies[slow.name] < load.replies[pod.name] for pod in rest)


def test_a_deadline_at_the_edge_holds_two_hops_down(services: Services) -> None:
    reply = services.ask("front")
    assert reply.status == 200
    left = int(reply.body.split()[2])
    assert 0 < left < 100
    pods = services.settled()

    def cancelled() -> float:
        """Orders that ended at the caller's deadline, or whose caller had gone."""
        late = ("corelane_requests_refused_total", {"reason": "request_timeout"})
        gone = ("corelane_requests_total", {"code": "499"})
        return sum(
            services.counted(pod.name, name, **labels)
            for pod in pods
            for name, labels in (late, gone)
        )

    before = cancelled()
    with slower(services, pods, "10s"):
        begun = time.monotonic()
        late = services.ask("front")
        print(f"\ndeadline of 100 ms: {1e3 * (time.monotonic() - begun):.0f} ms", end="")
        assert late.status == 503
        eventually(lambda: cancelled() > before, "a cancelled order", pause=PAUSE)


def retries(services: Services) -> float:
    pods = services.shop.pods()
    return sum(services.counted(pod, "corelane_client_retries_total") for pod in pods)


def test_an_overload_is_shed_where_it_is(services: Services) -> None:
    """`orders` handles 150 requests per second and gets 300."""
    services.orders.upgrade(
        "config.limits.slots=1", "config.limits.queue=0", "config.order.takes=20ms"
    )
    services.settled()
    before = retries(services)
    found: Counter = Counter()
    client = Shopper(services.platform.gateway)
    with services.load():
        for _ in range(300):
            reply = client.ask(PATH)
            found[reply.status] += 1
            if reply.status == 503:
                assert int(reply.headers["retry-after"]) >= 1
                assert b"urn:corelane:problem:overloaded" in reply.body
    client.close()
    print(f"\noverload: {dict(found)}", end="")
    assert set(found) == {200, 503}
    pods = services.pods()
    shed = [
        services.counted(pod.name, "corelane_requests_refused_total", reason="queue_full")
        for pod in pods
    ]
    assert sum(shed) > 0
    assert retries(services) == before
    services.orders.upgrade()
    services.settled()


def test_a_call_that_a_policy_blocks_names_the_policy(services: Services) -> None:
    reply = services.ask("lonely")
    assert reply.status == 502
    log = services.cluster.kubectl("logs", "deployment/lonely").stdout
    assert "no connection within" in log
    assert "NetworkPolicy" in log
    # A client learns nothing of addresses.
    assert b"8080" not in reply.body
