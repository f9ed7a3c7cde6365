"""An exiting agent restores its node only if its DaemonSet shows that no other agent will replace
it.
"""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from stack import PATIENCE, eventually
from stack.apiserver import Api
from stack.node import Tree, sysctl
from support.node_agents import Agents, Node, NodeAgent, create, node
from support.slices import Wire
from tools.resolve import tool

BACKLOG, BUDGET = "net.core.netdev_max_backlog", "net.core.netdev_budget"
PROFILE = ("--profile=custom", f"--knobs={BACKLOG}=5000;{BUDGET}=600")
KEY = "corelane.example/node-tuning"
RESTORED = "agent: stopped; the node is restored"
UNCHANGED = "agent: stopped; settings are not changed"
NAME = "agents"


@dataclass(frozen=True)
class Owner:
    """A DaemonSet without a controller, on nodes with a label."""

    api: Api
    namespace: str

    def make(self) -> None:
        labels = {"app": NAME}
        spec = {"nodeSelector": {"pool": "web"}, "containers": [{"name": "main", "image": "none"}]}
        template = {"metadata": {"labels": labels}, "spec": spec}
        described = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": NAME, "namespace": self.namespace},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        }
        create(self.api, described)

    def kubectl(self, *arguments: str) -> None:
        result = self.api.kubectl(*arguments, "--namespace", self.namespace)
        assert result.returncode == 0, result.stderr


@pytest.fixture
def owner(api: Api) -> Iterator[Owner]:
    with api.namespace() as namespace:
        found = Owner(api, namespace)
        found.make()
        yield found


@contextmanager
def agent(owner: Owner, on: Node, tree: Tree, wire: Wire, *flags: str) -> Iterator[NodeAgent]:
    """Has applied the profile and has talked with the API server, if there is one."""
    told = [f"--root={tree.root}", f"--journal={tree.journal}", *PROFILE, "--agent.mode=apply"]
    told += [f"--agent.node={on.name}", f"--agent.kubeconfig={wire.kubeconfig}"]
    told += [f"--agent.daemonset={owner.namespace}/{NAME}", *flags]
    with Agents(tree.root.parent).run(*told) as running:
        running.wait_until_ready()
        yield running


def talked(running: NodeAgent) -> None:
    """The pods are listed after the DaemonSet was read."""
    eventually(lambda: running.status("/proof.json") == 200, "talks with the API server")


@pytest.mark.parametrize(
    "end",
    [
        ("delete", "daemonset", NAME),
        # Without a garbage collector, the object stays with its deletion timestamp.
        ("delete", "daemonset", NAME, "--cascade=foreground", "--wait=false"),
        ("label", "node", "{node}", "pool=batch", "--overwrite"),
        ("patch", "daemonset", NAME, "--patch", json.dumps(
            {"spec": {"template": {"spec": {"nodeSelector": {"pool": "other"}}}}}
        )),
        ("delete", "node", "{node}"),
    ],
    ids=["background", "foreground", "label", "selector", "node"],
)  # fmt: skip
def test_a_node_without_a_next_agent_is_restored(
    owner: Owner, tree: Tree, wire: Wire, end: tuple[str, ...]
) -> None:
    before = tree.snapshot()
    with node(owner.api, labels={"pool": "web"}) as on, agent(owner, on, tree, wire) as running:
        talked(running)
        owner.kubectl(*(word.replace("{node}", on.name) for word in end))
        assert running.end() == 0
        assert running.said(RESTORED)
    assert tree.snapshot() == before
    assert not (tree.journal / "journal.json").exists()


def test_a_restart_a_rollout_and_an_eviction_change_nothing(
    owner: Owner, tree: Tree, wire: Wire
) -> None:
    rollout = {"metadata": {"annotations": {"example.org/revision": "2"}}}
    with node(owner.api, labels={"pool": "web"}) as on:
        with agent(owner, on, tree, wire) as running:
            talked(running)
            patch = json.dumps({"spec": {"template": rollout}})
            owner.kubectl("patch", "daemonset", NAME, "--patch", patch)
            assert running.end() == 0
            assert running.said(UNCHANGED)
        assert tree.read(sysctl(BACKLOG)) == "5000"
        # The next agent finds the same original values.
        with agent(owner, on, tree, wire) as running:
            talked(running)
            owner.kubectl("delete", "daemonset", NAME)
            assert running.end() == 0
        assert tree.read(sysctl(BACKLOG)) == "1000"


def test_an_agent_after_one_that_was_killed_midway_restores_everything(
    owner: Owner, tree: Tree, wire: Wire
) -> None:
    before = tree.snapshot()
    kill = ["-P", tree.root / sysctl(BUDGET), "-e", "inject=write:signal=SIGKILL:when=1"]
    argv = [tool("strace"), "-qq", "-f", "-o", "/dev/null", *kill, *tree.argv("apply", *PROFILE)]
    killed = subprocess.run(argv, capture_output=True, timeout=PATIENCE, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert tree.read(sysctl(BACKLOG)) == "5000"
    with node(owner.api, labels={"pool": "web"}) as on:
        # Also killed, after its first pass.
        with agent(owner, on, tree, wire) as running:
            running.kill()
        with agent(owner, on, tree, wire) as running:
            talked(running)
            owner.kubectl("delete", "daemonset", NAME)
            assert running.end() == 0
    assert tree.snapshot() == before


def test_the_taint_goes_with_the_settings(owner: Owner, tree: Tree, wire: Wire) -> None:
    with (
        node(owner.api, labels={"pool": "web"}) as on,
        agent(owner, on, tree, wire, f"--agent.taint={KEY}", "--agent.drift=report") as running,
    ):
        talked(running)
        tree.drift(BACKLOG, "300")
        eventually(lambda: on.taints, "the taint")
        owner.kubectl("delete", "daemonset", NAME)
        assert running.end() == 0
        assert on.taints == []
        assert "noderestored" in on.events()


def test_a_failed_restore_is_an_error(owner: Owner, tree: Tree, wire: Wire) -> None:
    with node(owner.api, labels={"pool": "web"}) as on, agent(owner, on, tree, wire) as running:
        talked(running)
        owner.kubectl("delete", "daemonset", NAME)
        # Paths that leave the tree are rejected.
        file = tree.root / sysctl(BACKLOG)
        file.unlink()
        file.symlink_to("/dev/null")
        assert running.end() == 1
    assert tree.read(sysctl(BUDGET)) == "300"
    assert tree.noted()["settings"]


def test_without_an_answer_the_node_stays_tuned(owner: Owner, tree: Tree, wire: Wire) -> None:
    """A wrong guess would change a node under load in each rollout."""
    unknown = "agent: stopped; if no other agent takes over, the node stays tuned: "
    with node(owner.api, labels={"pool": "web"}) as on:
        with agent(owner, on, tree, wire) as running:
            talked(running)
            wire.cut()
            assert running.end() == 0
            assert running.said(unknown)
        assert tree.read(sysctl(BACKLOG)) == "5000"
        # An agent that could never read its DaemonSet cannot tell that its release is deleted.
        wire.join()
        configuration = json.loads(wire.kubeconfig.read_text())
        configuration["users"][0]["user"] = {"token": "nobody"}
        wire.kubeconfig.write_text(json.dumps(configuration))
        with agent(owner, on, tree, wire) as running:
            errors = 'api_errors_total{operation="daemonset"}'
            eventually(lambda: running.metrics()[errors] >= 1, "an error")
            assert running.end() == 0
            assert running.said(unknown)
    assert tree.read(sysctl(BACKLOG)) == "5000"
