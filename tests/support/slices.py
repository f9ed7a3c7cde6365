"""EndpointSlices, and the agent that writes them to Envoy's files."""

import itertools
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from stack import becomes, eventually
from stack.agents import Agent
from stack.apiserver import Api
from stack.http import ask
from stack.ports import free_ports
from stack.programs import program

READY = {"ready": True, "serving": True, "terminating": False}
STARTING = {"ready": False, "serving": False, "terminating": False}
ENDING = {"ready": False, "serving": True, "terminating": True}
ENDED = {"ready": False, "serving": False, "terminating": True}

CLUSTER = "server"
SERVICE = "shop-server"
ACCOUNT = "gateway"


@dataclass(frozen=True)
class Slices:
    """Slices of a namespace's Services."""

    api: Api
    namespace: str

    def put(
        self,
        name: str,
        *endpoints: tuple[str, dict] | tuple[str, dict, str],
        ports: tuple[int, int] = (8080, 8081),
        service: str = SERVICE,
        names: tuple[str, ...] = ("http", "admin"),
    ) -> None:
        """Writes a slice; endpoints have an address, conditions and an optional zone."""
        described = [
            {
                "addresses": [address],
                "conditions": conditions,
                **({"zone": zone[0]} if zone else {}),
            }
            for address, conditions, *zone in endpoints
        ]
        numbers = zip(names, ports, strict=False)
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
        self._kubectl("delete", "endpointslice", name)

    def account(self) -> str:
        """Creates a service account without rights, and returns its token."""
        self._kubectl("create", "serviceaccount", ACCOUNT)
        return self._kubectl("create", "token", ACCOUNT)

    def permit(self, account: str) -> None:
        """Lets an account from another namespace read these slices."""
        verbs = ("--verb=list,watch", "--resource=endpointslices.discovery.k8s.io")
        self._kubectl("create", "role", ACCOUNT, *verbs)
        subject = f"--serviceaccount={account}:{ACCOUNT}"
        self._kubectl("create", "rolebinding", ACCOUNT, f"--role={ACCOUNT}", subject)

    def forbid(self) -> None:
        self._kubectl("delete", "rolebinding", ACCOUNT)

    def _kubectl(self, *arguments: str, text: str = "") -> str:
        result = self.api.kubectl(*arguments, "--namespace", self.namespace, text=text)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()


class _Sockets:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._ended = False

    def add(self, *sockets: socket.socket) -> None:
        """Registers sockets to close, or closes them immediately if the connection has already
        ended.
        """
        with self._lock:
            self._sockets += sockets
            if self._ended:
                self._close()

    def end(self) -> None:
        with self._lock:
            self._ended = True
            self._close()

    def _close(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


class Wire:
    """The agent's only connection to the API server, which tests can cut."""

    def __init__(self, api: Api, folder: Path, token: str = "") -> None:
        """Connects with an administrator's rights unless a token is given."""
        kubeconfig = json.loads(api.kubeconfig.read_text())
        if token:
            kubeconfig["users"][0]["user"] = {"token": token}
        cluster = kubeconfig["clusters"][0]["cluster"]
        self._target = ("127.0.0.1", urlsplit(cluster["server"]).port)
        self._port = free_ports(1)
        cluster["server"] = f"https://127.0.0.1:{self._port}"
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(kubeconfig))
        self._sockets = _Sockets()

    def join(self) -> None:
        listener = socket.create_server(("127.0.0.1", self._port), reuse_port=True)
        self._sockets = _Sockets()
        self._sockets.add(listener)
        threading.Thread(target=self._accept, args=(listener, self._sockets), daemon=True).start()

    def cut(self) -> None:
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


@pytest.fixture
def wire(api: Api, tmp_path: Path) -> Iterator[Wire]:
    way = Wire(api, tmp_path)
    way.join()
    yield way
    way.cut()


class EndpointsAgent(Agent):
    folder: Path

    @property
    def file(self) -> Path:
        return self.file_of(CLUSTER)

    def file_of(self, cluster: str) -> Path:
        return self.folder / f"{cluster}.json"

    def metrics(self, cluster: str = CLUSTER) -> dict[str, float]:
        """Returns a cluster's series without their prefix."""
        lines = ask(self.url, "/metrics").body.decode().splitlines()
        series = rf'corelane_gateway_agent_(\w+){{envoy_cluster_name="{cluster}",?(.*)}} (\S+)'
        found = filter(None, (re.fullmatch(series, line) for line in lines))
        return {
            f"{name}{{{labels}}}" if labels else name: float(value)
            for name, labels, value in (each.groups() for each in found)
        }

    def missing(self) -> str:
        return ask(self.url, "/readyz").body.decode()

    def logged(self, words: str) -> list[dict]:
        """Waits for matching lines."""

        return eventually(
            lambda: [
                line for line in self.lines() if words in json.dumps(line, ensure_ascii=False)
            ],
            words,
        )

    def endpoints(self, cluster: str = CLUSTER) -> dict[str, str] | None:
        """Addresses and health in the file."""
        file = self.file_of(cluster)
        if not file.exists():
            return None
        (resource,) = json.loads(file.read_text())["resources"]
        assert resource["cluster_name"] == cluster
        return {
            each["endpoint"]["address"]["socket_address"]["address"]: each["health_status"]
            for group in resource["endpoints"]
            for each in group["lb_endpoints"]
        }

    def wait_for(self, wanted: dict[str, str], cluster: str = CLUSTER) -> None:
        """Waits for these addresses in the file."""
        becomes(lambda: self.endpoints(cluster), wanted)


@dataclass
class Agents:
    """Agents with a shared folder and, by default, the same Service."""

    folder: Path
    namespace: str
    wire: Wire
    number: itertools.count = field(default_factory=itertools.count)

    @contextmanager
    def run(
        self,
        folder: Path | None = None,
        *flags: str,
        services: tuple[str, ...] = (),
        within: tuple[str, ...] = (),
    ) -> Iterator[EndpointsAgent]:
        """Killed at the end.

        `within` is a command prefix.
        """
        port = free_ports(1)
        folder = folder or self.folder
        if not services and not any(flag.startswith("--routes=") for flag in flags):
            services = (f"{CLUSTER}={self.namespace}/{SERVICE}:http:admin",)
        argv = [*within, program("gateway-agent"), "endpoints"]
        argv.append(f"--kubeconfig={self.wire.kubeconfig}")
        argv += [f"--service={service}" for service in services]
        argv += [f"--folder={folder}", f"--listen=127.0.0.1:{port}", "--log-format=json", *flags]
        agent = EndpointsAgent(f"agent-{next(self.number)}", argv, self.folder, port)
        agent.folder = folder
        try:
            yield agent.start()
        finally:
            agent.kill()
