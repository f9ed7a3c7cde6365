"""The conformance tests of Gateway API against the agent and the real Envoy.

Here they run on the real API server without nodes: each Gateway gets an agent and an Envoy with what the chart renders, and
each Deployment one process in a network namespace, with a Pod that has its address and says that it is ready. That needs root.
tests/e2e runs the same tests with pods, and its run writes the report.
"""

import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest
import yaml

from gateway.test_route_objects import GROUP, definitions
from stack import REPOSITORY, eventually
from stack.apiserver import Api
from stack.credentials import certificate
from stack.gateway import gateway_to
from stack.ports import free_ports
from stack.programs import program
from stack.rendering import config_maps, documents
from support import networks
from support.slices import Agents, Wire
from tools.resolve import tool

__all__ = ["definitions"]

CLASS = "corelane"
REPORT = REPOSITORY / "docs/results/gateway-api-conformance.yaml"
WITHOUT_NODES = (
    # They read the logs of pods; in the report, they pass.
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
)
PORTS = (3000, 3001, 8443)
"""Of the container: HTTP, HTTP/2 without TLS, HTTPS."""

ACCEPTANCE = 120.0
"""Longest time in seconds until the first agent has accepted the class."""

VALUES = {"routeObjects": {"enabled": True}, "listener": {"address": "127.0.0.1"}}


@dataclass
class World:
    """What a cluster does with Gateways beyond its API server."""

    api: Api
    folder: Path
    namespace: str = "default"
    """That of the first Gateway."""
    gateways: dict[str, tuple[ExitStack, Future]] = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 250)))
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8))

    skipped: ClassVar[tuple[str, ...]] = ()
    """Tests that cannot run in it."""

    @contextmanager
    def following(self) -> Iterator[None]:
        """Acts on what the suite creates, beginning with the class of the chart."""
        values = self.folder / "class.yaml"
        values.write_text(yaml.safe_dump(VALUES))
        (own,) = (it for it in documents("gateway", values=values) if it["kind"] == "GatewayClass")
        self.apply(self.namespace, own)
        stop = threading.Event()
        thread = threading.Thread(target=self._follow, args=(stop,))
        thread.start()
        try:
            # Somebody must accept the class before the suite creates its Gateways.
            listener = {"name": "http", "protocol": "HTTP", "port": 80}
            spec = {"gatewayClassName": CLASS, "listeners": [listener]}
            kind = {"apiVersion": f"{GROUP}/v1", "kind": "Gateway", "metadata": {"name": "first"}}
            self.apply(self.namespace, {**kind, "spec": spec})
            eventually(self._accepted, "an accepted class", patience=ACCEPTANCE, pause=0.5)
            yield
        finally:
            stop.set()
            thread.join()
            for uid in list(self.gateways):
                self._end(uid)
            self.pool.shutdown()

    def _accepted(self) -> bool:
        assert not self.failures, self.failures
        conditions = self.api.get("gatewayclass", CLASS)["status"]["conditions"]
        return conditions[0]["status"] == "True"

    def _follow(self, stop: threading.Event) -> None:
        while not stop.wait(0.5):
            self.turn()
            found = {
                it["metadata"]["uid"]: it
                for it in self.all(f"gateways.{GROUP}")
                if it["spec"]["gatewayClassName"] == CLASS
            }
            for uid in found.keys() - self.gateways.keys():
                stack = ExitStack()
                self.gateways[uid] = (stack, self._beside(self.serve, found[uid], stack))
            for uid in self.gateways.keys() - found.keys():
                self._end(uid)

    def _end(self, uid: str) -> None:
        """Ends what serves a Gateway, once all of it has begun."""
        stack, work = self.gateways.pop(uid)
        self._beside(lambda: (wait([work]), stack.close()))

    def _beside(self, does: Callable, *arguments: object) -> Future:
        work = self.pool.submit(does, *arguments)
        work.add_done_callback(lambda it: it.exception() and self.failures.append(it.exception()))
        return work

    def turn(self) -> None:
        """Acts on what else there is."""

    def serve(self, gateway: dict, stack: ExitStack) -> None:
        """Starts an agent and an Envoy for a Gateway."""
        raise NotImplementedError

    def all(self, kind: str) -> list[dict]:
        """The objects of a kind; none as long as nobody has defined it."""
        found = self.api.kubectl("get", kind, "--all-namespaces", "--output", "json")
        return json.loads(found.stdout)["items"] if found.returncode == 0 else []

    def apply(self, namespace: str, *objects: dict) -> None:
        """Writes objects in a namespace."""
        text = yaml.safe_dump_all(objects)
        where = ("--namespace", namespace, "--filename", "-")
        done = self.api.kubectl("apply", "--server-side", *where, text=text)
        assert done.returncode == 0, done.stderr


@dataclass
class Processes(World):
    """Processes on this machine in place of pods."""

    wire: Wire = field(kw_only=True)
    stack: ExitStack = field(kw_only=True)
    pods: dict[str, str] = field(default_factory=dict)
    slices: set[str] = field(default_factory=set)
    links: Iterator[int] = field(default_factory=lambda: iter(range(1, 250)))

    skipped = WITHOUT_NODES

    def turn(self) -> None:
        """Starts what Deployments ask for, and finds it for Services."""
        for each in self.all("deployments.apps"):
            name = self._name(each)
            if name not in self.pods:
                self.pods[name] = self._pod(each)
        for each in self.all("services"):
            if self._name(each) not in self.slices and self._slice(each):
                self.slices.add(self._name(each))

    def _name(self, it: dict) -> str:
        return f"{it['metadata']['namespace']}/{it['metadata']['name']}"

    def _status(self, namespace: str, kind: str, name: str, status: dict) -> None:
        patch = f"--patch={json.dumps({'status': status})}"
        where = ("--namespace", namespace, "--subresource=status", "--type=merge", patch)
        done = self.api.kubectl("patch", kind, name, *where)
        assert done.returncode == 0, done.stderr

    def _pod(self, deployment: dict) -> str:
        """Starts the process of a Deployment; its address."""
        metadata, template = deployment["metadata"], deployment["spec"]["template"]
        namespace, (container, *_) = metadata["namespace"], template["spec"]["containers"]
        # As those of a Deployment: the suite cuts off the last two parts.
        pod = f"{metadata['name']}-0-0"
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        spec = {"nodeName": "none", "containers": [{"name": "echo", "image": "echo"}]}
        labels = template["metadata"]["labels"]
        described = {"name": pod, "labels": labels}
        self.apply(
            namespace,
            account,
            {"apiVersion": "v1", "kind": "Pod", "metadata": described, "spec": spec},
        )
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        address = ""
        if "echo-basic" in container["image"]:
            given = {it["name"]: it["value"] for it in container.get("env", []) if "value" in it}
            env = {**os.environ, **given, "POD_NAME": pod, "NAMESPACE": namespace}
            env.pop("TLS_SERVER_CERT", None)
            address = self._run(f"{namespace}-{pod}", env)
            status |= {"podIP": address, "podIPs": [{"ip": address}]}
        self._status(namespace, "pod", pod, status)
        return address

    def _run(self, name: str, env: dict[str, str]) -> str:
        """Starts a process in a network namespace with an address of its own, which ends with it."""
        # It begins when it has its address.
        script = 'read -r _; exec "$0"'
        argv = [*networks.ALONE, "bash", "-c", script, str(tool("gateway-echo"))]
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=log, stderr=log, env=env)
        self.stack.callback(process.kill)
        number = next(self.links)
        network = networks.connect(process.pid, f"conformance{number}", number)
        process.stdin.write(b"\n")
        process.stdin.close()
        return network.address

    def _slice(self, service: dict) -> bool:
        """Writes the slice of a Service with a selector; whether its pods are known."""
        selector = service["spec"].get("selector", {}).get("app")
        namespace = service["metadata"]["namespace"]
        if not selector:
            return True
        address = self.pods.get(f"{namespace}/{selector}")
        if address is None:
            return False
        described = [
            {"name": it.get("name", ""), "port": it["targetPort"], "protocol": "TCP"}
            for it in service["spec"]["ports"]
            if address and it["targetPort"] in PORTS
        ]
        endpoints = [{"addresses": [address], "conditions": {"ready": True}}] if address else []
        name = service["metadata"]["name"]
        labels = {"kubernetes.io/service-name": name}
        slice_ = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": f"{name}-0", "labels": labels},
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": described,
        }
        self.apply(namespace, slice_)
        return True

    def serve(self, gateway: dict, stack: ExitStack) -> None:
        """Starts the processes, at an address of the Gateway's own."""
        namespace, name = gateway["metadata"]["namespace"], gateway["metadata"]["name"]
        number = next(self.numbers)
        address, folder = f"127.0.1.{number}", self.folder / f"gateway-{number}"
        folder.mkdir()
        own, admin = f"gateway-{number}", free_ports(1)
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": own}}
        data = self._rendered(folder, admin)
        listeners = json.loads(data["listeners.json"])
        place = {"socket_address": {"address": address, "port_value": 443}}
        data["listeners.json"] = json.dumps([{**each, "address": place} for each in listeners])
        routes = {key: text.replace("/run/corelane", str(folder)) for key, text in data.items()}
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": own}}
        ports = {"ports": [{"port": 80}], "type": "LoadBalancer"}
        self.apply(namespace, {**service, "spec": ports}, {**config_map, "data": routes})
        balancer = {"loadBalancer": {"ingress": [{"ip": address}]}}
        self._status(namespace, "service", own, balancer)
        flags = (f"--gateway={namespace}/{name}", f"--gateway-service={own}")
        flags += ("--gateway-http-port=80", "--gateway-https-port=443")
        flags += (f"--routes={namespace}/{own}", f"--envoy-admin=127.0.0.1:{admin}")

        def listen(configuration: dict) -> None:
            for listener in configuration["static_resources"]["listeners"]:
                if listener["name"] == "ingress":
                    place = {"address": address, "port_value": 80}
                    listener["address"] = {"socket_address": place}

        values = yaml.safe_load((folder / "routes.yaml").read_text())
        agent = stack.enter_context(Agents(folder, namespace, self.wire).run(None, *flags))
        agent.wait_until_ready()
        stack.enter_context(gateway_to([], folder, values, listen, dynamic=True))

    def _rendered(self, folder: Path, admin: int) -> dict[str, str]:
        """The routes of the chart, whose values stay in a file."""
        # Of the operator of the Gateways, for names that are none of theirs.
        chain, key = certificate(folder, "tls", "ec")
        files = {"certificate": str(chain), "key": str(key), "sds": f"{folder}/certificate.yaml"}
        tls = {"enabled": True, "plain": "serve", "files": files}
        upstream = {"upstream": {"discovery": "eds"}, "admin": {"port": admin}}
        values = {**VALUES, **upstream, "tls": tls}
        file = folder / "routes.yaml"
        file.write_text(yaml.safe_dump(values))
        return config_maps(values=file)[1]


@pytest.fixture
def world(api: Api, wire: Wire, tmp_path: Path, definitions: None) -> Iterator[World]:
    """A cluster with the class of the chart."""
    # Built before anything waits for it.
    program("gateway-agent")
    with ExitStack() as stack:
        found = Processes(api, tmp_path, wire=wire, stack=stack)
        with found.following():
            yield found


def published(skipped: tuple[str, ...]) -> dict:
    """The report as it is without these tests, each of an extended feature."""
    found = yaml.safe_load(REPORT.read_text())
    provisional = found["succeededProvisionalTests"]
    found["succeededProvisionalTests"] = [it for it in provisional if it not in skipped]
    for profile in found["profiles"] if skipped else ():
        if extended := profile.get("extended"):
            count = len(skipped)
            extended |= {"result": "partial", "skippedTests": sorted(skipped)}
            extended["statistics"]["Passed"] -= count
            extended["statistics"]["Skipped"] += count
            words = f"Extended tests partially succeeded with {count} test skips."
            profile["summary"] = f"Core tests succeeded. {words}"
    return found


def test_the_profiles_of_http_and_grpc(world: World, tmp_path: Path) -> None:
    report = tmp_path / "report.yaml"
    flags = {
        "gateway-class": CLASS,
        "conformance-profiles": "GATEWAY-HTTP,GATEWAY-GRPC",
        "skip-tests": ",".join(world.skipped),
        "report-output": report,
        "organization": "corelane",
        "project": "corelane",
        "url": "https://example.invalid/corelane",
        "version": (REPOSITORY / "VERSION").read_text().strip(),
        "contact": "maintainers@example.invalid",
        "cleanup-base-resources": "false",
        "test.timeout": "40m",
        "test.v": "true",
    }
    argv = [tool("gateway-conformance"), *(f"-{key}={value}" for key, value in flags.items())]
    env = {**os.environ, "KUBECONFIG": str(world.api.kubeconfig)}
    with (tmp_path / "suite.log").open("wb") as log:
        subprocess.run(argv, stdout=log, stderr=log, env=env, check=False)
    found = yaml.safe_load(report.read_text())
    del found["date"]
    # The suite writes its report before the tests that run at the same time have ended.
    failed = re.findall(r"--- FAIL: Conformance/(\w+) ", (tmp_path / "suite.log").read_text())
    found["failedTests"] = sorted(set(failed))
    found["profiles"].sort(key=lambda it: it["name"])
    report.write_text(yaml.safe_dump(found))
    assert not world.failures, world.failures
    assert found == published(world.skipped), f"{report} differs from {REPORT}"
