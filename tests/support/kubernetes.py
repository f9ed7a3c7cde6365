"""A Kubernetes cluster and a release on it, through kubectl and Helm."""

import json
import os
import re
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from stack import SLOWER, eventually
from tools.resolve import tool

ROLL_OUT = 180.0 * SLOWER
"""Maximum seconds for pods to start or end."""

COMMAND = 600.0 * SLOWER
"""Maximum seconds for one command: a hanging command must not prevent the cleanup."""

PAUSE = 0.5
"""Seconds between two queries of the API server, each of which starts a process."""

KEPT = {"kube-root-ca.crt", "default"}
"""Objects that every namespace has: the cluster's certificate and the default service account."""


@dataclass(frozen=True)
class Pod:
    """The properties of a pod that tests use."""

    name: str
    uid: str
    node: str
    ip: str
    ready: bool
    ending: bool
    restarts: int
    image: str

    @classmethod
    def of(cls, found: dict) -> "Pod":
        """Parses a pod from the API server's response."""
        status = found["status"]
        containers = status.get("containerStatuses", [])
        return cls(
            name=found["metadata"]["name"],
            uid=found["metadata"]["uid"],
            node=found["spec"].get("nodeName", ""),
            ip=status.get("podIP", ""),
            ready=bool(containers) and all(each["ready"] for each in containers),
            ending="deletionTimestamp" in found["metadata"],
            restarts=sum(each["restartCount"] for each in containers),
            image=found["spec"]["containers"][0]["image"],
        )


@dataclass(frozen=True)
class Ended:
    """Exit status and output of a command in a pod."""

    succeeded: bool
    said: str


@dataclass(frozen=True)
class Cluster:
    """A cluster by its kubeconfig, and the namespace of the tests."""

    kubeconfig: Path
    namespace: str

    def kubectl(
        self, *arguments: str, check: bool = True, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs kubectl in the namespace."""
        result = subprocess.run(
            [tool("kubectl"), "--namespace", self.namespace, *arguments],
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=COMMAND,
            check=False,
        )
        assert not check or result.returncode == 0, f"kubectl {arguments}: {result.stderr}"
        return result

    @property
    def environment(self) -> dict[str, str]:
        """Returns the environment for programs that connect to the cluster."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def get(self, *arguments: str) -> dict:
        """Returns objects from the API server."""
        return json.loads(self.kubectl("get", *arguments, "--output", "json").stdout)

    def items(self, *arguments: str) -> list[dict]:
        """Returns the objects of a list."""
        return self.get(*arguments)["items"]

    def pods(self, app: str) -> list[Pod]:
        """Returns the pods of the server or the gateway, including terminating ones."""
        selector = f"app.kubernetes.io/name=corelane-{app}"
        return [Pod.of(found) for found in self.items("pods", "--selector", selector)]

    def ready_pods(self, app: str) -> list[Pod]:
        """Returns the pods that are ready and not terminating."""
        return [pod for pod in self.pods(app) if pod.ready and not pod.ending]

    def wait_for_pods(self, app: str, count: int) -> list[Pod]:
        """Waits until exactly this many pods remain, all ready."""

        def settled() -> list[Pod]:
            pods = self.pods(app)
            whole = len(pods) == count and all(pod.ready and not pod.ending for pod in pods)
            return pods if whole else []

        return eventually(settled, f"{count} ready pods of {app}", patience=ROLL_OUT, pause=PAUSE)

    def evict(self, pod: str) -> subprocess.CompletedProcess[str]:
        """Requests the eviction of a pod once, like the drain of a node; the caller judges the result."""
        metadata = {"name": pod, "namespace": self.namespace}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction"
        arguments = ("create", "--raw", path, "--filename", "-")
        return self.kubectl(*arguments, check=False, stdin=json.dumps(eviction))

    def nodes(self) -> list[str]:
        """Returns the nodes that run pods of the release, by name."""
        return [node["metadata"]["name"] for node in self.items("nodes")]

    def address_of(self, service: str) -> str:
        """Returns the URL of a NodePort Service through the first node."""
        port = self.get("service", service)["spec"]["ports"][0]["nodePort"]
        addresses = self.items("nodes")[0]["status"]["addresses"]
        ip = next(each["address"] for each in addresses if each["type"] == "InternalIP")
        return f"http://{ip}:{port}"

    def run(self, image: str, *command: str) -> "Ended":
        """Runs a command in its own pod until the pod ends."""
        name = f"run-{uuid.uuid4().hex[:8]}"
        self.kubectl("apply", "--filename", "-", stdin=json.dumps(_lone_pod(name, image, command)))
        try:

            def phase() -> str:
                return self.get("pod", name)["status"].get("phase", "")

            eventually(
                lambda: phase() in ("Succeeded", "Failed"),
                f"the end of {name}",
                patience=ROLL_OUT,
                pause=PAUSE,
            )
            return Ended(phase() == "Succeeded", self.kubectl("logs", name).stdout)
        finally:
            self.kubectl("delete", "pod", name, "--now", "--wait=false")

    @contextmanager
    def restricted(self, name: str) -> Iterator["Cluster"]:
        """Creates a namespace that admits only restricted pods, until the end of the block."""
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        made = {"apiVersion": "v1", "kind": "Namespace"}
        made["metadata"] = {"name": name, "labels": labels}
        # The namespace of an earlier run may still be terminating.
        self.kubectl("delete", "namespace", name, "--ignore-not-found")
        self.kubectl("apply", "--filename", "-", stdin=json.dumps(made))
        try:
            yield replace(self, namespace=name)
        finally:
            self.kubectl("delete", "namespace", name, "--wait=false")

    def leftovers(self, *options: str) -> list[str]:
        """Returns every object of the namespace that the cluster did not create; kubectl's `options` select
        some of them.
        """
        kinds = self.kubectl(
            "api-resources", "--namespaced", "--verbs=list", "--output=name"
        ).stdout.split()
        wanted = ",".join(kind for kind in kinds if not kind.startswith("events"))
        found = self.kubectl("get", wanted, "--output=name", *options).stdout.split()
        return [name for name in found if name.split("/")[1] not in KEPT]

    @contextmanager
    def last_words(self, pod: str, file: Path) -> Iterator[None]:
        """Writes a pod's log to a file until its container has ended."""
        argv = [tool("kubectl"), "--namespace", self.namespace, "logs", "--follow", pod]
        with (
            file.open("wb") as output,
            subprocess.Popen(argv, env=self.environment, stdout=output) as process,
        ):
            try:
                yield
                process.wait(ROLL_OUT)
            finally:
                process.kill()

    @contextmanager
    def watched(self, take: Callable[[dict], None], *arguments: str) -> Iterator[None]:
        """Calls `take` with each object that `kubectl get` finds, and again after each change."""
        argv = [tool("kubectl"), "--namespace", self.namespace, "get", *arguments]
        argv += ["--watch", "--output=json"]
        with subprocess.Popen(argv, env=self.environment, stdout=subprocess.PIPE) as process:
            reader = threading.Thread(target=_read, args=(process, take))
            reader.start()
            try:
                yield
            finally:
                process.kill()
                reader.join()

    @contextmanager
    def forwarded(self, pod: str, port: int) -> Iterator[str]:
        """Yields the URL of a pod's port through the kubelet, bypassing Services and NetworkPolicies."""
        with subprocess.Popen(
            [tool("kubectl"), "--namespace", self.namespace, "port-forward", pod, f":{port}"],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            # kubectl writes a line for each connection, and blocks once 64 KiB are unread.
            rest = threading.Thread(target=process.stdout.read, daemon=True)
            try:
                said = process.stdout.readline()
                found = re.search(r"127\.0\.0\.1:(\d+)", said)
                assert found, said + process.stdout.read()
                rest.start()
                yield f"http://127.0.0.1:{found[1]}"
            finally:
                process.terminate()
                if rest.is_alive():
                    rest.join()


def _read(process: subprocess.Popen[bytes], take: Callable[[dict], None]) -> None:
    decoder, text = json.JSONDecoder(), ""
    while data := process.stdout.read1(65536):
        text = (text + data.decode()).lstrip()
        while text:
            try:
                found, end = decoder.raw_decode(text)
            except json.JSONDecodeError:
                break
            take(found)
            text = text[end:].lstrip()


def _lone_pod(name: str, image: str, command: tuple[str, ...]) -> dict:
    """Returns a pod that the standard "restricted" admits and that requests no CPU."""
    container = {
        "name": "run",
        "image": image,
        "command": list(command),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
