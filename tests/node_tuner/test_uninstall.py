"""`node-tuner uninstall` with an API server; the test plays the DaemonSet controller and agents."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from stack import PATIENCE, eventually
from stack.apiserver import Api
from stack.programs import program
from support.node_agents import create
from support.slices import Wire

NAME = "corelane-node-tuning"
LABELS = {"app.kubernetes.io/name": "corelane-node-tuner"}
MODE = "NODE_TUNER_AGENT_MODE"


@dataclass(frozen=True)
class DaemonSet:
    """A DaemonSet in its own namespace, without a controller."""

    api: Api
    namespace: str

    def make(self) -> None:
        container = {
            "name": "node-tuner",
            "image": "none",
            "env": [
                {"name": "NODE_TUNER_AGENT_NODE", "value": "n"},
                {"name": MODE, "value": "apply"},
            ],
        }
        template = {
            "metadata": {"labels": LABELS},
            "spec": {"containers": [container, {"name": "other", "image": "none"}]},
        }
        create(
            self.api,
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {"name": NAME, "namespace": self.namespace},
                "spec": {
                    "selector": {"matchLabels": LABELS},
                    "template": template,
                    "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}},
                },
            },
        )

    def get(self) -> dict:
        return self.api.get("daemonset", NAME, f"--namespace={self.namespace}")

    def mode(self) -> str:
        (container, _) = self.get()["spec"]["template"]["spec"]["containers"]
        return {each["name"]: each["value"] for each in container["env"]}[MODE]

    def say(self, wanted: int, updated: int, ready: int, *, behind: int = 0) -> None:
        """Reports rollout progress, `behind` generations late."""
        status = {
            "observedGeneration": self.get()["metadata"]["generation"] - behind,
            "desiredNumberScheduled": wanted,
            "currentNumberScheduled": wanted,
            "updatedNumberScheduled": updated,
            "numberReady": ready,
            "numberMisscheduled": 0,
        }
        self._patch("daemonset", NAME, {"status": status})

    def agent(self, node: str, mode: str, *, ready: bool) -> None:
        container = {
            "name": "node-tuner",
            "image": "none",
            "env": [{"name": MODE, "value": mode}],
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
        }
        security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        metadata = {"name": f"agent-{node}", "namespace": self.namespace, "labels": LABELS}
        spec = {"nodeName": node, "containers": [container], "securityContext": security}
        create(self.api, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        self._patch("pod", f"agent-{node}", {"status": {"conditions": [condition]}})

    def _patch(self, kind: str, name: str, patch: dict) -> None:
        where = [f"--namespace={self.namespace}", "--subresource=status"]
        result = self.api.kubectl("patch", kind, name, *where, "--patch", json.dumps(patch))
        assert result.returncode == 0, result.stderr


@pytest.fixture
def daemonset(api: Api) -> Iterator[DaemonSet]:
    """Yields a DaemonSet in `apply` mode with three ready agents."""
    with api.namespace() as namespace:
        made = DaemonSet(api, namespace)
        made.make()
        made.say(3, 3, 3)
        yield made


@contextmanager
def uninstall(
    of: DaemonSet, kubeconfig: Path, log: Path, *flags: str
) -> Iterator[subprocess.Popen[bytes]]:
    argv = [program("node-tuner"), "uninstall", f"--namespace={of.namespace}"]
    argv += [f"--daemonset={NAME}", f"--agent.kubeconfig={kubeconfig}", *flags]
    with log.open("wb") as output, subprocess.Popen(argv, stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            process.kill()


def test_it_ends_when_every_node_is_restored(
    daemonset: DaemonSet, wire: Wire, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with uninstall(daemonset, wire.kubeconfig, log) as process:
        eventually(lambda: daemonset.mode() == "restore", "the mode")
        # The status is stale: three are ready, but in mode apply.
        eventually(lambda: "waiting for the DaemonSet's controller" in log.read_text())
        spec = daemonset.get()["spec"]
        rolling = {"maxSurge": 0, "maxUnavailable": "100%"}
        assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
        (container, other) = spec["template"]["spec"]["containers"]
        assert {"name": "NODE_TUNER_AGENT_NODE", "value": "n"} in container["env"]
        assert "env" not in other
        daemonset.say(3, 0, 3)
        eventually(lambda: "0 of 3 nodes restored" in log.read_text())
        daemonset.say(3, 3, 1)
        eventually(lambda: "1 of 3 nodes restored" in log.read_text())
        # The command tolerates an API outage.
        wire.cut()
        eventually(lambda: "API server: " in log.read_text())
        assert process.poll() is None
        wire.join()
        daemonset.say(3, 3, 3)
        assert process.wait(timeout=PATIENCE) == 0
    assert log.read_text().splitlines()[-1] == "3 of 3 nodes restored"


def test_it_names_the_nodes_that_are_late(daemonset: DaemonSet, api: Api, tmp_path: Path) -> None:
    log = tmp_path / "log"
    daemonset.agent("fine", "restore", ready=True)
    daemonset.agent("slow", "restore", ready=False)
    daemonset.agent("stuck", "apply", ready=True)
    with uninstall(daemonset, api.kubeconfig, log, "--timeout=3s") as process:
        eventually(lambda: daemonset.mode() == "restore", "the mode")
        daemonset.say(3, 2, 1)
        assert process.wait(timeout=PATIENCE) == 1
    last = log.read_text().splitlines()[-1]
    assert last.startswith("node-tuner: uninstall: not restored in time: ")
    assert "; not: slow, stuck. " in last


def test_a_second_run_goes_on(daemonset: DaemonSet, api: Api, tmp_path: Path) -> None:
    with uninstall(daemonset, api.kubeconfig, tmp_path / "first", "--timeout=1s") as process:
        assert process.wait(timeout=PATIENCE) == 1
    generation = daemonset.get()["metadata"]["generation"]
    daemonset.say(3, 3, 3)
    with uninstall(daemonset, api.kubeconfig, tmp_path / "second") as process:
        assert process.wait(timeout=PATIENCE) == 0
    assert daemonset.get()["metadata"]["generation"] == generation


def test_without_a_daemonset_it_says_what_that_means(
    daemonset: DaemonSet, api: Api, tmp_path: Path
) -> None:
    api.kubectl("delete", "daemonset", NAME, f"--namespace={daemonset.namespace}")
    log = tmp_path / "log"
    with uninstall(daemonset, api.kubeconfig, log) as process:
        assert process.wait(timeout=PATIENCE) == 1
    assert f"there is no DaemonSet {daemonset.namespace}/{NAME}" in log.read_text()
