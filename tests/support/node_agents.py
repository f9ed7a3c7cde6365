"""`node-tuner agent` on this machine or on a disposable tree, and the API server's view of its node."""

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
"""Seconds between two passes, the shortest pause that agents accept."""


class NodeAgent(Agent):
    """A running agent of a node."""

    def json(self, path: str) -> dict:
        """Returns the agent's findings."""
        reply = self.ask(path)
        assert reply.status == 200, reply.body
        return json.loads(reply.body)

    def metrics(self) -> dict[str, float]:
        """Returns every series by its name without the prefix, all from one moment.

        A pass updates its series together with `/readyz` and `/audit`, after it has written its files and the
        journal. `api_errors_total` and the series of pods follow once the API server has responded. A separate
        thread writes the log: `said`.
        """
        lines = self.ask("/metrics").body.decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {series.removeprefix(PREFIX): float(value) for series, value in pairs}

    def passes(self) -> None:
        """Waits for the end of a pass that began after this call."""
        called, last = time.time(), self.metrics()["last_pass_timestamp_seconds"]
        # The next pass begins after the pause, and may begin as soon as the pause could be over.
        for _ in range(1 if called < last + PAUSE else 2):
            last = eventually(lambda last=last: self._pass_after(last), "another pass")

    def _pass_after(self, last: float) -> float:
        """Returns the end of the last pass if it is later than the given one."""
        found = self.metrics()["last_pass_timestamp_seconds"]
        return found if found > last else 0

    def said(self, message: str, **fields: str) -> list[dict]:
        """Returns the log lines that begin with this message and contain these fields; waits for the first."""
        return eventually(lambda: self.said_so_far(message, **fields), f"{message!r} {fields}")

    def said_so_far(self, message: str, **fields: str) -> list[dict]:
        """Like `said`, but does not wait: until the agent has ended, a missing line proves nothing."""
        found = [line for line in self.lines() if line["message"].startswith(message)]
        return [line for line in found if fields.items() <= line.items()]

    def checks(self, pod: str, container: str = "main") -> dict[str, tuple[str, str]]:
        """Returns state and detail of each check of a container; none before the first check."""
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
        """Returns the state of each check."""
        return {name: state for name, (state, _) in self.checks(pod, container).items()}


@dataclass
class Agents:
    """Starts agents in the test's folder."""

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
        """Starts one agent, which is killed at the end; `before` is a prefix that runs it."""
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
    """A Node object of the API server, which no kubelet updates."""

    api: Api
    name: str

    def get(self) -> dict:
        """Returns the object from the API server."""
        return self.api.get("node", self.name)

    @property
    def taints(self) -> list[tuple[str, str, str]]:
        """Returns key, value and effect of each taint, except the API server's own for nodes without a kubelet."""
        taints = self.get()["spec"].get("taints", [])
        found = [(each["key"], each.get("value", ""), each["effect"]) for each in taints]
        return [taint for taint in found if taint[0] != "node.kubernetes.io/not-ready"]

    def events(self) -> dict[str, dict]:
        """Returns the events of the node, by reason and subject."""
        selector = f"involvedObject.kind=Node,involvedObject.name={self.name}"
        found = self.api.get("events", "--namespace=default", f"--field-selector={selector}")
        return {
            each["metadata"]["name"].removeprefix(f"{self.name}."): each for each in found["items"]
        }


@contextmanager
def node(api: Api, *taints: dict) -> Iterator[Node]:
    """Creates a Node object, registered with these taints."""
    name = f"node-{secrets.token_hex(4)}"
    create(
        api,
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "spec": {"taints": list(taints)},
        },
    )
    try:
        yield Node(api, name)
    finally:
        api.kubectl("delete", "node", name)


def create(api: Api, described: dict) -> dict:
    """Creates an object; returns it from the API server."""
    result = api.kubectl("create", "--filename=-", "--output=json", text=json.dumps(described))
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@dataclass(frozen=True)
class Pod:
    """A pod on a node, reported as running."""

    name: str
    uid: str
    id: str
    """The container's ID at the runtime."""


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
    """Creates a pod with one container in a namespace and on a node, and reports it as running.

    With an admin `port`, it is on loopback and ready.
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
    """Reports the state of the pod's container, and more of its status, like a kubelet."""
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
