"""`gateway-agent endpoints` between a real API server and the real Envoy."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from stack import PATIENCE, eventually, programs
from stack.apiserver import Api, own_address
from stack.gateway import Gateway, gateway_to
from stack.http import ask
from stack.load import Load
from stack.rendering import GATEWAY_VALUES, documents
from stack.replica import Server
from support.slices import (
    ENDED,
    ENDING,
    READY,
    SERVICE,
    STARTING,
    Agents,
    EndpointsAgent,
    Slices,
    Wire,
)

ROUTES = [file for file in GATEWAY_VALUES if file.stem == "routes"]
ONE, TWO, THREE = "192.0.2.1", "192.0.2.2", "192.0.2.3"


@pytest.fixture
def slices(api: Api) -> Iterator[Slices]:
    """Yields a namespace without slices."""
    with api.namespace() as namespace:
        yield Slices(api, namespace)


@pytest.fixture
def starter(slices: Slices, wire: Wire, tmp_path: Path) -> Agents:
    """Returns a function that starts agents in the test's folder."""
    return Agents(tmp_path, slices.namespace, wire)


@pytest.fixture
def elsewhere(api: Api) -> Iterator[Slices]:
    """Yields another namespace without slices."""
    with api.namespace() as namespace:
        yield Slices(api, namespace)


def in_front() -> dict:
    """Returns values of a gateway that reads the agent's file."""
    return {"upstream": {"discovery": "eds"}}


def replica(start: Callable[..., Server], name: str) -> tuple[Server, tuple[int, int]]:
    """Starts a server as the target of slices; returns it with its two ports."""
    server = start(replica=name, address=own_address())
    return server, (urlsplit(server.url).port, urlsplit(server.admin).port)


def test_the_file_follows_the_slices(slices: Slices, starter: Agents) -> None:
    slices.put("a", (ONE, READY, "zone-a"), (TWO, READY, "zone-b"), (THREE, STARTING))
    with starter.run() as agent:
        agent.wait_for({ONE: "HEALTHY", TWO: "HEALTHY"})
        agent.wait_until_ready()
        slices.put("a", (ONE, ENDING, "zone-a"), (TWO, READY, "zone-b"), (THREE, READY))
        agent.wait_for({ONE: "DRAINING", TWO: "HEALTHY", THREE: "HEALTHY"})
        (resource,) = json.loads(agent.file.read_text())["resources"]
        zones = [group.get("locality") for group in resource["endpoints"]]
        assert zones == [None, {"zone": "zone-a"}, {"zone": "zone-b"}]
        slices.put("a", (ONE, ENDED, "zone-a"), (TWO, READY, "zone-b"))
        agent.wait_for({TWO: "HEALTHY"})
        # The same endpoint twice, as happens while the slices of a Service are recreated.
        slices.put("b", (TWO, READY), (THREE, READY))
        agent.wait_for({TWO: "HEALTHY", THREE: "HEALTHY"})
        slices.delete("b")
        slices.put("other", (ONE, READY), service="other")
        agent.wait_for({TWO: "HEALTHY"})
        # No endpoint is ready, so Envoy's own checks decide.
        slices.put("a", (TWO, STARTING, "zone-b"), (ONE, ENDED))
        agent.wait_for({TWO: "HEALTHY"})
        unready = 'endpoints{state="unready"}'
        eventually(lambda: agent.metrics()[unready] == 1, "a replica that is not ready")
        before = time.time()
        slices.delete("a")
        agent.wait_for({})
        # The file exists a moment before the agent reports it.
        eventually(lambda: agent.metrics()["writes_total"] >= 6, "six files")
        eventually(lambda: agent.metrics()["last_sync_timestamp_seconds"] >= before, "the deletion")
        figures = agent.metrics()
        # Each change wrote one file. The slice of another Service caused no write, and neither did
        # the second-to-last change.
        assert (figures["writes_total"], figures["lists_total"]) == (6, 1)
        assert (figures["watch_errors_total"], figures["connected"]) == (0, 1)
        assert figures["last_write_timestamp_seconds"] >= before
        agent.terminate()
        assert agent.wait(PATIENCE) == 0


def test_gateways_that_end_have_no_share_of_a_limit(slices: Slices, starter: Agents) -> None:
    slices.put("a", (ONE, READY), (TWO, READY), (THREE, ENDING))
    with starter.run(None, f"--gateways={slices.namespace}/{SERVICE}:http") as agent:
        agent.wait_for({ONE: "HEALTHY", TWO: "HEALTHY", THREE: "DRAINING"})
        agent.wait_for({ONE: "HEALTHY", TWO: "HEALTHY"}, "gateways")
        slices.put("a", (ONE, READY), (TWO, ENDING))
        agent.wait_for({ONE: "HEALTHY"}, "gateways")


def test_envoy_takes_the_file_and_spares_replicas_that_end(
    start: Callable[..., Server], slices: Slices, starter: Agents, tmp_path: Path
) -> None:
    address = own_address()
    (_, first), (_, second) = (replica(start, name) for name in ("first", "second"))
    slices.put("a", (address, READY), ports=first)
    with starter.run() as agent:
        agent.wait_for({address: "HEALTHY"})
        with (
            gateway_to([], tmp_path, in_front()) as gateway,
            Load(gateway.url, clients=4) as load,
        ):
            load.wait_for(50, "first")
            slices.put("b", (address, READY), ports=second)
            load.wait_for(50, "second")
            slices.put("a", (address, ENDING), ports=first)
            eventually(lambda: drains(gateway, first[0]), "the first replica draining")
            # Requests in flight when Envoy received the change.
            before = load.replies["first"] + load.clients
            load.wait_for(200, "second")
            assert load.replies["first"] <= before
            slices.put("a", (address, ENDED), ports=first)
            eventually(lambda: members(gateway) == {second[0]}, "one replica left")
            load.wait_for(50)
        assert not load.failures, load.failures[:10]


def test_a_replica_that_returns_at_its_address_has_no_ejection_left(
    start: Callable[..., Server], slices: Slices, starter: Agents, tmp_path: Path
) -> None:
    address = own_address()
    (_, good), (killed, ports) = (replica(start, name) for name in ("good", "killed"))
    slices.put("a", (address, READY), ports=good)
    slices.put("b", (address, READY), ports=ports)
    # An ejection does not expire within the test.
    outliers = {"ejectionTime": "10m", "maxEjectionTime": "10m"}
    values = {"upstream": {**in_front()["upstream"], "outliers": outliers}}
    with starter.run() as agent:
        agent.wait_until_ready()
        with gateway_to([], tmp_path, values) as gateway, Load(gateway.url, clients=4) as load:
            load.wait_for(20, "killed")
            killed.kill()
            ejected = "cluster.server.outlier_detection.ejections_active"
            eventually(lambda: gateway.counted(ejected) == 1, "an ejection")
            slices.put("b", (address, STARTING), ports=ports)
            eventually(lambda: members(gateway) == {good[0]}, "one replica left")
            killed.start(wait=False)
            slices.put("b", (address, READY), ports=ports)
            load.wait_for(20, "killed")
        assert not load.failures, load.failures[:10]


def test_envoy_goes_on_while_the_api_server_is_away(
    start: Callable[..., Server], slices: Slices, starter: Agents, wire: Wire, tmp_path: Path
) -> None:
    address = own_address()
    (_, first), (_, second) = (replica(start, name) for name in ("first", "second"))
    slices.put("a", (address, READY), ports=first)
    with starter.run() as agent:
        agent.wait_for({address: "HEALTHY"})
        known = agent.file.read_text()
        with (
            gateway_to([], tmp_path, in_front()) as gateway,
            Load(gateway.url, clients=4) as load,
        ):
            wire.cut()
            eventually(lambda: agent.metrics()["watch_errors_total"] >= 3, "failed watches")
            slices.put("b", (address, READY), ports=second)
            agent.kill()
            agent.wait(PATIENCE)
            with starter.run() as next_agent:
                # The previous agent's file suffices to start.
                assert next_agent.status("/readyz") == 200
                figures = next_agent.metrics()
                assert (figures["writes_total"], figures["connected"]) == (0, 0)
                load.wait_for(50, "first")
                assert next_agent.file.read_text() == known
                wire.join()
                load.wait_for(50, "second")
                assert next_agent.metrics()["connected"] == 1
        assert not load.failures, load.failures[:10]


def test_an_agent_without_an_api_server_is_not_ready_and_writes_nothing(
    starter: Agents, wire: Wire, slices: Slices
) -> None:
    wire.cut()
    with starter.run() as agent:
        eventually(lambda: agent.metrics()["watch_errors_total"] >= 2, "failed lists")
        assert (agent.status("/readyz"), agent.endpoints()) == (503, None)
        slices.put("a", (ONE, READY))
        wire.join()
        agent.wait_for({ONE: "HEALTHY"})
        agent.wait_until_ready()


def test_what_did_not_change_is_not_written_again(slices: Slices, starter: Agents) -> None:
    slices.put("a", (ONE, READY))
    with starter.run() as agent:
        agent.wait_for({ONE: "HEALTHY"})
        written = agent.file.stat().st_ino
    with starter.run() as agent:
        eventually(lambda: agent.metrics()["slices"] == 1, "the list")
        assert (agent.metrics()["writes_total"], agent.file.stat().st_ino) == (0, written)


def test_a_slice_above_the_limit_keeps_its_endpoints(slices: Slices, starter: Agents) -> None:
    """`--limit=1` keeps four endpoints, the first of which is in the file."""
    over_limit = "slices_over_limit_total"
    slices.put("a", (ONE, READY))
    slices.put("b", (TWO, READY), (THREE, READY))
    slices.put("c", (THREE, READY), service="pages")
    here = slices.namespace
    both = (f"server={here}/{SERVICE}:http", f"pages={here}/pages:http")
    with starter.run(None, "--limit=1", services=both) as agent:
        agent.wait_for({ONE: "HEALTHY"})
        # The limit applies to each service.
        agent.wait_for({THREE: "HEALTHY"}, "pages")
        assert agent.metrics()[over_limit] == 0
        more = [(f"198.51.100.{number}", READY) for number in range(2)]
        slices.put("a", (ONE, READY), *more)
        eventually(lambda: agent.metrics()[over_limit] == 1, "a slice above the limit")
        slices.put("a", (ONE, ENDING), *more)
        eventually(lambda: agent.metrics()[over_limit] == 2, "the same slice again")
        assert (agent.metrics()["slices"], agent.endpoints()) == (2, {ONE: "HEALTHY"})
        slices.put("b", (TWO, READY))
        slices.put("a", (THREE, READY), *more)
        # The next file shows that the slice is accepted again.
        agent.wait_for({TWO: "HEALTHY"})
        assert (agent.metrics()[over_limit], agent.metrics("pages")[over_limit]) == (2, 0)
        (logged,) = agent.logged("above the limit")
        assert (logged["level"], logged["cluster"]) == ("WARN", "server")


def test_a_service_without_replicas_is_a_file_without_endpoints(starter: Agents) -> None:
    with starter.run() as agent:
        agent.wait_for({})
        agent.wait_until_ready()


def test_a_file_that_cannot_be_written_is_tried_again(
    slices: Slices, starter: Agents, tmp_path: Path
) -> None:
    slices.put("a", (ONE, READY))
    folder = tmp_path / "later"
    with starter.run(folder) as agent:
        eventually(lambda: agent.metrics()["write_errors_total"] >= 1, "a failed write")
        assert agent.status("/readyz") == 503
        folder.mkdir()
        agent.wait_until_ready()


def test_each_service_has_its_own_file(slices: Slices, elsewhere: Slices, starter: Agents) -> None:
    here, there = slices.namespace, elsewhere.namespace
    services = (
        f"server={here}/{SERVICE}:http",
        f"pages={here}/pages:web",
        f"edge={there}/pages:web",
    )
    slices.put("a", (ONE, READY))
    slices.put("b", (TWO, READY), service="pages", names=("web",))
    with starter.run(services=services) as agent:
        agent.wait_for({ONE: "HEALTHY"})
        agent.wait_for({TWO: "HEALTHY"}, "pages")
        # A Service that does not exist yet.
        agent.wait_for({}, "edge")
        agent.wait_until_ready()
        # Health checks use the "admin" port, or the traffic port if there is no such port.
        assert (ports(agent, "server"), ports(agent, "pages")) == ([(8080, 8081)], [(8080, 8080)])
        elsewhere.put("a", (THREE, READY), service="pages", names=("web",))
        agent.wait_for({THREE: "HEALTHY"}, "edge")
        # A slice that moves to another Service.
        slices.put("a", (ONE, READY), service="pages", names=("web",))
        agent.wait_for({ONE: "HEALTHY", TWO: "HEALTHY"}, "pages")
        agent.wait_for({})
        # A Service that is deleted and recreated.
        elsewhere.delete("a")
        agent.wait_for({}, "edge")
        elsewhere.put("b", (TWO, READY), service="pages", names=("web",))
        agent.wait_for({TWO: "HEALTHY"}, "edge")
        # Without the port, the cluster has no endpoints, and the log names the Service.
        elsewhere.put("b", (TWO, READY), service="pages", names=("other",))
        agent.wait_for({}, "edge")
        eventually(
            lambda: agent.metrics("edge")['endpoints{state="left_out"}'] == 1, "one left out"
        )
        (said,) = agent.logged("has no port")
        assert (said["level"], said["cluster"], said["port"]) == ("WARN", "edge", "web")
        for cluster in ("server", "pages", "edge"):
            figures = agent.metrics(cluster)
            assert (figures["lists_total"], figures["watch_errors_total"]) == (1, 0), cluster
        assert agent.metrics()["writes_total"] == 2


def test_a_namespace_without_permission_does_not_stop_the_others(
    api: Api, slices: Slices, elsewhere: Slices, tmp_path: Path
) -> None:
    here, there = slices.namespace, elsewhere.namespace
    wire = Wire(api, tmp_path, slices.account())
    slices.permit(here)
    wire.join()
    slices.put("a", (ONE, READY))
    elsewhere.put("a", (TWO, READY), service="pages")
    starter = Agents(tmp_path, here, wire)
    services = (f"server={here}/{SERVICE}:http", f"pages={there}/pages:http")
    with starter.run(services=services) as agent:
        agent.wait_for({ONE: "HEALTHY"})
        eventually(lambda: agent.metrics("pages")["watch_errors_total"] >= 2, "rejected lists")
        assert (agent.metrics("pages")["connected"], agent.endpoints("pages")) == (0, None)
        assert (agent.status("/readyz"), agent.status("/healthz")) == (503, 200)
        words = agent.missing()
        assert words.startswith(f"no endpoints of pages ({there}/pages): API server: 403 ")
        assert words.count("\n") == 1, words
        said = agent.logged("verbs list and watch on endpointslices")
        assert {(each["level"], each["namespace"]) for each in said} == {("WARN", there)}
        # The agent still follows the other namespace.
        slices.put("a", (THREE, READY))
        agent.wait_for({THREE: "HEALTHY"})
        figures = agent.metrics()
        assert (figures["watch_errors_total"], figures["connected"]) == (0, 1)
        elsewhere.permit(here)
        agent.wait_for({TWO: "HEALTHY"}, "pages")
        agent.wait_until_ready()
    elsewhere.forbid()
    known = agent.file_of("pages").read_text()
    with starter.run(services=services) as agent:
        # The previous agent's file remains.
        assert agent.status("/readyz") == 200
        eventually(lambda: agent.metrics("pages")["watch_errors_total"] >= 2, "rejected lists")
        eventually(lambda: agent.metrics()["slices"] == 1, "the list of the other namespace")
        assert (agent.status("/readyz"), agent.file_of("pages").read_text()) == (200, known)
    wire.cut()


def test_envoy_reads_only_the_file_that_changes(
    slices: Slices, starter: Agents, tmp_path: Path
) -> None:
    def two_clusters(configuration: dict) -> None:
        resources = configuration["static_resources"]
        (server,) = (each for each in resources["clusters"] if each["name"] == "server")
        source = {"path_config_source": {"path": str(tmp_path / "pages.json")}}
        eds = {"eds_cluster_config": {"eds_config": source}}
        resources["clusters"].append({**server, "name": "pages", **eds})

    here = slices.namespace
    slices.put("a", (ONE, READY))
    slices.put("b", (ONE, READY), service="pages")
    services = (f"server={here}/{SERVICE}:http", f"pages={here}/pages:http")
    with starter.run(services=services) as agent:
        agent.wait_until_ready()
        # Envoy waits for the first check, to which nothing responds.
        values = {"upstream": {**in_front()["upstream"], "health": {"timeout": "1s"}}}
        with gateway_to([], tmp_path, values, two_clusters) as gateway:
            before = reads(gateway)
            slices.put("b", (ONE, READY), ports=(9080, 9081), service="pages")
            eventually(lambda: 9080 in _replicas(gateway, "pages"), "the changed file")
            assert reads(gateway) == before
            slices.put("a", (ONE, READY), ports=(9080, 9081))
            eventually(lambda: members(gateway) == {9080}, "the other file")
            assert reads(gateway) == before + 1


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--service=a=Shop:http",), "NAME: expected up to 63 lower-case letters"),
        (("--service=a=shop",), "no PORT; expected CLUSTER=[NAMESPACE/]NAME:PORT[:HEALTH-PORT]"),
        ((), "the following required arguments were not provided"),
        (("--service=a=shop:0",), "PORT: expected a number from 1 to 65535, or a name"),
        (("--service=a=shop:1,a=pages:1",), "--service: the cluster a is given twice"),
        (("--service=a=shop:1", "--routes=r"), "cannot be used with '--routes <"),
        (("--routes=Shop/r",), "NAMESPACE: expected up to 63 lower-case letters"),
        (("--service=a=shop:1", "--limit=0"), "expected a whole number from 1 to 50000"),
        (("--service=a=shop:1", "--listen=9904"), "expected an IP address and a port"),
    ],
)
def test_bad_flags_are_named(flags: tuple[str, ...], words: str) -> None:
    result = programs.run("gateway-agent", "endpoints", *flags)
    assert (result.returncode, result.stdout) == (64, "")
    assert words in result.stderr


@pytest.mark.parametrize("values", [(), tuple(ROUTES)])
def test_it_takes_the_flags_of_the_chart(tmp_path: Path, values: tuple[Path, ...]) -> None:
    options = {"values": values[0]} if values else {}
    (deployment,) = (x for x in documents("gateway", **options) if x["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["initContainers"]
    sources = [each for each in container["args"] if each.startswith(("--service=", "--routes="))]
    named = "--routes=prod/corelane-gateway-routes" if values else "--service=server=prod/"
    assert [each.startswith(named) for each in sources] == [True]
    none = tmp_path / "none"
    given = [each for each in container["args"] if not each.startswith("--listen=")]
    given += ["--listen=127.0.0.1:0", f"--kubeconfig={none}"]
    result = programs.run("gateway-agent", "endpoints", *given)
    assert (result.returncode, str(none) in result.stderr) == (1, True), result.stderr


def test_it_says_why_it_cannot_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests themselves may run in a pod.
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GATEWAY_AGENT_SERVICES", "a=shop:http,b=pages:http")
    result = programs.run("gateway-agent", "endpoints", "--listen=127.0.0.1:0")
    assert result.returncode == 1
    assert "not in a pod with a service account's token, and no kubeconfig" in result.stderr


def ports(agent: EndpointsAgent, cluster: str) -> list[tuple[int, int]]:
    """Returns the traffic and health check ports in a cluster's file."""
    (resource,) = json.loads(agent.file_of(cluster).read_text())["resources"]
    each = (one["endpoint"] for group in resource["endpoints"] for one in group["lb_endpoints"])
    return [
        (
            one["address"]["socket_address"]["port_value"],
            one["health_check_config"]["port_value"],
        )
        for one in each
    ]


def reads(gateway: Gateway) -> int:
    """Returns how often Envoy has read the file of the "server" cluster."""
    page = ask(gateway.admin, "/stats?filter=^cluster.server.update_attempt$").body.decode()
    return int(page.rpartition(": ")[2])


def members(gateway: Gateway) -> set[int]:
    """Returns the ports of the replicas that Envoy knows."""
    return set(_replicas(gateway))


def drains(gateway: Gateway, port: int) -> bool:
    """Whether Envoy knows that a replica is terminating."""
    return _replicas(gateway).get(port, {}).get("eds_health_status") == "DRAINING"


def _replicas(gateway: Gateway, cluster: str = "server") -> dict[int, dict]:
    found = json.loads(ask(gateway.admin, "/clusters?format=json").body)["cluster_statuses"]
    (server,) = (each for each in found if each["name"] == cluster)
    return {
        each["address"]["socket_address"]["port_value"]: each["health_status"]
        for each in server.get("host_statuses", [])
    }
