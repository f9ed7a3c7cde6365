"""An agent's events and taints, and API server outages."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager

from stack import eventually
from stack.apiserver import Api
from stack.node import Tree, sysctl
from stack.programs import run
from support.node_agents import Agents, Node, NodeAgent, node
from support.slices import Wire

BACKLOG = "net.core.netdev_max_backlog"
KEY = "corelane.example/node-tuning"
TAINT = (KEY, "unprepared", "NoSchedule")
OTHER = {"key": "other", "value": "x", "effect": "NoExecute"}


@contextmanager
def agent(
    tree: Tree, wire: Wire, on: Node, *flags: str, before: tuple[str, ...] = ()
) -> Iterator[NodeAgent]:
    """Wants a single knob."""
    told = [f"--root={tree.root}", f"--journal={tree.journal}", "--profile=custom"]
    told += [f"--agent.node={on.name}", f"--agent.kubeconfig={wire.kubeconfig}"]
    told += [f"--knobs={BACKLOG}=5000", *flags]
    with Agents(tree.root.parent).run(*told, before=before) as running:
        yield running


def test_a_node_is_tainted_until_it_is_prepared(api: Api, tree: Tree, wire: Wire) -> None:
    tree.journal.write_text("a file is no folder")
    with (
        node(api, OTHER) as on,
        agent(tree, wire, on, "--agent.mode=apply", f"--agent.taint={KEY}") as running,
    ):
        eventually(lambda: TAINT in on.taints, "the taint")
        # Concurrent updates must not be lost.
        for number in range(5):
            api.kubectl("label", "node", on.name, f"test={number}", "--overwrite")
        tree.journal.unlink()
        eventually(lambda: TAINT not in on.taints, "no taint")
        assert on.taints == [("other", "x", "NoExecute")]
        assert on.get()["metadata"]["labels"]["test"] == "4"
        words = "the taint of nodes that are not prepared is taken off"
        assert running.said(words)
        assert running.metrics()['api_errors_total{operation="taint"}'] == 0


def test_a_node_that_registers_with_the_taint_loses_it(api: Api, tree: Tree, wire: Wire) -> None:
    registered = {"key": KEY, "value": "of-the-kubelet", "effect": "NoSchedule"}
    evicting = {"key": KEY, "value": "of-somebody", "effect": "NoExecute"}
    with node(api, registered, OTHER, evicting) as on:
        with agent(tree, wire, on, f"--agent.taint={KEY}") as running:
            running.wait_until_ready()
            eventually(lambda: running.status("/proof.json") == 200, "talks with the API server")
            # The agent only audits.
            assert len(on.taints) == 3
        with agent(tree, wire, on, "--agent.mode=apply", f"--agent.taint={KEY}"):
            eventually(lambda: len(on.taints) == 2, "no taint")
            assert on.taints == [("other", "x", "NoExecute"), (KEY, "of-somebody", "NoExecute")]


def test_restore_leaves_no_taint_behind(api: Api, tree: Tree, wire: Wire) -> None:
    with node(api, {"key": KEY, "value": "unprepared", "effect": "NoSchedule"}) as on:
        tree.run("apply", "--profile=custom", f"--knobs={BACKLOG}=5000", status=0)
        with agent(tree, wire, on, "--agent.mode=restore", f"--agent.taint={KEY}") as running:
            running.wait_until_ready()
            assert not on.taints
            eventually(lambda: "noderestored" in on.events(), "an event")
            restored = on.events()["noderestored"]
            assert (restored["type"], restored["reason"]) == ("Normal", "NodeRestored")
            assert restored["message"] == "1 settings have their original values again"
        assert tree.read(sysctl(BACKLOG)) == "1000"


def test_restore_is_ready_only_when_the_taint_is_off(api: Api, tree: Tree, wire: Wire) -> None:
    tree.run("apply", "--profile=custom", f"--knobs={BACKLOG}=5000", status=0)
    wire.cut()
    with (
        node(api, {"key": KEY, "value": "unprepared", "effect": "NoSchedule"}) as on,
        agent(tree, wire, on, "--agent.mode=restore", f"--agent.taint={KEY}") as running,
    ):
        errors = 'api_errors_total{operation="taint"}'
        eventually(lambda: running.metrics()[errors] >= 2, "tries to take it off")
        assert tree.read(sysctl(BACKLOG)) == "1000"
        assert not (tree.journal / "journal.json").exists()
        answer = running.ask("/readyz")
        assert answer.status == 503
        assert answer.body.startswith(b"the node may still have the taint: ")
        assert on.taints == [TAINT]
        wire.join()
        running.wait_until_ready()
        assert not on.taints
        # The taint stays removed, no matter what is unavailable.
        wire.cut()
        failed = running.metrics()[errors]
        eventually(lambda: running.metrics()[errors] > failed, "a try without the API server")
        assert running.is_ready()


def test_restore_without_a_taint_needs_no_api_server(api: Api, tree: Tree, wire: Wire) -> None:
    wire.cut()
    with node(api) as on, agent(tree, wire, on, "--agent.mode=restore") as running:
        running.wait_until_ready()


def test_events_of_the_node_are_counted_not_repeated(api: Api, tree: Tree, wire: Wire) -> None:
    drifted = f"knobdrifted.{BACKLOG.replace('_', '-')}"
    repaired = f"knobrepaired.{BACKLOG.replace('_', '-')}"

    def counts(on: Node) -> dict[str, int]:
        return {name: event["count"] for name, event in on.events().items()}

    with node(api) as on:
        with agent(tree, wire, on, "--agent.mode=apply") as running:
            eventually(lambda: counts(on) == {"nodeprepared": 1}, "an event")
            tree.drift(BACKLOG, "300")
            once = {"nodeprepared": 1, drifted: 1, repaired: 1}
            eventually(lambda: counts(on) == once, "events of drift")
            event = on.events()[drifted]
            assert event["message"] == f"{BACKLOG}: 300 instead of 5000"
            assert (event["type"], event["reason"]) == ("Warning", "KnobDrifted")
            assert event["involvedObject"]["uid"] == on.get()["metadata"]["uid"]
            source = {"component": "corelane-node-tuner", "host": on.name}
            assert event["source"] == source
            # For operators.
            shown = api.kubectl("describe", "node", on.name).stdout
            assert f"{BACKLOG}: 300 instead of 5000" in shown
            # Conflicts are not logged in every pass.
            tree.drift(BACKLOG, "400")
            drifts = f'knob_drift_total{{knob="{BACKLOG}"}}'
            eventually(lambda: running.metrics()[drifts] == 2, "drift that is counted")
            # Events are written after each pass.
            running.passes()
            assert counts(on) == once
        # The next agent continues the count and recreates deleted events.
        api.kubectl("delete", "event", f"{on.name}.{repaired}", "--namespace=default")
        tree.drift(BACKLOG, "600")
        with agent(tree, wire, on, "--agent.mode=apply"):
            more = {"nodeprepared": 2, drifted: 2, repaired: 1}
            eventually(lambda: counts(on) == more, "counts of two agents")
            event = on.events()[drifted]
            assert event["message"] == f"{BACKLOG}: 600 instead of 5000"
            assert event["lastTimestamp"] >= event["firstTimestamp"]


def test_a_knob_that_is_refused_is_an_event(api: Api, tree: Tree, wire: Wire) -> None:
    name = f"knobfailed.{BACKLOG.replace('_', '-')}"
    file = tree.root / sysctl(BACKLOG)
    file.chmod(0o444)
    # Root without the right to override file modes.
    bound = ("setpriv", "--bounding-set=-dac_override") if os.geteuid() == 0 else ()
    flags = ("--agent.mode=apply", f"--agent.taint={KEY}")
    with node(api) as on, agent(tree, wire, on, *flags, before=bound) as running:
        eventually(lambda: name in on.events(), "an event")
        failures = f'knob_failures_total{{knob="{BACKLOG}"}}'
        eventually(lambda: running.metrics()[failures] >= 3, "three tries")
        event = on.events()[name]
        assert (event["type"], event["count"]) == ("Warning", 1)
        assert event["message"].startswith(f"{BACKLOG}: Permission denied")
        words = f"0 settings differ, 1 were refused: {BACKLOG}"
        assert words in running.ask("/readyz").body.decode()
        assert TAINT in on.taints
        file.chmod(0o644)
        running.wait_until_ready()
        eventually(lambda: not on.taints, "no taint")


def test_without_the_api_server_tuning_goes_on(api: Api, tree: Tree, wire: Wire) -> None:
    errors = 'api_errors_total{{operation="{}"}}'
    wire.cut()
    with (
        node(api, {"key": KEY, "value": "unprepared", "effect": "NoSchedule"}) as on,
        agent(tree, wire, on, "--agent.mode=apply", f"--agent.taint={KEY}") as running,
    ):
        running.wait_until_ready()
        assert tree.read(sysctl(BACKLOG)) == "5000"
        for operation in ("pods", "events", "taint"):
            series = errors.format(operation)
            eventually(lambda: running.metrics()[series] >= 1, operation)  # noqa: B023
        assert running.ask("/proof.json").status == 503
        shown = run("node-tuner", "proof", "--agents", running.url)
        assert shown.returncode == 1
        assert "the API server does not list the pods" in shown.stderr
        tree.drift(BACKLOG, "300")
        eventually(lambda: tree.read(sysctl(BACKLOG)) == "5000", "a repair without the API server")
        assert on.taints == [TAINT]
        wire.join()
        eventually(lambda: not on.taints, "no taint")
        # Now the events of the outage arrive.
        eventually(lambda: len(on.events()) == 3, "events")
        eventually(lambda: running.status("/proof.json") == 200, "a proof")
        wire.cut()
        eventually(lambda: running.status("/proof.json") == 503, "no proof of what is not known")
        assert running.is_ready()


def test_what_the_api_server_forbids_is_said(api: Api, tree: Tree, wire: Wire) -> None:
    configuration = json.loads(wire.kubeconfig.read_text())
    configuration["users"][0]["user"] = {"token": "nobody"}
    wire.kubeconfig.write_text(json.dumps(configuration))
    with node(api) as on, agent(tree, wire, on) as running:
        running.wait_until_ready()
        eventually(lambda: running.metrics()['api_errors_total{operation="pods"}'] >= 1)
        first, *_ = running.said("API server: pods: ")
        assert "Unauthorized" in first["message"]
