"""gateway/gateway-api.md: replicas behind the real Envoy Gateway, with the page's values and
policy.

Envoy Gateway needs no cluster here. It reads objects from a file, validates them, and starts a real Envoy.
"""

import errno
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import run
from urllib.parse import urlsplit

import pytest
import yaml

from stack import PATIENCE, REPOSITORY, becomes, eventually
from stack.http import Client, ask
from stack.ports import free_ports
from stack.process import Process, running
from stack.rendering import documents
from stack.replica import Server
from tools.resolve import tool

pytestmark = pytest.mark.nightly

PAGE = REPOSITORY / "gateway" / "gateway-api.md"
NAMESPACE = "prod"
ENVOY = "1.40.0"
TURN = "\0corelane-envoy-gateway"
"""Abstract socket (unix(7)), held by the test that runs Envoy Gateway: its ports (8081, 18000, 19000 and
others) are fixed.
"""

GATEWAY = """
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: envoy}
spec:
  controllerName: gateway.envoyproxy.io/gatewayclass-controller
  parametersRef: {group: gateway.envoyproxy.io, kind: EnvoyProxy, name: proxy, namespace: gateways}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyProxy
metadata: {name: proxy, namespace: gateways}
spec: {provider: {type: Host, host: {envoyVersion: ENVOY}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: gateways}
spec:
  gatewayClassName: envoy
  listeners:
    - {name: http, protocol: HTTP, port: PORT, allowedRoutes: {namespaces: {from: All}}}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata: {name: replicas, namespace: prod}
spec: {endpoints: ENDPOINTS}
"""
"""Objects that the page's reader creates. Without an API server there are no Services, so the
replicas are a Backend.
"""

CONFIGURATION = """
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyGateway
gateway: {controllerName: gateway.envoyproxy.io/gatewayclass-controller}
provider:
  type: Custom
  custom:
    resource: {type: File, file: {paths: [FOLDER/objects.yaml]}}
    infrastructure:
      type: Host
      host: {configHome: FOLDER/config, dataHome: FOLDER/data, stateHome: FOLDER/state, runtimeDir: FOLDER/run}
extensionApis: {enableBackend: true}
"""

STATUS = re.compile(
    r'Got new status for (\w+)\n(.*?)\t\{"runner": "provider", "key": "(.*?)"\}', re.DOTALL
)
"""Format in which Envoy Gateway logs the status of an object."""


def test_the_values_and_the_policy_of_the_page(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    first, second = (start(address=it, replica=it) for it in ("127.0.0.2", "127.0.0.3"))
    port = free_ports(1, "0.0.0.0")
    with envoy_gateway(objects(tmp_path, port, first, second), tmp_path) as process:
        client = Client(f"http://127.0.0.1:{port}")
        host = {"host": "shop.example"}
        seen: set[str | None] = set()

        def both() -> bool:
            assert process.running, process.log.read_text()[-3000:]
            try:
                seen.add(client.ask("/hello", headers=host).replica)
            except OSError:
                client.close()
            return {"127.0.0.2", "127.0.0.3"} <= seen

        eventually(both, "a reply of each replica", patience=6 * PATIENCE)
        assert ask(f"http://127.0.0.1:{port}", "/hello").status == 404
        good = {"Accepted": "True", "ResolvedRefs": "True"}
        becomes(lambda: conditions(process.log, "HTTPRoute"), good)
        becomes(lambda: conditions(process.log, "BackendTrafficPolicy"), {"Accepted": "True"})
        first.kill()
        # Includes requests that may run only once, because no replica has accepted their connection.
        for method, status in [("GET", 200), ("POST", 405)] * 20:
            reply = client.ask("/hello", method, headers=host)
            assert (reply.status, reply.replica) == (status, "127.0.0.3")
        client.close()


def objects(folder: Path, port: int, *servers: Server) -> list[dict]:
    """Returns the Gateway, the replicas and the page's objects: the HTTPRoute of charts/service and
    the policy.
    """
    values, policy = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (folder / "values.yaml").write_text(values)
    rendered = documents("service", values=folder / "values.yaml", release="shop")
    (service,) = (each for each in rendered if each["kind"] == "Service")
    (route,) = (each for each in rendered if each["kind"] == "HTTPRoute")
    (rule,) = route["spec"]["rules"]
    (reference,) = rule["backendRefs"]
    assert reference["name"] == service["metadata"]["name"]
    assert reference["port"] == service["spec"]["ports"][0]["port"]
    rule["backendRefs"] = [
        {"group": "gateway.envoyproxy.io", "kind": "Backend", "name": "replicas"}
    ]
    own = [route, yaml.safe_load(policy)]
    for each in own:
        each["metadata"]["namespace"] = NAMESPACE
    addresses = [urlsplit(server.url) for server in servers]
    endpoints = [{"ip": {"address": each.hostname, "port": each.port}} for each in addresses]
    text = GATEWAY.replace("ENVOY", ENVOY).replace("PORT", str(port))
    return [*yaml.safe_load_all(text.replace("ENDPOINTS", str(endpoints))), *own]


def conditions(log: Path, kind: str) -> dict[str, str]:
    """Returns the last conditions of the only object of this kind, by type."""
    found = {}
    for _, text, _ in (each for each in STATUS.findall(log.read_text()) if each[0] == kind):
        status = yaml.safe_load(text)
        (part,) = status.get("parents") or status["ancestors"]
        found = {each["type"]: each["status"] for each in part["conditions"]}
    return found


@contextmanager
def envoy_gateway(objects: list[dict], folder: Path) -> Iterator[Process]:
    """Runs Envoy Gateway with these objects, once no other test runs it."""
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects))
    configuration = folder / "envoy-gateway.yaml"
    configuration.write_text(CONFIGURATION.replace("FOLDER", str(folder)))
    # Path at which Envoy Gateway looks for Envoy, which it would otherwise download.
    envoy = folder / "data/envoy-versions" / ENVOY / "bin/envoy"
    envoy.parent.mkdir(parents=True)
    os.symlink(tool("envoy"), envoy)
    program = tool("envoy-gateway")
    with socket.socket(socket.AF_UNIX) as turn:
        eventually(lambda: holds(turn), "the end of another Envoy Gateway", patience=5 * PATIENCE)
        argv = [program, "certgen", "--local", "--config-home", folder / "config"]
        run(argv, check=True, capture_output=True)
        # Envoy Gateway stops its Envoy before it exits.
        argv = [program, "server", "--config-path", configuration]
        with running("envoy-gateway", argv, folder) as process:
            yield process


def holds(turn: socket.socket) -> bool:
    """Whether this test may now run Envoy Gateway."""
    try:
        turn.bind(TURN)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True
