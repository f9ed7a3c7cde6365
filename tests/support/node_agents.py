"""`node-tuner agent` on this machine or a temporary tree, and its Node object."""

import itertools
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stack import HOST, eventually
from stack.agents import Agent
from stack.apiserver import Api
from stack.ports import free_ports
from stack.programs import program

PREFIX = "corelane_node_"

PAUSE = 1
"""The shortest pause between passes, in seconds."""


class NodeAgent(Agent):
    def json(self, path: str) -> dict:
        reply = self.ask(path)
        assert reply.status == 200, reply.body
        return json.loads(reply.body)

    def metrics(self) -> dict[str, float]:
        """Series without prefix, from one scrape.

        Updated together with `/readyz` and `/audit`, after files and journal. `api_errors_total`
        and pod series follow after the API server's response. For the log, which another thread
        writes, see `said`.
        """
        lines = self.ask("/metrics").body.decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {series.removeprefix(PREFIX): float(value) for series, value in pairs}

    def passes(self) -> None:
        """Waits for a full pass."""
        called, last = time.time(), self.metrics()["last_pass_timestamp_seconds"]
        # The next pass starts as soon as the pause may be over.
        for _ in range(1 if called < last + PAUSE else 2):
            last = eventually(lambda last=last: self._pass_after(last), "another pass")

    def _pass_after(self, last: float) -> float:
        """Time when the last pass ended, or 0 if this is not later than `last`."""
        found = self.metrics()["last_pass_timestamp_seconds"]
        return found if found > last else 0

    def said(self, message: str, **fields: str) -> list[dict]:
        """Waits for log lines with this message and these fields."""
        return eventually(lambda: self.said_so_far(message, **fields), f"{message!r} {fields}")

    def said_so_far(self, message: str, **fields: str) -> list[dict]:
        """Returns matching log lines without waiting. Until the agent has exited, a missing line
        proves nothing.
        """
        found = [line for line in self.lines() if line["message"].startswith(message)]
        return [line for line in found if fields.items() <= line.items()]

    def checks(self, pod: str, container: str = "main") -> dict[str, tuple[str, str]]:
        """State and detail per check of a container."""
        reply = self.ask("/proof.json")
        pods = json.loads(reply.body)["pods"] if reply.status == 200 else []
        found = {
            each["container"]: each
            for proof in pods
            if proof["pod"] == pod
            for each in proof["containers"]
        }
        checks = found[container]["checks"] if container in found else []
        return {each["check"]: (each["state"], each["detail"]) for each in checks}

    def states(self, pod: str, container: str = "main") -> dict[str, str]:
        return {name: state for name, (state, _) in self.checks(pod, container).items()}


@dataclass
class Agents:
    folder: Path
    number: itertools.count = field(default_factory=itertools.count)

    @contextmanager
    def run(
        self,
        *flags: str | Path,
        before: tuple[str, ...] = (),
        address: str = HOST,
        port: int = 0,
    ) -> Iterator[NodeAgent]:
        """Starts an agent, which is killed at the end. `before` is a command prefix."""
        port = port or free_ports(1)
        argv = [*before, program("node-tuner"), "agent", f"--agent.listen={address}:{port}"]
        argv += [f"--agent.interval={PAUSE}s", "--log.format=json"]
        if not any(str(flag).startswith("--journal=") for flag in flags):
            argv.append(f"--journal={self.folder / 'journal'}")
        name = f"agent-{next(self.number)}"
        agent = NodeAgent(name, [*argv, *flags], self.folder, port, address=address)
        try:
            yield agent.start()
        finally:
            agent.kill()


@dataclass(frozen=True)
class Node:
    """A Node object without a kubelet."""

    api: Api
    name: str

    def get(self) -> dict:
        return self.api.get("node", self.name)

    @property
    def taints(self) -> list[tuple[str, str, str]]:
        """Excludes the taint that the API server itself sets on nodes without a kubelet."""
        taints = self.get()["spec"].get("taints", [])
        found = [(each["key"], each.get("value", ""), each["effect"]) for each in taints]
        return [taint for taint in found if taint[0] != "node.kubernetes.io/not-ready"]

    def events(self) -> dict[str, dict]:
        """By reason and subject."""
        selector = f"involvedObject.kind=Node,involvedObject.name={self.name}"
        found = self.api.get("events", "--namespace=default", f"--field-selector={selector}")
        return {
            each["metadata"]["name"].removeprefix(f"{self.name}."): each for each in found["items"]
        }


@contextmanager
def node(api: Api, *taints: dict, labels: Mapping[str, str] | None = None) -> Iterator[Node]:
    name = f"node-{secrets.token_hex(4)}"
    create(
        api,
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": dict(labels or {})},
            "spec": {"taints": list(taints)},
        },
    )
    try:
        yield Node(api, name)
    finally:
        api.kubectl("delete", "node", name)


def create(api: Api, described: dict) -> dict:
    result = api.kubectl("create", "--filename=-", "--output=json", text=json.dumps(described))
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@dataclass(frozen=True)
class Pod:
    name: str
    uid: str
    id: str


def pod(
    api: Api,
    where: tuple[str, Node],
    name: str,
    *,
    cpu: str = "1",
    limit: str = "",
    labels: Mapping[str, str] | None = None,
    sysctls: Mapping[str, str] | None = None,
    account: str = "",
    port: int = 0,
) -> Pod:
    """Creates a running pod with one container.

    With `port`, it is ready and its admin port is on loopback.
    """
    namespace, on = where
    resources = {
        "requests": {"cpu": cpu, "memory": "64Mi"},
        "limits": {"cpu": limit or cpu, "memory": "64Mi"},
    }
    container = {
        "name": "main",
        "image": "none",
        "resources": resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "ports": [{"name": "admin", "containerPort": port}] if port else [],
    }
    security = {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        "sysctls": [{"name": key, "value": value} for key, value in (sysctls or {}).items()],
    }
    labels = labels or {"app.kubernetes.io/name": "corelane-server"}
    made = create(
        api,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
            "spec": {
                "nodeName": on.name,
                "serviceAccountName": account,
                "containers": [container],
                "securityContext": security,
            },
        },
    )
    found = Pod(name, made["metadata"]["uid"], secrets.token_hex(32))
    reached = {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]} if port else {}
    conditions = [{"type": "Ready", "status": str(bool(port))}]
    running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    state(api, namespace, found, running, conditions=conditions, **reached)
    return found


def state(
    api: Api, namespace: str, of: Pod, container: dict, phase: str = "Running", **more: str | list
) -> None:
    """Updates the pod's status as a kubelet does."""
    status = {
        "name": "main",
        "containerID": f"containerd://{of.id}",
        "image": "none",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "state": container,
    }
    patch = json.dumps({"status": {"phase": phase, "containerStatuses": [status], **more}})
    result = api.kubectl(
        "patch",
        "pod",
        of.name,
        f"--namespace={namespace}",
        "--subresource=status",
        "--patch",
        patch,
    )
    assert result.returncode == 0, result.stderr
