"""EndpointSlices on the API server, and the agent that writes them into Envoy's file."""

import itertools
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from support import PATIENCE, eventually
from support.apiserver import Api
from support.client import ask
from support.processes import free_ports, program

READY = {"ready": True, "serving": True, "terminating": False}
STARTING = {"ready": False, "serving": False, "terminating": False}
ENDING = {"ready": False, "serving": True, "terminating": True}
ENDED = {"ready": False, "serving": False, "terminating": True}

SERVICE = "shop-server"

ELSEWHERE = "192.0.2.1"
"""An address that is nobody's (RFC 5737)."""


def own_address() -> str:
    """An address of this machine that is not loopback, which the API server does not take."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Sends nothing: it only asks the kernel for the way.
        try:
            probe.connect((ELSEWHERE, 9))
        except OSError as error:
            words = f"this machine has no route to {ELSEWHERE}, so no address but loopback is found"
            raise OSError(error.errno, f"{words}: {error.strerror}") from error
        return probe.getsockname()[0]


@dataclass(frozen=True)
class Slices:
    """The slices of one Service in a namespace."""

    api: Api
    namespace: str

    def put(
        self,
        name: str,
        *endpoints: tuple[str, dict] | tuple[str, dict, str],
        ports: tuple[int, int] = (8080, 8081),
        service: str = SERVICE,
    ) -> None:
        """Writes a slice: each endpoint an address, its conditions, and a zone or none."""
        described = [
            {
                "addresses": [address],
                "conditions": conditions,
                **({"zone": zone[0]} if zone else {}),
            }
            for address, conditions, *zone in endpoints
        ]
        numbers = zip(("http", "admin"), ports, strict=True)
        slice_ = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4",
            "endpoints": described,
            "ports": [{"name": port, "port": number} for port, number in numbers],
        }
        self._kubectl("apply", "--filename", "-", text=json.dumps(slice_))

    def delete(self, name: str) -> None:
        """Deletes a slice."""
        self._kubectl("delete", "endpointslice", name)

    def _kubectl(self, *arguments: str, text: str = "") -> None:
        result = self.api.kubectl(*arguments, "--namespace", self.namespace, text=text)
        assert result.returncode == 0, result.stderr


class _Sockets:
    """Sockets that end together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._ended = False

    def add(self, *sockets: socket.socket) -> None:
        """Keeps these for the end; after it, they end at once."""
        with self._lock:
            self._sockets += sockets
            if self._ended:
                self._close()

    def end(self) -> None:
        """Ends those that are kept, and those still to come."""
        with self._lock:
            self._ended = True
            self._close()

    def _close(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


class Wire:
    """The only way of an agent to the API server; it can be cut."""

    def __init__(self, api: Api, folder: Path) -> None:
        kubeconfig = json.loads(api.kubeconfig.read_text())
        cluster = kubeconfig["clusters"][0]["cluster"]
        self._target = ("127.0.0.1", urlsplit(cluster["server"]).port)
        self._port = free_ports(1)
        cluster["server"] = f"https://127.0.0.1:{self._port}"
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(kubeconfig))
        self._sockets = _Sockets()

    def join(self) -> None:
        """Lets connections through."""
        listener = socket.create_server(("127.0.0.1", self._port), reuse_port=True)
        self._sockets = _Sockets()
        self._sockets.add(listener)
        threading.Thread(target=self._accept, args=(listener, self._sockets), daemon=True).start()

    def cut(self) -> None:
        """Ends every connection; new ones are refused."""
        self._sockets.end()

    def _accept(self, listener: socket.socket, sockets: _Sockets) -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(self._target)
                sockets.add(near, far)
                for pair in itertools.permutations((near, far)):
                    threading.Thread(target=self._copy, args=pair, daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@dataclass
class Agent:
    """`gateway-agent endpoints` under way."""

    process: subprocess.Popen[bytes]
    file: Path
    url: str
    log: Path

    def status(self, path: str) -> int:
        """The status of a probe; 0 where nobody listens."""
        try:
            return ask(self.url, path).status
        except OSError:
            return 0

    def wait_until_ready(self) -> None:
        """Waits until it says so, which it does a moment after the file is there."""
        eventually(lambda: self.status("/readyz") == 200, "an agent that is ready")

    def metrics(self) -> dict[str, float]:
        """Every series by its name without the prefix."""
        lines = ask(self.url, "/metrics").body.decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        prefix = "corelane_gateway_agent_"
        return {series.removeprefix(prefix): float(value) for series, value in pairs}

    def endpoints(self) -> dict[str, str] | None:
        """The addresses in the file with their health; none where there is no file."""
        if not self.file.exists():
            return None
        (resource,) = json.loads(self.file.read_text())["resources"]
        return {
            each["endpoint"]["address"]["socket_address"]["address"]: each["health_status"]
            for group in resource["endpoints"]
            for each in group["lb_endpoints"]
        }

    def wait_for(self, wanted: dict[str, str]) -> None:
        """Waits until the file has these addresses."""
        eventually(lambda: self.endpoints() == wanted, f"{wanted}, not {self.endpoints()}")


@dataclass
class Agents:
    """Starts agents that watch the same Service and write the same file."""

    folder: Path
    namespace: str
    wire: Wire
    number: itertools.count = field(default_factory=itertools.count)

    @contextmanager
    def run(self, folder: Path | None = None, *flags: str) -> Iterator[Agent]:
        """One agent, which is killed at the end; its file is in the test's folder or in another."""
        port = free_ports(1)
        file = (folder or self.folder) / "endpoints.json"
        log = self.folder / f"agent-{next(self.number)}.log"
        argv = [program("gateway-agent"), "endpoints", f"--kubeconfig={self.wire.kubeconfig}"]
        argv += [f"--namespace={self.namespace}", f"--service={SERVICE}", f"--file={file}"]
        argv += [f"--listen=127.0.0.1:{port}", "--log-format=json", *flags]
        # A proxy of the environment is not for loopback.
        env = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        with log.open("wb") as output:
            process = subprocess.Popen(argv, stderr=output, env=env)
        agent = Agent(process, file, f"http://127.0.0.1:{port}", log)
        try:
            eventually(lambda: agent.status("/healthz") == 200, log.read_text())
            yield agent
        finally:
            process.kill()
            process.wait(timeout=PATIENCE)
