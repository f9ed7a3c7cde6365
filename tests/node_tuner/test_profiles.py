"""Profiles: what they want, knobs beside them, the change from one to another, and what `node-tuner plan` says."""

import json

import pytest

from support import agents, trees
from support.trees import Tree

BACKLOG = "net.core.netdev_max_backlog"
FILES = "fs.file-max"
PROFILES = ("web-10k", "web-100k", "web-1m")


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_can_be_applied_and_undone(tree: Tree, profile: str) -> None:
    before = tree.snapshot()
    flags = (f"--profile={profile}", "--housekeeping=0-1")
    tree.run("apply", *flags, status=0)
    tree.run("audit", *flags, status=0)
    tree.run("restore", status=0)
    assert tree.snapshot() == before


def test_a_custom_profile_is_what_was_named(tree: Tree) -> None:
    report = tree.report("audit", "--profile=custom")
    assert (report["knobs"], report["prepared"]) == ([], True)
    rows = tree.rows("audit", "--profile=custom", f"--knobs={FILES}=300000")
    assert list(rows) == [FILES]
    assert rows[FILES]["wanted"] == "300000"


def test_knobs_are_beside_a_profile_and_off_takes_one_out(tree: Tree) -> None:
    rows = tree.rows(
        "audit", f"--knobs={FILES}=300000,{BACKLOG}=off", "--knobs=vm.transparent_hugepage=never"
    )
    assert rows[FILES]["wanted"] == "300000"
    assert BACKLOG not in rows
    assert rows["vm.transparent_hugepage"]["wanted"] == "never"


def test_another_profile_puts_back_what_it_does_not_want(tree: Tree) -> None:
    before = tree.snapshot()
    tree.run("apply", "--profile=web-1m", "--housekeeping=0-1", status=0)
    assert tree.read(trees.sysctl("net.core.netdev_budget")) == "600"

    rows = tree.rows("apply", "--profile=web-10k", "--housekeeping=0-1")
    budget = rows["net.core.netdev_budget"]
    assert (budget["actual"], budget["changed_from"], budget["state"]) == ("300", "600", "ok")
    assert "not wanted any more" in budget["reason"]
    # What both want comes down from what only the larger one raised.
    assert rows[BACKLOG]["changed_from"] == "10000"
    assert tree.read(trees.sysctl(BACKLOG)) == "4000"
    noted = tree.noted()
    assert noted["profile"] == "web-10k"
    originals = {entry["name"]: entry["original"] for entry in noted["settings"]}
    assert originals[BACKLOG] == "1000\n"
    assert "net.core.netdev_budget" not in originals
    assert tree.run("audit", "--housekeeping=0-1", status=0)

    tree.run("apply", "--profile=custom", status=0)
    assert tree.snapshot() == before
    assert not (tree.journal / "journal.json").exists()


def test_what_others_raised_further_is_left_to_them(tree: Tree) -> None:
    tree.run("apply", status=0)
    tree.add({trees.sysctl(BACKLOG): "50000\n"})
    assert tree.rows("apply")[BACKLOG]["state"] == "ok"
    assert tree.read(trees.sysctl(BACKLOG)) == "50000"


def test_what_becomes_pointless_gets_back_what_was_there(tree: Tree) -> None:
    flags = ("--profile=web-100k", "--housekeeping=0-1")
    tree.run("apply", *flags, status=0)
    more = trees.device("eth0", receiving=4)
    tree.add({path: content for path, content in more.items() if "rx-2" in path or "rx-3" in path})
    rows = tree.rows("apply", *flags)
    assert rows["net.rps_cpus eth0/rx-0"]["changed_from"] == "0-1"
    assert "redundant" in rows["net.rps_cpus eth0/rx-0"]["reason"]
    assert tree.read("sys/class/net/eth0/queues/rx-0/rps_cpus") == "0"
    assert tree.rows("audit", *flags)["net.rps_cpus eth0/rx-0"]["state"] == "skipped"


@pytest.mark.parametrize("profile", PROFILES)
def test_the_settings_of_the_c10k_run_are_in_every_profile(tree: Tree, profile: str) -> None:
    # ip_local_port_range 15000-61000, tcp_fin_timeout 20, tcp_tw_reuse 1, 100,000 open files.
    rows = tree.rows("audit", f"--profile={profile}")
    low, high = map(int, rows["net.ipv4.ip_local_port_range gateway"]["wanted"].split())
    assert low <= 15000 and high >= 61000
    assert rows["net.ipv4.tcp_tw_reuse gateway"]["wanted"] == "1"
    for role in ("service", "gateway"):
        assert rows[f"net.ipv4.tcp_fin_timeout {role}"]["wanted"] == "20"
    assert int(rows["containerd.nofile"]["wanted"]) >= 100_000
    assert int(rows["fs.nr_open"]["wanted"]) >= int(rows["containerd.nofile"]["wanted"])


def test_larger_profiles_never_want_less() -> None:
    knobs = json.loads(agents.run("node-tuner", "knobs", "--output=json").stdout)["knobs"]
    compared = 0
    for knob in knobs:
        values = [knob.get("profiles", {}).get(name) for name in PROFILES]
        numbers = [int(value.split()[-1]) for value in values if value and value[-1].isdigit()]
        assert numbers == sorted(numbers), knob["name"]
        compared += len(numbers) > 1
    assert compared > 10


def test_the_plan_is_what_apply_then_writes(tree: Tree) -> None:
    before = tree.snapshot()
    plan = tree.run("plan", "--housekeeping=0-1", status=2).stdout
    assert tree.snapshot() == before
    lines = plan.splitlines()
    comes = {line[2:] for line in lines if line.startswith("+ ")}
    goes = {line[2:] for line in lines if line.startswith("- ")}
    assert f"{BACKLOG} 1000" in goes
    assert f"{BACKLOG} 4000" in comes
    assert "vm.transparent_hugepage always" in goes
    assert lines[-1] == f"{len(comes)} setting(s) to write"

    written = tree.rows("apply", "--housekeeping=0-1")
    changed = {key: row for key, row in written.items() if "changed_from" in row}
    assert {f"{key} {row['changed_from']}" for key, row in changed.items()} == goes
    assert {f"{key} {row['actual']}" for key, row in changed.items()} == comes
    assert tree.run("plan", "--housekeeping=0-1", status=0).stdout.endswith("nothing to write\n")


def test_every_change_has_its_reason(tree: Tree) -> None:
    lines = tree.run("plan").stdout.splitlines()
    after = [lines[at + 1] for at, line in enumerate(lines) if line.startswith("+ ")]
    assert after and all(line.startswith("    ") and line.strip() for line in after)
    assert max(map(len, lines)) <= 120


def test_what_a_profile_does_not_want_any_more_is_in_the_plan(tree: Tree) -> None:
    tree.run("apply", status=0)
    plan = tree.run("plan", "--profile=custom", "--knobs=fs.file-max=100", status=64)
    assert "allowed is a whole number from 8192" in plan.stderr
    plan = tree.run("plan", "--profile=custom", status=2).stdout
    assert f"- {BACKLOG} 4000\n+ {BACKLOG} 1000\n    not wanted any more" in plan


def test_a_plan_for_programs_is_that_of_audit(tree: Tree) -> None:
    assert tree.report("plan") == tree.report("audit")
    tree.add({trees.THP: "always [madvise] never\n"})
    assert tree.rows("plan")["vm.transparent_hugepage"]["state"] == "ok"
