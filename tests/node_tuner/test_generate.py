"""`node-tuner plan` and the files of `node-tuner generate`."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from stack import PATIENCE, REPOSITORY, programs
from stack import node as trees
from stack.node import Tree
from stack.rendering import template

UNSAFE = ["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog", "net.ipv4.tcp_tw_reuse"]


def printed(*arguments: str) -> str:
    result = programs.run("node-tuner", *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def generate(*arguments: str) -> str:
    return printed("generate", *arguments)


@pytest.mark.parametrize("role", ["service", "gateway"])
def test_sysctls_of_pods_are_values_of_the_charts(role: str) -> None:
    safe = yaml.safe_load(generate(role))
    assert list(safe) == ["sysctls"]
    assert safe["sysctls"]["net.ipv4.tcp_fin_timeout"] == "20"
    assert not set(UNSAFE) & set(safe["sysctls"])
    both = yaml.safe_load(generate(role, "--unsafe"))
    assert both["sysctls"] == safe["sysctls"]
    expected = UNSAFE if role == "gateway" else UNSAFE[:2]
    assert list(both["unsafeSysctls"]) == expected
    assert all(isinstance(value, str) for value in both["unsafeSysctls"].values())
    # The program's default queue is shorter.
    length = int(both["unsafeSysctls"]["net.core.somaxconn"])
    if role == "service":
        assert both["config"] == {"backlog": length, "limits": {"queue": length}}
    else:
        assert both["listener"] == {"backlog": length}


@pytest.mark.parametrize("role", ["service", "gateway"])
def test_the_charts_take_the_values(role: str, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(generate(role, "--profile=web-100k"))
    result = template(role, values=values)
    assert result.returncode == 0, result.stderr
    specs = [
        each["spec"]["template"]["spec"]
        for each in yaml.safe_load_all(result.stdout)
        if each and each["kind"] == "Deployment"
    ]
    (sysctls,) = [spec["securityContext"]["sysctls"] for spec in specs]
    assert "net.ipv4.tcp_fin_timeout" in {each["name"] for each in sysctls}


def test_the_gateways_queue_is_as_long_as_it_may_be(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(generate("gateway", "--unsafe", "--profile=web-1m"))
    result = template("gateway", values=values)
    assert result.returncode == 0, result.stderr
    assert "tcp_backlog_size: 65535" in result.stdout


def test_the_kubelet_gets_a_snippet_with_the_steps() -> None:
    text = generate("kubelet", "--housekeeping=0-1")
    found = yaml.safe_load(text)
    assert yaml.safe_load(generate("kubelet", "--housekeeping=0-1", "--unsafe")) == {
        **found,
        "allowedUnsafeSysctls": UNSAFE,
    }
    assert found == {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {
            "full-pcpus-only": "true",
            "strict-cpu-reservation": "true",
            "prefer-align-cpus-by-uncorecache": "true",
        },
        "reservedSystemCPUs": "0-1",
        "topologyManagerPolicy": "best-effort",
    }
    words = ("kubectl drain", "systemctl stop", "rm /var", "systemctl start", "kubectl uncordon")
    steps = [text.index(step) for step in words]
    assert steps == sorted(steps)


def test_what_the_kubelet_gets_is_what_audit_compares(tmp_path: Path) -> None:
    snippet = tmp_path / "kubelet.yaml"
    snippet.write_text(generate("kubelet", "--housekeeping=0-1", "--unsafe"))
    # Read once, as from `kubectl get --raw`.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = subprocess.Popen(["cp", snippet, pipe])
    tree = trees.make(tmp_path, trees.node())
    rows = tree.rows("audit", "--housekeeping=0-1", f"--kubelet-config={pipe}")
    assert writer.wait(PATIENCE) == 0
    states = {row["state"] for key, row in rows.items() if key.startswith("kubelet.")}
    assert states == {"ok"}


def test_the_static_policy_needs_reserved_cpus() -> None:
    result = programs.run("node-tuner", "generate", "kubelet")
    assert result.returncode == 64
    assert "such as --housekeeping=0-1" in result.stderr


def test_containerd_gets_a_drop_in() -> None:
    lines = generate("containerd", "--profile=web-1m").splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "[Service]",
        "LimitNOFILE=1024:2097152",
    ]
    # systemd's default is higher than required.
    assert generate("containerd").startswith("# Nothing")


def test_the_kernel_gets_words() -> None:
    assert generate("boot", "--profile=web-1m") == "thash_entries=1048576\n"
    assert generate("boot").startswith("# Nothing")
    words = generate("boot", "--profile=custom", "--knobs=boot.thash_entries=2048")
    assert words == "thash_entries=2048\n"


def test_the_document_is_what_the_program_prints() -> None:
    # Generated by node-tuner knobs > docs/node-tuning-knobs.md.
    document = (REPOSITORY / "docs/node-tuning-knobs.md").read_text()
    assert printed("knobs") == document


def test_programs_can_read_the_catalogue() -> None:
    knobs = json.loads(printed("knobs", "--output=json"))["knobs"]
    by_name = {knob["name"]: knob for knob in knobs}
    assert {knob["class"] for knob in knobs} == {"host", "pod", "kubelet", "runtime", "boot"}
    assert by_name["net.ipv4.tcp_rmem"]["safe"] == "1.32"
    assert by_name["net.core.somaxconn"]["safe"] is None
    assert by_name["net.core.netdev_max_backlog"]["profiles"]["web-10k"] == "4000"


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
    # Both profiles want this setting; the recorded original is the value that the larger profile
    # changed.
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
    knobs = json.loads(programs.run("node-tuner", "knobs", "--output=json").stdout)["knobs"]
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
    assert "expected a whole number from 8192" in plan.stderr
    plan = tree.run("plan", "--profile=custom", status=2).stdout
    assert f"- {BACKLOG} 4000\n+ {BACKLOG} 1000\n    not wanted any more" in plan


def test_a_plan_for_programs_is_that_of_audit(tree: Tree) -> None:
    assert tree.report("plan") == tree.report("audit")
    tree.add({trees.THP: "always [madvise] never\n"})
    assert tree.rows("plan")["vm.transparent_hugepage"]["state"] == "ok"
