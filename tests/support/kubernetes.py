"""A cluster and a release on it, through kubectl and Helm."""

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
"""Seconds for pods to start or stop."""

COMMAND = 600.0 * SLOWER
"""Seconds per command; a hanging command must not block the cleanup."""

PAUSE = 0.5
"""Seconds between kubectl calls."""

KEPT = {"kube-root-ca.crt", "default"}
"""Present in every namespace."""


@dataclass(frozen=True)
class Pod:
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
    """Result of a command in a pod."""

    succeeded: bool
    said: str


@dataclass(frozen=True)
class Cluster:
    """Kubeconfig and test namespace."""

    kubeconfig: Path
    namespace: str

    def kubectl(
        self, *arguments: str, check: bool = True, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
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
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def get(self, *arguments: str) -> dict:
        return json.loads(self.kubectl("get", *arguments, "--output", "json").stdout)

    def items(self, *arguments: str) -> list[dict]:
        return self.get(*arguments)["items"]

    def pods(self, app: str) -> list[Pod]:
        """Server or gateway pods, including terminating ones."""
        selector = f"app.kubernetes.io/name=corelane-{app}"
        return [Pod.of(found) for found in self.items("pods", "--selector", selector)]

    def ready_pods(self, app: str) -> list[Pod]:
        """Ready and not terminating."""
        return [pod for pod in self.pods(app) if pod.ready and not pod.ending]

    def wait_for_pods(self, app: str, count: int) -> list[Pod]:
        """Waits for exactly this many pods, all ready."""

        def settled() -> list[Pod]:
            pods = self.pods(app)
            whole = len(pods) == count and all(pod.ready and not pod.ending for pod in pods)
            return pods if whole else []

        return eventually(settled, f"{count} ready pods of {app}", patience=ROLL_OUT, pause=PAUSE)

    def evict(self, pod: str) -> subprocess.CompletedProcess[str]:
        """A single eviction request, as a drain sends it; the caller checks the result."""
        metadata = {"name": pod, "namespace": self.namespace}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction"
        arguments = ("create", "--raw", path, "--filename", "-")
        return self.kubectl(*arguments, check=False, stdin=json.dumps(eviction))

    def nodes(self) -> list[str]:
        return [node["metadata"]["name"] for node in self.items("nodes")]

    def address_of(self, service: str) -> str:
        """Uses the NodePort of the first node."""
        port = self.get("service", service)["spec"]["ports"][0]["nodePort"]
        addresses = self.items("nodes")[0]["status"]["addresses"]
        ip = next(each["address"] for each in addresses if each["type"] == "InternalIP")
        return f"http://{ip}:{port}"

    def run(self, image: str, *command: str) -> "Ended":
        """Runs a command in a new pod to completion."""
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
        """A temporary namespace restricted by Pod Security."""
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        made = {"apiVersion": "v1", "kind": "Namespace"}
        made["metadata"] = {"name": name, "labels": labels}
        # The previous namespace may still be terminating.
        self.kubectl("delete", "namespace", name, "--ignore-not-found")
        self.kubectl("apply", "--filename", "-", stdin=json.dumps(made))
        try:
            yield replace(self, namespace=name)
        finally:
            self.kubectl("delete", "namespace", name, "--wait=false")

    def leftovers(self, *options: str) -> list[str]:
        """Objects in the namespace that the cluster did not create."""
        kinds = self.kubectl(
            "api-resources", "--namespaced", "--verbs=list", "--output=name"
        ).stdout.split()
        wanted = ",".join(kind for kind in kinds if not kind.startswith("events"))
        found = self.kubectl("get", wanted, "--output=name", *options).stdout.split()
        return [name for name in found if name.split("/")[1] not in KEPT]

    @contextmanager
    def last_words(self, pod: str, file: Path) -> Iterator[None]:
        """Follows a pod's log until its container ends."""
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
        """Calls `take` for each existing object and for every change."""
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
        """Forwards a port through the kubelet, which bypasses Services and NetworkPolicies."""
        with subprocess.Popen(
            [tool("kubectl"), "--namespace", self.namespace, "port-forward", pod, f":{port}"],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            # kubectl logs each connection and would block at 64 KiB.
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
    """A restricted pod without a CPU request."""
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
