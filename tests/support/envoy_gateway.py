"""The real Envoy Gateway on this machine, without a cluster, in front of real replicas.

It reads objects from a file, translates them and starts the real Envoy, to which it serves the
configuration. What it says of the objects, their status, it writes into its log.
"""

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from support import PATIENCE, eventually
from support.client import ask
from support.rendering import tool

NAMESPACE = "prod"
GROUPS = ("gateway.networking.k8s.io", "gateway.envoyproxy.io")
ENVOY = "1.40.0"
PORTS = Path(tempfile.gettempdir()) / "corelane-envoy-gateway.lock"
"""Held while one runs: its ports (8081, 18000, 19000) cannot be chosen."""


@dataclass(frozen=True)
class Running:
    """A running Envoy Gateway with its Envoy."""

    url: str
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        """What Envoy Gateway and Envoy wrote."""
        return (self.folder / "log").read_text()

    def statuses(self) -> dict[str, dict]:
        """The last status of every object, by kind and name."""
        found: dict[str, dict] = {}
        for block in self.log.split("Got new status for ")[1:]:
            kind, _, rest = block.partition("\\n")
            text, _, fields = rest.partition('"')
            text, _, _ = rest.partition('\t')
            found[kind] = {"text": text, "fields": fields}
        return found


def on_this_machine(objects: list[dict], addresses: list[str], port: int) -> list[dict]:
    """What the chart renders, with replicas that are processes of this machine.

    Without an API server there are no Services: the replicas are a Backend, Envoy Gateway's own kind.
    """
    taken = [each for each in objects if each["apiVersion"].split("/")[0] in GROUPS]
    replicas = {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "Backend",
        "metadata": {"name": "replicas"},
        "spec": {"endpoints": [{"ip": {"address": each, "port": port}} for each in addresses]},
    }
    for each in [*taken, replicas]:
        if each["kind"] != "GatewayClass":
            each["metadata"]["namespace"] = NAMESPACE
        if each["kind"] == "HTTPRoute":
            for rule in each["spec"]["rules"]:
                group = "gateway.envoyproxy.io"
                rule["backendRefs"] = [{"group": group, "kind": "Backend", "name": "replicas"}]
        if each["kind"] == "EnvoyProxy":
            each["spec"]["provider"] = {"type": "Host", "host": {"envoyVersion": ENVOY}}
    return [*taken, replicas]


@contextmanager
def envoy_gateway(objects: list[dict], folder: Path, port: int) -> Iterator[Running]:
    """Runs it with these objects, of which one is a Gateway that listens on the port."""
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects))
    configuration = _configuration(folder)
    with PORTS.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        argv = [tool("envoy-gateway"), "certgen", "--local", "--config-home", folder / "config"]
        subprocess.run(argv, check=True, capture_output=True)
        argv = [tool("envoy-gateway"), "server", "--config-path", configuration]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(argv, stdout=log, stderr=log)
        try:
            running = Running(f"http://127.0.0.1:{port}", folder, process)
            eventually(lambda: _answers(running), "Envoy Gateway's Envoy", patience=3 * PATIENCE)
            yield running
        finally:
            # It ends its Envoy before itself.
            process.terminate()
            try:
                process.wait(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _answers(running: Running) -> bool:
    assert running.process.poll() is None, running.log[-3000:]
    assert "failed to run envoy" not in running.log, running.log[-3000:]
    try:
        return ask(running.url, "/hello").status == 200
    except OSError:
        return False


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
        "extensionApis": {"enableBackend": True, "enableEnvoyPatchPolicy": True},
    }
    file = folder / "envoy-gateway.yaml"
    file.write_text(yaml.safe_dump(content))
    return file
