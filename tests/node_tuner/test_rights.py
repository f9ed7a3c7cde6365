"""A real API server confirms that the rights in charts/node-tuning suffice."""

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from stack import becomes, eventually
from stack.apiserver import Api
from stack.node import Tree
from stack.rendering import CHARTS, helm
from stack.replica import Server
from support.node_agents import Agents, Node, NodeAgent, node, pod
from support.raw import connect

BACKLOG = "net.core.netdev_max_backlog"
WIDE = (
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)


@dataclass(frozen=True)
class Release:
    """The chart's objects without its test pod."""

    api: Api
    namespace: str
    name: str

    def make(self, *settings: str) -> None:
        named = (*settings, "global.registry=images.example")
        sets = [argument for setting in named for argument in ("--set", setting)]
        rendered = helm("template", self.name, CHARTS / "node-tuning", *self.where, *sets)
        assert rendered.returncode == 0, rendered.stderr
        for document in yaml.safe_load_all(rendered.stdout):
            if document and document["kind"] != "Pod":
                scope = () if document["kind"] in WIDE else self.where
                text = json.dumps(document)
                made = self.api.kubectl("create", "--filename=-", *scope, text=text)
                assert made.returncode == 0, made.stderr

    def remove(self) -> None:
        for kind in WIDE:
            self.api.kubectl("delete", kind, self.full)

    @property
    def full(self) -> str:
        return f"{self.name}-node-tuning"

    @property
    def where(self) -> tuple[str, str]:
        return ("--namespace", self.namespace)

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.full}"

    def kubeconfig(self, account: str, folder: Path, on: Node | None = None) -> Path:
        """Writes a kubeconfig with the rights of a pod with this account, optionally on a node."""
        bound: list[str] = []
        if on:
            name, labels = f"agent-{secrets.token_hex(4)}", {"role": "agent"}
            made = pod(self.api, (self.namespace, on), name, labels=labels, account=account)
            bound = ["--bound-object-kind=Pod", f"--bound-object-name={made.name}"]
        argv = ["create", "token", account, "--namespace", self.namespace, *bound]
        token = self.api.kubectl(*argv)
        assert token.returncode == 0, token.stderr
        configuration = json.loads(self.api.kubeconfig.read_text())
        configuration["users"][0]["user"] = {"token": token.stdout.strip()}
        file = folder / f"kubeconfig-{account}-{bool(on)}"
        file.write_text(json.dumps(configuration))
        return file


@contextmanager
def release(api: Api, *settings: str) -> Iterator[Release]:
    with api.namespace() as namespace:
        made = Release(api, namespace, f"t{secrets.token_hex(4)}")
        made.make(*settings)
        try:
            yield made
        finally:
            made.remove()


@contextmanager
def agent(of: Release, on: Node, tree: Tree, *flags: str) -> Iterator[NodeAgent]:
    """Runs with the release's service account."""
    folder = tree.root.parent
    told = [f"--root={tree.root}", f"--journal={tree.journal}", "--profile=custom"]
    told += [f"--knobs={BACKLOG}=5000", f"--agent.node={on.name}", *flags]
    told += [f"--agent.daemonset={of.path}"]
    kubeconfig = of.kubeconfig(of.full, folder, on)
    with Agents(folder).run(*told, f"--agent.kubeconfig={kubeconfig}") as running:
        yield running


def errors(of: NodeAgent) -> dict[str, float]:
    found = of.metrics()
    return {series: n for series, n in found.items() if series.startswith("api_errors") and n}


def test_an_agent_that_applies_may_do_what_it_does(api: Api, tree: Tree) -> None:
    taint = {"key": "corelane/node", "value": "unprepared", "effect": "NoSchedule"}
    with (
        release(api, "mode=apply", "taint.enabled=true", "nodeSelector.a=b") as made,
        node(api, taint) as on,
    ):
        flags = ("--agent.mode=apply", "--agent.taint=corelane/node")
        with agent(made, on, tree, *flags) as running:
            running.wait_until_ready()
            tree.drift(BACKLOG, "300")
            eventually(lambda: not on.taints, "no taint")
            eventually(lambda: len(on.events()) == 3, "events")
            eventually(lambda: running.status("/proof.json") == 200, "the pods")
            becomes(lambda: errors(running), {})
        # The next agent patches the repeated event.
        with agent(made, on, tree, *flags) as running:
            eventually(lambda: on.events()["nodeprepared"]["count"] == 2, "a count")
            becomes(lambda: errors(running), {})


def test_an_agent_that_audits_may_do_what_it_does(api: Api, tree: Tree) -> None:
    tree.run("apply", "--profile=custom", f"--knobs={BACKLOG}=5000", status=0)
    with (
        release(api) as made,
        node(api) as on,
        agent(made, on, tree) as running,
    ):
        running.wait_until_ready()
        tree.drift(BACKLOG, "300")
        eventually(lambda: len(on.events()) == 1, "an event")
        eventually(lambda: running.status("/proof.json") == 200, "the pods")
        assert errors(running) == {}


@pytest.mark.parametrize("first", ["rights", "daemonset"])
def test_an_agent_whose_release_is_deleted_restores_its_node(
    api: Api, tree: Tree, first: str
) -> None:
    """`kubectl delete` and Helm delete the objects in opposite orders."""
    before = tree.snapshot()
    with release(api, "mode=apply", "nodeSelector.a=b") as made, node(api, labels={"a": "b"}) as on:
        with agent(made, on, tree, "--agent.mode=apply") as running:
            running.wait_until_ready()
            eventually(lambda: running.status("/proof.json") == 200, "talks with the API server")
            kinds = ["clusterrole,clusterrolebinding,role,rolebinding,serviceaccount", "daemonset"]
            for kind in kinds if first == "rights" else reversed(kinds):
                selector = f"app.kubernetes.io/instance={made.name}"
                made.api.kubectl("delete", kind, "--selector", selector, *made.where)
            assert running.end() == 0
            assert running.said("agent: stopped; the node is restored")
        assert tree.snapshot() == before
        assert not (tree.journal / "journal.json").exists()


COST = "controller.kubernetes.io/pod-deletion-cost"
REPLICA = {"app.kubernetes.io/part-of": "corelane", "app.kubernetes.io/component": "replica"}
ENABLED = ("deletionCost.enabled=true", "nodeSelector.a=b")


def annotations(of: Release, name: str) -> dict[str, str]:
    metadata = of.api.get("pod", name, "--namespace", of.namespace)["metadata"]
    return metadata.get("annotations", {})


@pytest.fixture
def costs(api: Api) -> Iterator[tuple[Release, Node, Node]]:
    """Agents that write deletion costs, and two nodes; the pod `mine` is on the first."""
    with release(api, *ENABLED) as made, node(api) as on, node(api) as other:
        pod(api, (made.namespace, on), "mine", labels=REPLICA)
        yield made, on, other


def patched(way: Api, of: Release, name: str, **metadata: object) -> str:
    return change(way, of, name, {"metadata": metadata})


def change(way: Api, of: Release, name: str, patch: dict) -> str:
    """The API server's error for a patch, or an empty text."""
    argv = ["patch", "pod", name, "--namespace", of.namespace, "--type=merge"]
    return way.kubectl(*argv, "--patch", json.dumps(patch)).stderr


def test_an_agent_changes_the_cost_of_its_replicas_and_nothing_else(
    costs: tuple[Release, Node, Node], tmp_path: Path
) -> None:
    made, on, other = costs
    where = (made.namespace, on)
    pod(made.api, (made.namespace, other), "remote", labels=REPLICA)
    pod(made.api, where, "foreign")
    # kubectl reads the object first.
    here = ("--namespace", made.namespace)
    role = ("create", "role", "reader", "--verb=get", "--resource=pods")
    assert made.api.kubectl(*role, *here).returncode == 0
    account = f"--serviceaccount={made.namespace}:{made.full}"
    bound = made.api.kubectl("create", "rolebinding", "reader", "--role=reader", account, *here)
    assert bound.returncode == 0, bound.stderr
    note = {"annotations": {"note": "x"}}
    assert not patched(made.api, made, "mine", **note)
    mine = Api(made.kubeconfig(made.full, tmp_path, on), made.api.programs)
    nodeless = Api(made.kubeconfig(made.full, tmp_path), made.api.programs)
    refused = "an agent may change only"
    # The policy takes effect shortly after its creation.
    eventually(lambda: refused in patched(mine, made, "mine", labels={"a": "b"}), "the policy")
    before = made.api.get("pod", "mine", "--namespace", made.namespace)
    for number in ("3", "-1", None):
        assert not patched(mine, made, "mine", annotations={COST: number})
        cost = {COST: number} if number else {}
        assert annotations(made, "mine") == {"note": "x", **cost}
    owner = {"apiVersion": "v1", "kind": "Node", "name": on.name, "uid": "1"}
    for metadata in (
        {"labels": {"c": "d"}},
        {"labels": None},
        {"annotations": {"another": "x"}},
        {"annotations": {"note": "y"}},
        {"annotations": {"note": None}},
        {"annotations": {COST: "3", "note": "y"}},
        {"ownerReferences": [owner]},
        {"finalizers": ["example.org/a"]},
    ):
        assert refused in patched(mine, made, "mine", **metadata), metadata
    (container,) = before["spec"]["containers"]
    image = {"spec": {"containers": [{**container, "image": "another"}]}}
    assert refused in change(mine, made, "mine", image)
    cost = {"annotations": {COST: "3"}}
    assert "only replicas" in patched(mine, made, "foreign", **cost)
    assert "pods of its own node" in patched(mine, made, "remote", **cost)
    assert "pods of its own node" in patched(nodeless, made, "mine", **cost)
    after = made.api.get("pod", "mine", "--namespace", made.namespace)
    for kept in ("labels", "annotations", "ownerReferences", "finalizers"):
        assert after["metadata"].get(kept) == before["metadata"].get(kept)
    assert after["spec"] == before["spec"]
    # Other accounts are not restricted.
    assert not change(made.api, made, "mine", image)


def test_the_cost_of_a_replica_follows_its_connections(
    costs: tuple[Release, Node, Node], tree: Tree, start: Callable[..., Server]
) -> None:
    made, on, other = costs
    server = start("--timeouts.header=1h")
    port = urlsplit(server.admin).port
    for name, where, labels in (
        ("replica", on, REPLICA),
        ("foreign", on, {"app.kubernetes.io/component": "replica"}),
        ("remote", other, REPLICA),
    ):
        pod(made.api, (made.namespace, where), name, labels=labels, port=port)

    def costs_are(number: str) -> None:
        eventually(lambda: annotations(made, "replica").get(COST) == number, number)

    with agent(made, on, tree, "--agent.deletion-cost=1s") as running, ExitStack() as clients:
        for more, cost in ((1, "1"), (4, "3"), (35, "6")):
            for _ in range(more):
                clients.enter_context(connect(server.url))
            costs_are(cost)
        # Unresponsive.
        server.freeze()
        costs_are("-1")
        server.thaw()
        costs_are("6")
        clients.close()
        costs_are("0")
        server.kill()
        costs_are("-1")
        assert errors(running) == {}
    assert annotations(made, "foreign") == annotations(made, "remote") == {}
    assert annotations(made, "mine") == {}
