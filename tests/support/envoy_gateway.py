"""The real Envoy Gateway on this machine, without a cluster, in front of real replicas.

It reads objects from a file, translates them and starts a real Envoy, to which it serves the
configuration. What it says of the objects, their status, it writes into its log.
"""

import errno
import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from stack import PATIENCE, eventually
from stack import gateway as envoys
from stack.http import ask
from stack.process import Process
from stack.process import running as process_of
from tools import gomodule, table
from tools.resolve import tool

NAMESPACE = "prod"
GROUPS = ("gateway.networking.k8s.io", "gateway.envoyproxy.io")
ENVOY = "1.40.0"
PORTS = "\0corelane-envoy-gateway"
"""Held while one runs: its ports (8081, 18000, 19000 and others) cannot be chosen.

An abstract socket (unix(7)), which like ports belongs to a network namespace and not to a user, and
which is free again however its holder ends.
"""

HEALTH = "upstream.health.timeout=1m"
"""A busy machine does not reach it: only a replica that is gone fails a health check."""

TURN = 300.0
"""Longest wait in seconds for another test run to end its Envoy Gateway."""

STATUS = re.compile(
    r'Got new status for (\w+)\n(.*?)\t\{"runner": "provider", "key": "(.*?)"\}', re.DOTALL
)


def definitions() -> Path:
    """The definitions of Gateway API that the pinned Envoy Gateway uses: the standard channel."""
    argv = ["go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api"]
    folder = gomodule.source(table.find("envoy-gateway"))
    # Without a folder, the module is not on this machine yet.
    for command in (["go", "mod", "download", "sigs.k8s.io/gateway-api"], argv):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip()) / "config/crd/standard"


@dataclass(frozen=True)
class Running:
    """A running Envoy Gateway with its Envoy."""

    folder: Path
    process: Process

    @property
    def log(self) -> str:
        """What Envoy Gateway and Envoy wrote."""
        return self.process.log.read_text()

    def logged(self, path: str) -> list[dict]:
        """The entries of the requests for a path in the access log so far."""
        return envoys.entries(self.process.log, path)

    def conditions(self) -> dict[tuple[str, str], dict[str, str]]:
        """By kind and name of an object: the last status of each condition, and why."""
        found: dict[tuple[str, str], dict[str, str]] = {}
        for kind, text, key in STATUS.findall(self.log):
            known = found.setdefault((kind, key.rpartition("/")[2]), {})
            for where, condition in _conditions(yaml.safe_load(text)):
                why = "" if condition["status"] == "True" else f": {condition['message']}"
                known[f"{where}{condition['type']}"] = condition["status"] + why
        return found

    def configuration(self) -> dict[str, dict]:
        """What Envoy runs with: its parts by the name of their type."""
        (address,) = self.folder.glob("run/*/admin-address.txt")
        parts = json.loads(ask(f"http://{address.read_text().strip()}", "/config_dump").body)
        return {part["@type"].rpartition(".")[2]: part for part in parts["configs"]}


def on_this_machine(objects: list[dict], port: int) -> list[dict]:
    """What the chart renders, with replicas that are processes of this machine.

    Without an API server there are no Services: the replicas are a Backend, Envoy Gateway's own kind.
    """
    taken = [each for each in objects if each["apiVersion"].split("/")[0] in GROUPS]
    for each in taken:
        if each["kind"] != "GatewayClass":
            each["metadata"]["namespace"] = NAMESPACE
        for rule in each["spec"].get("rules", []):
            if "backendRefs" in rule:
                (reference,) = rule["backendRefs"]
                assert reference["port"] == port
                rule["backendRefs"] = [{"group": GROUPS[1], "kind": "Backend", "name": "replicas"}]
        if each["kind"] == "EnvoyProxy":
            each["spec"]["provider"] = {"type": "Host", "host": {"envoyVersion": ENVOY}}
            # The access log of a request need not wait for 10 s.
            each["spec"]["extraArgs"] = ["--file-flush-interval-msec", "50"]
    return taken


def cluster(configuration: dict[str, dict]) -> dict:
    """The one cluster of the replicas."""
    (only,) = [
        each["cluster"]
        for each in configuration["ClustersConfigDump"]["dynamic_active_clusters"]
        if each["cluster"]["name"].startswith("backend/")
    ]
    return only


def policy(configuration: dict[str, dict]) -> str:
    """The balancing policy of the replicas."""
    (only,) = cluster(configuration)["load_balancing_policy"]["policies"]
    return only["typed_extension_config"]["name"].rpartition(".")[2]


def unhappy(running: Running, objects: list[dict]) -> dict[tuple[str, str], dict[str, str]]:
    """The objects that are not accepted, or have a condition that is not true."""
    known = running.conditions()
    found = {}
    for each in objects:
        name = each["kind"], each["metadata"]["name"]
        # An EnvoyProxy has the status of its Gateway, and that of a class is lost without a cluster.
        if each["kind"] not in ("EnvoyProxy", "GatewayClass"):
            found[name] = {key: why for key, why in known.get(name, {}).items() if why != "True"}
            if not any(key.endswith("Accepted") for key in known.get(name, {})):
                found[name]["Accepted"] = "there is no such condition"
    return {name: conditions for name, conditions in found.items() if conditions}


def replicas(addresses: list[str], port: int) -> dict:
    """The replicas, which differ by their address."""
    return {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "Backend",
        "metadata": {"name": "replicas", "namespace": NAMESPACE},
        "spec": {"endpoints": [{"ip": {"address": each, "port": port}} for each in addresses]},
    }


@contextmanager
def envoy_gateway(objects: list[dict], folder: Path, url: str) -> Iterator[Running]:
    """Runs it with these objects, whose Gateway listens at the URL. Without a cluster there is only one."""
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects))
    configuration = _configuration(folder)
    # Built before others wait for their turn.
    program = tool("envoy-gateway")
    with socket.socket(socket.AF_UNIX) as lock:
        eventually(lambda: _holds(lock), "the end of another run's Envoy Gateway", patience=TURN)
        argv = [program, "certgen", "--local", "--config-home", folder / "config"]
        subprocess.run(argv, check=True, capture_output=True)
        argv = [program, "server", "--config-path", configuration]
        # It ends its Envoy before itself.
        with process_of("envoy-gateway", argv, folder) as process:
            running = Running(folder, process)
            eventually(lambda: _answers(running, url), url, patience=6 * PATIENCE)
            yield running


def _holds(lock: socket.socket) -> bool:
    try:
        lock.bind(PORTS)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True


def _answers(running: Running, url: str) -> bool:
    log = running.log
    assert running.process.running, log[-3000:]
    assert "failed to run envoy" not in log, log[-3000:]
    try:
        return ask(url, "/hello").status in (200, 308)
    except OSError:
        return False


def _conditions(status: object, where: str = "") -> Iterator[tuple[str, dict]]:
    """All conditions of a status, those of parts with the name of the part."""
    if isinstance(status, list):
        for entry in status:
            yield from _conditions(entry, where)
    elif isinstance(status, dict):
        name = status.get("name", "")
        inner = f"{where}{name}." if name and name != where else where
        for key, part in status.items():
            if key == "conditions":
                yield from ((inner, condition) for condition in part)
            elif key in ("listeners", "parents", "ancestors"):
                yield from _conditions(part, inner)


def _configuration(folder: Path) -> Path:
    homes = {"configHome": "config", "dataHome": "data", "stateHome": "state", "runtimeDir": "run"}
    host = {name: str(folder / place) for name, place in homes.items()}
    # Where it looks for the Envoy that it would else download.
    program = folder / "data/envoy-versions" / ENVOY / "bin/envoy"
    program.parent.mkdir(parents=True)
    os.symlink(tool("envoy"), program)
    content = {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "EnvoyGateway",
        "gateway": {"controllerName": "gateway.envoyproxy.io/gatewayclass-controller"},
        "provider": {
            "type": "Custom",
            "custom": {
                "resource": {"type": "File", "file": {"paths": [str(folder / "objects.yaml")]}},
                "infrastructure": {"type": "Host", "host": host},
            },
        },
        "extensionApis": {"enableBackend": True},
    }
    file = folder / "envoy-gateway.yaml"
    file.write_text(yaml.safe_dump(content))
    return file
