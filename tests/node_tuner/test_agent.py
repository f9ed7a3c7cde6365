"""`node-tuner agent` on a temporary tree: modes, port and shutdown."""

import json
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from stack import becomes, eventually
from stack.node import IRQBALANCE, LATENCY, NO_LATENCY, Tree, latency, sysctl
from stack.programs import run
from support.node_agents import Agents, NodeAgent

BACKLOG, BUDGET = "net.core.netdev_max_backlog", "net.core.netdev_budget"

PROFILE = ("--profile=custom", f"--knobs={BACKLOG}=5000;{BUDGET}=600")


@contextmanager
def agent(tree: Tree, *flags: str, profile: tuple[str, ...] = PROFILE) -> Iterator[NodeAgent]:
    told = [f"--root={tree.root}", f"--journal={tree.journal}", *profile]
    with Agents(tree.root.parent / "logs").run(*told, *flags) as running:
        yield running


@pytest.fixture(autouse=True)
def logs(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()


def held(running: NodeAgent, file: Path) -> int:
    """How many times the agent has the file open: once more during a pass."""
    found = 0
    for each in Path(f"/proc/{running.pid}/fd").iterdir():
        # Connections come and go.
        with suppress(FileNotFoundError):
            found += os.readlink(each) == str(file)
    return found


def test_audit_changes_nothing_and_shows_everything(tree: Tree) -> None:
    before = tree.snapshot()
    with agent(tree) as running:
        running.wait_until_ready()
        found = running.json("/audit.json")
        assert (found["profile"], found["mode"], found["journal"]) == ("custom", "audit", 0)
        assert (found["differs"], found["prepared"]) == (2, False)
        rows = {row["name"]: row for row in found["knobs"] if row["state"] == "differs"}
        assert rows[BACKLOG]["actual"] == "1000"
        assert rows[BACKLOG]["wanted"] == "5000"
        assert BACKLOG in running.ask("/audit").body.decode()
        metrics = running.metrics()
        assert metrics[f'knob_wanted{{knob="{BACKLOG}"}}'] == 5000
        assert metrics[f'knob_actual{{knob="{BACKLOG}"}}'] == 1000
        assert metrics[f'knob_settings{{knob="{BACKLOG}",class="host",state="differs"}}'] == 1
        assert (metrics["prepared"], metrics["journal_settings"]) == (0, 0)
        (info,) = (series for series in metrics if series.startswith("tuner_info{"))
        assert 'mode="audit"' in info
        assert 'profile="custom"' in info
        running.passes()
        assert tree.snapshot() == before
        assert not tree.journal.exists()
        assert (running.status("/nothing"), running.ask("/nothing").body) == (
            404,
            b"not found\n",
        )


def test_only_numbers_are_values_of_series(tree: Tree) -> None:
    cpus = "net.core.rps_default_mask"
    wanted = f"--knobs={cpus}=1,{BACKLOG}=5000"
    with agent(tree, profile=("--profile=custom", wanted)) as running:
        running.wait_until_ready()
        assert {row["name"]: row["wanted"] for row in running.json("/audit.json")["knobs"]} == {
            cpus: "1",
            BACKLOG: "5000",
        }
        series = [name for name in running.metrics() if name.startswith("knob_wanted{")]
        assert series == [f'knob_wanted{{knob="{BACKLOG}"}}']


def test_apply_writes_says_so_and_leaves_it_at_its_end(tree: Tree) -> None:
    before = tree.snapshot()
    with agent(tree, "--agent.mode=apply") as running:
        running.wait_until_ready()
        assert (tree.read(sysctl(BACKLOG)), tree.read(sysctl(BUDGET))) == ("5000", "600")
        changed = {"knob": BACKLOG, "from": "1000", "to": "5000"}
        (line,) = running.said("written", **changed)
        assert line["reason"] == "the profile wants it"
        metrics = running.metrics()
        assert (metrics["prepared"], metrics["journal_settings"]) == (1, 2)
        assert metrics[f'knob_drift_total{{knob="{BACKLOG}"}}'] == 0
        assert running.end() == 0
        assert running.said("agent: stopped; settings are not changed")
    assert tree.read(sysctl(BACKLOG)) == "5000"
    # Audit mode reports current values.
    with agent(tree) as running:
        running.wait_until_ready()
        words = (
            "The node is still tuned, though this agent only audits: the journal has 2 settings."
        )
        assert words in running.ask("/audit").body.decode()
        assert running.json("/audit.json")["journal"] == 2
        assert running.metrics()["journal_settings"] == 2
        assert running.said(words)
        running.passes()
        assert running.end() == 0
        # The agent logs this once, not in every pass. Its log is complete after it has exited.
        assert len(running.said_so_far(words)) == 1
    with agent(tree, "--agent.mode=restore") as running:
        running.wait_until_ready()
        assert tree.snapshot() == before
        assert running.metrics()["journal_settings"] == 0
        assert running.said("2 settings have their original values again")
        (line,) = running.said("written", knob=BACKLOG)
        assert (line["from"], line["to"]) == ("5000", "1000")
        assert line["reason"] == "the original value is restored"
        running.passes()
        assert running.is_ready()
        assert tree.snapshot() == before


def test_drift_is_repaired_and_counted(tree: Tree) -> None:
    with agent(tree, "--agent.mode=apply") as running:
        running.wait_until_ready()
        tree.drift(BACKLOG, "300")
        eventually(lambda: tree.read(sysctl(BACKLOG)) == "5000", "the repair")
        eventually(lambda: running.metrics()[f'knob_repairs_total{{knob="{BACKLOG}"}}'] == 1)
        metrics = running.metrics()
        assert metrics[f'knob_drift_total{{knob="{BACKLOG}"}}'] == 1
        assert metrics[f'knob_drift_total{{knob="{BUDGET}"}}'] == 0
        assert running.said("drifted", knob=BACKLOG, to="300")
        assert running.said("written", knob=BACKLOG, reason="it had drifted")
        running.passes()
        assert running.metrics()[f'knob_drift_total{{knob="{BACKLOG}"}}'] == 1
    # The journal reveals drift while no agent runs.
    tree.drift(BACKLOG, "300")
    with agent(tree, "--agent.mode=apply") as running:
        running.wait_until_ready()
        assert running.metrics()[f'knob_repairs_total{{knob="{BACKLOG}"}}'] == 1
        assert tree.read(sysctl(BACKLOG)) == "5000"
        assert tree.noted()["settings"]
    # Changing the profile is not drift.
    other = ("--profile=custom", f"--knobs={BACKLOG}=7000")
    with agent(tree, "--agent.mode=apply", profile=other) as running:
        running.wait_until_ready()
        assert (tree.read(sysctl(BACKLOG)), tree.read(sysctl(BUDGET))) == ("7000", "300")
        assert running.metrics()[f'knob_drift_total{{knob="{BACKLOG}"}}'] == 0
        assert running.said("written", knob=BUDGET, to="300")


def test_drift_can_be_reported_only(tree: Tree) -> None:
    told = ("--agent.mode=apply", "--agent.drift=report")
    with agent(tree, *told) as running:
        running.wait_until_ready()
        tree.drift(BACKLOG, "300")
        words = f"1 settings differ, 0 were refused: {BACKLOG}"
        eventually(lambda: words in running.ask("/readyz").body.decode(), words)
        running.passes()
        metrics = running.metrics()
        assert metrics[f'knob_drift_total{{knob="{BACKLOG}"}}'] == 1
        assert metrics[f'knob_repairs_total{{knob="{BACKLOG}"}}'] == 0
        assert tree.read(sysctl(BACKLOG)) == "300"
    # Later agents also leave it alone, but they write settings that are new to them.
    other = ("--profile=custom", f"--knobs={BACKLOG}=5000;{BUDGET}=900")
    with agent(tree, *told, profile=other) as running:
        eventually(lambda: tree.read(sysctl(BUDGET)) == "900", "the new wish")
        running.passes()
        assert (tree.read(sysctl(BACKLOG)), running.is_ready()) == ("300", False)
        # The operator fixes it.
        tree.drift(BACKLOG, "5000")
        running.wait_until_ready()


def test_a_journal_that_cannot_be_written_changes_nothing(tree: Tree) -> None:
    before = tree.snapshot()
    tree.journal.write_text("a file is no folder")
    with agent(tree, "--agent.mode=apply") as running:
        eventually(lambda: running.metrics()["failed_passes_total"] >= 2, "passes that fail")
        reply = running.ask("/readyz")
        assert reply.status == 503
        assert reply.body.startswith(b"nothing was changed: ")
        assert "The last pass failed: nothing was changed" in running.ask("/audit").body.decode()
        assert running.json("/audit.json")["error"].startswith("nothing was changed: ")
        assert (running.metrics()["prepared"], tree.snapshot()) == (0, before)
        tree.journal.unlink()
        running.wait_until_ready()
        assert tree.read(sysctl(BACKLOG)) == "5000"


def test_a_restore_that_fails_is_not_ready(tree: Tree) -> None:
    with agent(tree, "--agent.mode=apply") as running:
        running.wait_until_ready()
    # Paths that leave the tree are rejected.
    file = tree.root / sysctl(BACKLOG)
    file.unlink()
    file.symlink_to("/dev/null")
    with agent(tree, "--agent.mode=restore") as running:
        eventually(lambda: running.metrics()["failed_passes_total"] >= 2, "a restore that fails")
        assert b"not restored: " in running.ask("/readyz").body
        assert tree.read(sysctl(BUDGET)) == "300"
        # Replaces the link: without any file, there is nothing to restore.
        tree.drift(BACKLOG, "5000")
        running.wait_until_ready()
        assert tree.read(sysctl(BACKLOG)) == "1000"


def test_a_damaged_journal_is_an_error_in_every_mode(tree: Tree) -> None:
    tree.journal.mkdir()
    (tree.journal / "journal.json").write_text("{")
    for mode in ("audit", "apply", "restore"):
        with agent(tree, f"--agent.mode={mode}") as running:
            eventually(lambda: running.status("/audit") == 200)
            assert running.status("/readyz") == 503
            assert b"the journal" in running.ask("/readyz").body
    assert tree.read(sysctl(BACKLOG)) == "1000"


def test_the_latency_is_held_for_as_long_as_the_agent_runs(tree: Tree) -> None:
    wish = ("--profile=custom", "--knobs=cpu.dma_latency_us=10")
    with agent(tree, "--agent.mode=apply", profile=wish) as running:
        running.wait_until_ready()
        assert (tree.root / LATENCY).read_bytes() == latency(10)
        running.passes()
        becomes(lambda: held(running, tree.root / LATENCY), 1)
    # The kernel's value while no process holds the file, which is not drift.
    tree.add({LATENCY: struct.pack("=i", NO_LATENCY)})
    with agent(tree, "--agent.mode=apply", profile=wish) as running:
        running.wait_until_ready()
        assert running.metrics()['knob_drift_total{knob="cpu.dma_latency_us"}'] == 0


def test_the_agent_of_a_whole_profile_prepares_a_node(tree: Tree) -> None:
    tree.add({IRQBALANCE: "#IRQBALANCE_BANNED_CPULIST=\n"})
    before = tree.snapshot()
    whole = ("--profile=web-100k", "--housekeeping=0-1", "--knobs=vm.transparent_hugepage=off")
    with agent(tree, "--agent.mode=apply", profile=whole) as running:
        running.wait_until_ready()
        found = running.json("/audit.json")
        assert (found["prepared"], found["differs"]) == (True, 0)
        changed = [row["name"] for row in found["knobs"] if row["class"] == "host"]
        assert len(set(changed)) > 10
        assert tree.snapshot() != before
        running.passes()
        metrics = running.metrics()
        drift = [
            value for series, value in metrics.items() if series.startswith("knob_drift_total")
        ]
        assert set(drift) == {0}
    result = tree.run("restore", status=0)
    assert tree.snapshot() == before, result.stdout


def test_a_port_that_is_taken_ends_the_agent(tree: Tree) -> None:
    with agent(tree) as running:
        address = running.url.removeprefix("http://")
        second = run("node-tuner", "agent", f"--root={tree.root}", f"--agent.listen={address}")
        assert second.returncode == 1
        assert f"cannot listen on {address}" in second.stderr


def test_wrong_settings_end_it_before_it_begins(tree: Tree) -> None:
    for flags, words in (
        (["--agent.mode=tune"], "agent.mode"),
        (["--agent.interval=0s"], "agent.interval"),
        (["--agent.interval=6m"], "agent.interval"),
        (["--agent.drift=ignore"], "agent.drift"),
    ):
        refused = run("node-tuner", "agent", f"--root={tree.root}", *flags)
        assert refused.returncode == 64, refused
        assert words in refused.stderr
    # Without API access the agent fails instead of running without proofs.
    alone = run(
        "node-tuner",
        "agent",
        f"--root={tree.root}",
        "--agent.node=n1",
        "--agent.listen=127.0.0.1:0",
        f"--agent.kubeconfig={tree.root}/none",
    )
    assert alone.returncode == 1, alone
    assert "Kubernetes: " in alone.stderr
    assert json.dumps(str(tree.root)) not in alone.stdout
