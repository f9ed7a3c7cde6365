"""A gateway of many pods: one program answers at all their addresses, and the file of endpoints names them."""

import http.client
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.experiment.servers import HOST, Running, running
from loadtests.bench.field.bench import Bench
from loadtests.bench.free_ports import free_ports
from loadtests.bench.gateway import proxies, shipped
from tools.errors import ToolError

PATIENCE = 30.0
PAUSE = 0.001
"""Between two looks at a gateway: what the time of an update is rounded to."""

EVERYWHERE = "0.0.0.0"
NETWORK = 250
"""Pods in a /24 of loopback, where every address of 127.0.0.0/8 is this machine (RFC 1122, 3.2.1.3)."""

FULL_SCAN = "gateway, full scan"
TWO_CHOICES = "gateway, two choices"
POLICIES = {FULL_SCAN: "least-request", TWO_CHOICES: "least-request-p2c"}
"""The chart's upstream.balancing.policy by the name in figures."""


@dataclass(frozen=True)
class Floor:
    """The epoll floor, as every pod."""

    name: str = "floor"

    def argv(self, programs: Path, address: str, _folder: Path) -> list[str]:
        """How it is started: at every address."""
        listen = f"{EVERYWHERE}:{address.rpartition(':')[2]}"
        return [str(programs / "floor"), "--listen", listen]


@contextmanager
def replicas(bench: Bench) -> Iterator[int]:
    """The port of all pods; they share the generator's CPU."""
    with running(Floor(), bench.generator.parent, [bench.cpus[1]]) as server:
        yield int(server.address.rpartition(":")[2])


def address(pod: int) -> str:
    """Of a pod by its number."""
    return f"127.0.{pod // NETWORK}.{pod % NETWORK + 1}"


def assignment(pods: list[int], port: int) -> str:
    """The file of endpoints, as gateway-agent writes it for replicas of one zone."""
    endpoints = [
        {
            "endpoint": {
                "address": {"socket_address": {"address": address(pod), "port_value": port}},
                "health_check_config": {"port_value": port},
            },
            "health_status": "HEALTHY",
            "load_balancing_weight": 1,
        }
        for pod in pods
    ]
    resource = {
        "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": "server",
        "endpoints": [{"load_balancing_weight": max(1, len(pods)), "lb_endpoints": endpoints}],
    }
    return json.dumps({"resources": [resource]}, separators=(",", ":")) + "\n"


def rendered(tools: dict[str, Path], policy: str) -> dict:
    """What the chart renders for endpoints from a file and one of its policies."""
    # The pods are the floor, which has no probes of its own.
    upstream = {
        "discovery": "eds",
        "balancing": {"policy": policy},
        "health": {"path": "/hello"},
    }
    return shipped.configuration(tools, [], more={"upstream": upstream})


@dataclass
class Gateway:
    """Envoy with the chart's configuration, and the file that it reads its endpoints from."""

    process: Running
    folder: Path
    port: int
    """Of the pods."""
    admin: int
    file_bytes: int = 0

    def has(self, pods: list[int]) -> float:
        """Names its pods; how many ms it took until all of them could get requests, checked and healthy."""
        text = assignment(pods, self.port)
        self.file_bytes = len(text)
        updates = self.stat("cluster.server.update_success")
        begun = self._write(text)
        self._until(lambda: self.stat("cluster.server.update_success") > updates)
        self.is_healthy(len(pods))
        return (time.monotonic() - begun) * 1e3

    def is_healthy(self, count: int) -> None:
        """Waits until so many pods have passed their first health check."""
        self._until(lambda: self.stat("cluster.server.membership_healthy") == count)

    def replaces(self, files: list[list[int]], each: float) -> float:
        """CPU seconds while it is given these pods one after the other, each for so many seconds."""
        before = self.process.cpu_seconds()
        for pods in files:
            self._write(assignment(pods, self.port))
            time.sleep(each)
        return self.process.cpu_seconds() - before

    def idle(self, seconds: float) -> float:
        """CPU seconds while nobody asks anything."""
        before = self.process.cpu_seconds()
        time.sleep(seconds)
        return self.process.cpu_seconds() - before

    def checks(self) -> int:
        """Health checks so far."""
        return self.stat("cluster.server.health_check.attempt")

    def stat(self, name: str) -> int:
        """A counter or gauge; 0 before it is there."""
        connection = http.client.HTTPConnection(HOST, self.admin, timeout=PATIENCE)
        try:
            connection.request("GET", f"/stats?filter=^{name}$")
            text = connection.getresponse().read().decode()
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()
        return int(text.rpartition(":")[2]) if text else 0

    def _write(self, text: str) -> float:
        """As gateway-agent does it: Envoy notices only what is moved into its folder."""
        new = self.folder / "new"
        new.write_text(text)
        begun = time.monotonic()
        os.rename(new, self.folder / FILE)
        return begun

    def _until(self, check: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not check():
            if time.monotonic() > deadline:
                raise ToolError(f"the gateway did not take its endpoints within {PATIENCE:.0f} s")
            time.sleep(PAUSE)


FILE = "endpoints.json"


@contextmanager
def gateway(
    tools: dict[str, Path], configuration: dict, pods: list[int], port: int, cpu: int, folder: Path
) -> Iterator[Gateway]:
    """Starts one on a CPU, with these pods to begin with."""
    folder.mkdir(parents=True)
    (folder / FILE).write_text(assignment(pods, port))
    config, admin = deepcopy(configuration), free_ports()
    config["admin"]["address"]["socket_address"]["port_value"] = admin
    clusters = config["static_resources"]["clusters"]
    cluster = next(one for one in clusters if one["name"] == "server")
    cluster["eds_cluster_config"]["eds_config"]["path_config_source"] = {
        "path": str(folder / FILE),
        "watched_directory": {"path": str(folder)},
    }
    programs = proxies.Programs(tools, Path(), Path())
    with running(proxies.envoy("gateway", config), programs, [cpu]) as process:
        found = Gateway(process, folder, port, admin)
        found.is_healthy(len(pods))
        yield found
