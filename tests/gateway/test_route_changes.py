"""Routes change while the real Envoy runs: the agent applies the chart's ConfigMap."""

import http.client
import json
import socket
import ssl
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from stack import PATIENCE, eventually
from stack.apiserver import Api, own_address
from stack.gateway import Gateway, gateway_to
from stack.http import ask
from stack.http_server import Request, serving
from stack.load import Load
from stack.ports import free_ports
from stack.rendering import config_maps
from stack.replica import Server
from support.raw import UPGRADE, connect, upgrading
from support.slices import ACCOUNT, READY, Agents, EndpointsAgent, Slices, Wire

MAP = "routes"
BAD = {"path": {"regex": "(a{1000}){1000}"}}
"""Envoy rejects the expression, which the chart cannot check."""


@dataclass
class Routes:
    """The routes' ConfigMap, and the agent and Envoy that follow it."""

    slices: Slices
    folder: Path
    agents: Agents
    admin: int

    def route(self, name: str, to: str = "", **more: object) -> dict:
        """Returns a route to the Service with the same name in the test's namespace."""
        return {"name": name, "service": self.service(to or name), **more}

    def service(self, name: str) -> dict:
        """Returns a reference to a Service, for routes."""
        return {"name": name, "namespace": self.slices.namespace}

    def cluster(self, service: str) -> str:
        """Returns the name of a Service's cluster."""
        return f"{self.slices.namespace}-{service}-http"

    def rendered(self, *routes: dict) -> dict[str, str]:
        """Returns the chart's data for the ConfigMap."""
        values = self.folder / "routes.yaml"
        values.write_text(yaml.safe_dump({"routes": list(routes)}))
        data = config_maps(values=values)[1].items()
        return {key: text.replace("/run/corelane", str(self.folder)) for key, text in data}

    def put(self, *routes: dict) -> None:
        """Writes the ConfigMap of these routes."""
        self.write(self.rendered(*routes))

    def write(self, data: dict[str, str]) -> None:
        """Writes the ConfigMap, in one request to the API server."""
        kubeconfig = json.loads(self.slices.api.kubeconfig.read_text())
        server = urlsplit(kubeconfig["clusters"][0]["cluster"]["server"])
        token = kubeconfig["users"][0]["user"]["token"]
        # The API server creates its own certificate, and it is on loopback.
        context = ssl._create_unverified_context()
        client = http.client.HTTPSConnection(server.hostname, server.port, context=context)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MAP}, "data": data}
        path = f"/api/v1/namespaces/{self.slices.namespace}/configmaps/{MAP}"
        media = {"content-type": "application/apply-patch+yaml"}
        headers = {"authorization": f"Bearer {token}", **media}
        client.request("PATCH", f"{path}?fieldManager=test", json.dumps(body), headers)
        reply = client.getresponse()
        assert reply.status in (200, 201), reply.read()
        client.close()

    @contextmanager
    def agent(self, *within: str) -> Iterator[EndpointsAgent]:
        """Starts an agent, which is killed at the end; `within` is a command prefix."""
        flags = (f"--routes={self.slices.namespace}/{MAP}", f"--envoy-admin=127.0.0.1:{self.admin}")
        with self.agents.run(None, *flags, within=within) as agent:
            yield agent

    @contextmanager
    def envoy(self) -> Iterator[Gateway]:
        """Starts Envoy with the parts that do not depend on routes."""
        routes = [{"name": "any", "service": {"name": "any"}}]
        values = {"routes": routes, "upstream": {"discovery": "eds"}, "admin": {"port": self.admin}}
        with gateway_to([], self.folder, values, dynamic=True) as gateway:
            yield gateway


@pytest.fixture
def routes(api: Api, wire: Wire, tmp_path: Path) -> Iterator[Routes]:
    """Yields an empty namespace; no process is running yet."""
    with api.namespace() as namespace:
        agents = Agents(tmp_path, namespace, wire)
        yield Routes(Slices(api, namespace), tmp_path, agents, free_ports(1))


@pytest.fixture
def served(start: Callable[..., Server], routes: Routes) -> Callable[..., None]:
    """Starts a Service with one replica."""

    def serve(name: str, slices: Slices = routes.slices, health: int = 0) -> None:
        server = start("--lanes", "1", replica=name, address=own_address())
        ports = (urlsplit(server.url).port, health or urlsplit(server.admin).port)
        slices.put(name, (own_address(), READY), ports=ports, service=name)

    return serve


@pytest.fixture
def slow() -> Iterator[int]:
    """Yields a health check port that is healthy, but responds only after most of a check's timeout."""

    def answer(request: Request) -> None:
        time.sleep(0.6)
        request.reply()

    with serving(answer, own_address()) as url:
        yield urlsplit(url).port


@pytest.fixture
def chat(start: Callable[..., Server], routes: Routes) -> Iterator[None]:
    """Starts the "chat" Service, whose replica accepts one connection and echoes the data after the
    upgrade."""
    healthy = start("--lanes", "1", address=own_address())
    with upgrading(own_address()) as port:
        ports = (port, urlsplit(healthy.admin).port)
        routes.slices.put("chat", (own_address(), READY), ports=ports, service="chat")
        yield


def changes(agent: EndpointsAgent, outcome: str) -> int:
    """Returns the number of changes with this outcome."""
    name = f'corelane_gateway_agent_route_changes_total{{outcome="{outcome}"}} '
    lines = ask(agent.url, "/metrics").body.decode().splitlines()
    return next(int(line.removeprefix(name)) for line in lines if line.startswith(name))


def current(agent: EndpointsAgent) -> bool:
    """Whether the agent reports that Envoy uses the newest routes."""
    return "corelane_gateway_agent_routes_current 1\n" in ask(agent.url, "/metrics").body.decode()


def clusters(gateway: Gateway) -> set[str]:
    """Returns Envoy's clusters."""
    found = json.loads(ask(gateway.admin, "/clusters?format=json").body)["cluster_statuses"]
    return {each["name"] for each in found}


def echoes(peer: socket.socket, words: bytes) -> bool:
    """Whether a WebSocket still echoes."""
    peer.sendall(words)
    return peer.recv(65536) == words


def test_changes_lose_no_request_and_no_connection(
    routes: Routes, served: Callable[..., None], chat: None, slow: int
) -> None:
    served("one")
    served("two", health=slow)
    one, two = routes.route("one"), routes.route("two")
    sockets = routes.route("chat", path={"prefix": "/chat"}, upgrade=["websocket"])
    routes.put(sockets, one)
    with routes.agent() as agent:
        agent.wait_until_ready()
        assert agent.status("/routesz") == 503
        with routes.envoy() as gateway, connect(gateway.url) as peer:
            eventually(lambda: agent.status("/routesz") == 200, "routes that Envoy has taken")
            peer.sendall(UPGRADE % b"/chat")
            assert peer.recv(65536).startswith(b"HTTP/1.1 101 ")
            with Load(gateway.url, clients=4) as load:
                load.wait_for(50, "one")
                connections = gateway.counted("listener.ingress.downstream_cx_total")
                # A service that is new to Envoy and must be checked before it gets requests.
                routes.put(sockets, {**two, "path": {"prefix": "/hello"}}, one)
                load.wait_for(50, "two")
                # Another order only.
                routes.put(sockets, one, {**two, "path": {"prefix": "/hello"}})
                load.wait_for(50, "one")
                # Other weights.
                both = [{**routes.service(name), "weight": 5} for name in ("one", "two")]
                routes.put(sockets, {"name": "both", "services": both})
                load.wait_for(50, "one")
                load.wait_for(50, "two")
                # A cluster with different settings.
                routes.put(sockets, {**two, "balancing": "round-robin"})
                eventually(lambda: changes(agent, "applied") == 5, "the fifth change")
                # Its replica is the same, and Envoy is removing the "one" cluster.
                assert echoes(peer, b"still here")
                routes.put(two)
                left = routes.cluster("two")
                gone = [agent.file_of(routes.cluster(name)) for name in ("one", "chat")]
                eventually(
                    lambda: (
                        not any(map(Path.exists, gone)) and clusters(gateway) == {"admin", left}
                    ),
                    "removed clusters",
                    # The WebSocket keeps them alive for a while.
                    patience=2 * PATIENCE,
                )
                load.wait_for(50, "two")
                # Its route and its cluster no longer exist.
                assert echoes(peer, b"and here")
                assert gateway.counted("listener.ingress.downstream_cx_total") == connections
                assert changes(agent, "rejected") == 0
            assert not load.failures, load.failures[:10]
            assert gateway.process.running


def test_what_envoy_rejects_changes_nothing(routes: Routes, served: Callable[..., None]) -> None:
    for name in ("one", "two"):
        served(name)
    good = routes.rendered(routes.route("one"))
    routes.write(good)
    with routes.agent() as agent:
        agent.wait_until_ready()
        with routes.envoy() as gateway, Load(gateway.url, clients=2) as load:
            eventually(lambda: current(agent), "the first routes")
            files = [routes.folder / f"{name}.json" for name in ("all_clusters", "all_routes")]
            known = [file.read_text() for file in files]
            # The rejection is complete: the new cluster also disappears.
            routes.put(routes.route("two", **BAD), routes.route("one"))
            eventually(lambda: changes(agent, "rejected") == 1, "a rejected change")
            eventually(lambda: [file.read_text() for file in files] == known, "the former files")
            assert not agent.file_of(routes.cluster("two")).exists()
            assert (current(agent), agent.status("/readyz"), agent.status("/routesz")) == (
                False,
                200,
                200,
            )
            (said,) = agent.logged("Envoy rejected the routes")
            assert said["level"] == "ERROR"
            # A bad cluster, and a file that is not JSON.
            clusters = good["clusters.json"].replace('"connect_timeout":"', '"connect_timeout":"-')
            routes.write({**good, "clusters.json": clusters})
            eventually(lambda: changes(agent, "rejected") == 2, "rejected clusters")
            routes.write({**good, "routes.json": "{"})
            eventually(lambda: changes(agent, "rejected") == 3, "an unreadable ConfigMap")
            assert agent.logged(f"{MAP}: routes.json: EOF")
            load.wait_for(50, "one")
            routes.put(routes.route("two"))
            load.wait_for(50, "two")
            eventually(lambda: current(agent), "the last routes")
        assert not load.failures, load.failures[:10]


def test_a_pod_whose_first_routes_are_rejected_is_not_ready(
    routes: Routes, served: Callable[..., None]
) -> None:
    served("one")
    routes.put(routes.route("one", **BAD))
    with routes.agent() as agent:
        agent.wait_until_ready()
        with routes.envoy() as gateway:
            eventually(lambda: changes(agent, "rejected") == 1, "rejected routes")
            assert (agent.status("/readyz"), agent.status("/routesz")) == (200, 503)
            routes.put(routes.route("one"))
            eventually(lambda: agent.status("/routesz") == 200, "routes that Envoy has taken")
            assert ask(gateway.url, "/hello").replica == "one"


def test_an_agent_that_starts_again_goes_on(routes: Routes, served: Callable[..., None]) -> None:
    for name in ("one", "two"):
        served(name)
    routes.put(routes.route("one"))
    with routes.agent() as agent:
        agent.wait_until_ready()
        with routes.envoy() as gateway, Load(gateway.url, clients=2) as load:
            for number in range(6):
                # The agent is killed at a different moment of each change.
                name = ("two", "one")[number % 2]
                routes.put(routes.route(name))
                threading.Event().wait(0.02 * number)
                agent.kill()
                agent.wait(PATIENCE)
                with routes.agent() as agent_after:
                    load.wait_for(20, name)
                    eventually(
                        lambda: agent_after.status("/routesz") == 200, "an agent that is ready"
                    )
                    agent = agent_after
            # Without an API server, the agent keeps Envoy's current routes.
            routes.agents.wire.cut()
            with routes.agent() as last:
                eventually(lambda: last.status("/routesz") == 200, "an agent that is ready")
                assert last.status("/readyz") == 200
            load.wait_for(20, "one")
        assert not load.failures, load.failures[:10]


def test_a_change_waits_until_the_agent_may_read_its_services(
    api: Api, served: Callable[..., None], tmp_path: Path
) -> None:
    with api.namespace() as here, api.namespace() as there:
        near, far = Slices(api, here), Slices(api, there)
        wire = Wire(api, tmp_path, near.account())
        near.permit(here)
        # The rights match the chart: they cover this ConfigMap and no other.
        named = ("--verb=get,list,watch", "--resource=configmaps", f"--resource-name={MAP}")
        bound = (f"--role={MAP}", f"--serviceaccount={here}:{ACCOUNT}")
        for made in (("role", MAP, *named), ("rolebinding", MAP, *bound)):
            result = api.kubectl("create", *made, "--namespace", here)
            assert result.returncode == 0, result.stderr
        wire.join()
        routes = Routes(near, tmp_path, Agents(tmp_path, here, wire), free_ports(1))
        served("one", near)
        served("two", far)
        routes.put(routes.route("one"))
        with routes.agent() as agent:
            agent.wait_until_ready()
            with routes.envoy() as gateway:
                eventually(lambda: current(agent), "the first routes")
                other = {"name": "two", "service": {"name": "two", "namespace": there}}
                routes.put(other)
                assert agent.logged("verbs list and watch on endpointslices")
                assert (current(agent), ask(gateway.url, "/hello").replica) == (False, "one")
                far.permit(here)
                eventually(lambda: ask(gateway.url, "/hello").replica == "two", "the new route")
                eventually(lambda: current(agent), "the new routes")
        wire.cut()


def test_routes_that_would_abort_envoy_are_not_applied(routes: Routes) -> None:
    """Each service uses one inotify instance, and the kernel limits the instances per user."""
    limit = "/proc/sys/user/max_inotify_instances"
    script = f'echo 14 > {limit} && exec "$0" "$@"'
    routes.put(*(routes.route(name, path={"prefix": f"/{name}"}) for name in ("a", "b", "c")))
    with routes.agent("unshare", "--user", "--map-root-user", "sh", "-c", script) as agent:
        (said,) = agent.logged("not applied yet: 3 new or changed services need")
        assert "fs.inotify.max_user_instances" in said["message"]
        assert (agent.status("/readyz"), agent.status("/healthz")) == (503, 200)
        assert "fs.inotify.max_user_instances" in agent.missing()
        inside = ("nsenter", f"--target={agent.pid}", "--user", "--preserve-credentials")
        raised = [*inside, "sh", "-c", f"echo 15 > {limit}"]
        assert subprocess.run(raised, check=False).returncode == 0
        agent.wait_until_ready()


def test_twenty_changes_under_load(routes: Routes, served: Callable[..., None]) -> None:
    """Prints the duration of a change, from the write to the first response on its route."""
    names = [f"s{number}" for number in range(3)]
    for name in names:
        served(name)
    routes.put(routes.route(names[0]))
    with routes.agent() as agent:
        agent.wait_until_ready()
        with routes.envoy() as gateway, Load(gateway.url, clients=8) as load:
            taken = []
            prepared = [routes.rendered(routes.route(names[turn % 3])) for turn in range(1, 25)]
            for turn, data in enumerate(prepared, 1):
                name = names[turn % 3]
                load.first.pop(name, None)
                begun = time.monotonic()
                routes.write(data)
                eventually(lambda name=name: name in load.first, f"a reply of {name}")
                taken.append(1000 * (load.first[name] - begun))
                load.wait_for(900)
            total = load.total
        assert not load.failures, load.failures[:10]
    middle = statistics.median(taken)
    figures = f"{middle:.0f} ms ({min(taken):.0f} to {max(taken):.0f}) over {len(taken)} changes"
    print(f"\nwrite to first routed request: {figures}; {total} requests, none lost")
    assert total >= 20_000
