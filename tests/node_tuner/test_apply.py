"""`node-tuner apply` records originals, then writes the differences."""

import fcntl
import json
import os
import subprocess
from pathlib import Path

import pytest

from stack import PATIENCE
from stack import node as trees
from stack.node import Tree
from tools import resolve

BACKLOG = "net.core.netdev_max_backlog"
CONNTRACK = "net.netfilter.nf_conntrack_max"
HOUSEKEEPING = "--housekeeping=0-1"
JSON = "--output=json"


def test_what_differs_is_written_after_the_originals_are_noted(tree: Tree) -> None:
    rows = tree.rows("apply", HOUSEKEEPING)
    assert rows[BACKLOG]["state"] == "ok"
    assert (rows[BACKLOG]["changed_from"], rows[BACKLOG]["actual"]) == ("1000", "4000")
    assert tree.read(trees.sysctl(BACKLOG)) == "4000"
    assert tree.read(trees.THP) == "madvise"
    assert tree.read("proc/irq/40/smp_affinity_list") == "0-1"

    noted = tree.noted()
    assert (noted["version"], noted["profile"]) == (1, "web-10k")
    assert noted["boot"] == tree.read("proc/sys/kernel/random/boot_id")
    backlog = next(entry for entry in noted["settings"] if entry["name"] == BACKLOG)
    assert backlog == {
        "name": BACKLOG,
        "target": "",
        "path": f"/{trees.sysctl(BACKLOG)}",
        "original": "1000\n",
        "written": "4000\n",
        "lasting": False,
    }
    assert (tree.journal / "journal.json").stat().st_mode & 0o777 == 0o644
    assert tree.journal.stat().st_mode & 0o777 == 0o755


def test_everybody_may_read_the_journal(tree: Tree) -> None:
    argv = ["sh", "-c", 'umask 077; exec "$@"', "sh", *tree.argv("apply")]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)
    assert tree.journal.stat().st_mode & 0o777 == 0o755
    assert (tree.journal / "journal.json").stat().st_mode & 0o777 == 0o644


def test_a_second_time_changes_nothing(tree: Tree) -> None:
    tree.run("apply", HOUSEKEEPING, status=0)
    after, noted = tree.snapshot(), (tree.journal / "journal.json").stat()
    rows = tree.rows("apply", HOUSEKEEPING)
    assert not any("changed_from" in row for row in rows.values())
    assert tree.snapshot() == after
    assert (tree.journal / "journal.json").stat().st_mtime_ns == noted.st_mtime_ns


def test_limits_are_never_lowered(tree: Tree) -> None:
    tree.add({trees.sysctl(BACKLOG): "250000\n", trees.sysctl("fs.file-max"): str(2**63 - 1)})
    before = tree.snapshot()
    rows = tree.rows("apply")
    for name, wanted in ((BACKLOG, "4000"), ("fs.file-max", "1000000")):
        # The profile's value, and a better one.
        assert (rows[name]["state"], rows[name]["wanted"]) == ("ok", wanted)
        assert rows[name]["actual"] == before[trees.sysctl(name)].decode().strip()
        assert tree.snapshot()[trees.sysctl(name)] == before[trees.sysctl(name)]


def test_a_limit_that_a_killed_pass_raised_comes_down_again(tree: Tree) -> None:
    low, high = (
        ("apply", "--profile=custom", f"--knobs=fs.file-max={it}") for it in (200000, 900000)
    )
    tree.run(*low, status=0)
    # The journal's last entry, which confirms the write, is missing.
    strace = resolve.tool("strace")
    inject = ["-e", "inject=fsync:signal=SIGKILL:when=3"]
    argv = [strace, "-qq", "-o", "/dev/null", "-e", "trace=fsync", *inject, *tree.argv(*high)]
    subprocess.run(argv, capture_output=True, timeout=PATIENCE, check=False)
    assert tree.read(trees.sysctl("fs.file-max")) == "900000"
    assert tree.noted()["settings"][0]["pending"] == "900000\n"
    tree.run(*low, status=0)
    assert tree.read(trees.sysctl("fs.file-max")) == "200000"
    tree.run("restore", status=0)
    assert tree.read(trees.sysctl("fs.file-max")) == "100000"


def test_only_the_lower_of_three_numbers_is_raised_and_memory_bounds_them(tree: Tree) -> None:
    tree.add({trees.sysctl("net.ipv4.tcp_mem"): "24000\t2000000\t48000\n"})
    tree.run("apply", "--profile=web-1m", status=0)
    # A quarter of 16 GiB is 1,048,576 pages.
    written = "524288 2000000 1048576"
    assert tree.read(trees.sysctl("net.ipv4.tcp_mem")) == written
    row = tree.rows("audit", "--profile=web-1m")["net.ipv4.tcp_mem"]
    assert (row["actual"], row["wanted"]) == (written, "524288 786432 1048576")


def test_queues_share_the_flows(tree: Tree) -> None:
    tree.run("apply", "--profile=web-100k", HOUSEKEEPING, "--knobs=net.xps_cpus=auto", status=0)
    queues = "sys/class/net/eth0/queues"
    assert tree.read(f"{queues}/rx-1/rps_flow_cnt") == str(32768 // 2)
    assert tree.read(f"{queues}/rx-1/rps_cpus") == "3"
    assert [tree.read(f"{queues}/tx-{at}/xps_cpus") for at in (0, 1)] == ["5", "a"]
    assert tree.read(trees.sysctl("net.core.rps_default_mask")) == "3"


def test_tables_of_flows_are_powers_of_two(tree: Tree) -> None:
    flags = (
        "--profile=custom",
        "--knobs=net.core.rps_sock_flow_entries=40000,net.rps_flow_cnt=auto",
    )
    tree.run("apply", *flags, status=0)
    assert tree.read(trees.sysctl("net.core.rps_sock_flow_entries")) == "65536"
    assert tree.read("sys/class/net/eth0/queues/rx-0/rps_flow_cnt") == "32768"


def test_without_cpus_for_interrupts_packets_come_to_no_other_cpu(tree: Tree) -> None:
    queue = "sys/class/net/eth0/queues/rx-0"
    rows = tree.rows("apply", "--profile=web-100k")
    for setting in ("net.rps_cpus eth0/rx-0", "net.core.rps_default_mask"):
        assert rows[setting]["state"] == "skipped"
        assert rows[setting]["reason"].endswith("set housekeeping")
    assert tree.read(f"{queue}/rps_cpus") == "0"
    # RFS steers flows to the reading thread's CPU without a mask.
    assert tree.read(f"{queue}/rps_flow_cnt") == str(32768 // 2)
    tree.run("apply", "--profile=web-100k", "--knobs=net.rps_cpus=2-3", status=0)
    assert tree.read(f"{queue}/rps_cpus") == "c"


def test_interrupts_go_to_the_cpus_for_them_on_the_devices_numa_node(tree: Tree) -> None:
    tree.add({"sys/class/net/eth0/device/local_cpulist": "2-3\n"})
    irq, queue = "proc/irq/40/smp_affinity_list", "sys/class/net/eth0/queues/rx-0/rps_cpus"
    arguments = ("apply", "--profile=web-100k")
    tree.run(*arguments, "--housekeeping=0,2", status=0)
    assert (tree.read(irq), tree.read(queue)) == ("2", "4")
    # None of these CPUs is near the device.
    tree.run(*arguments, "--housekeeping=0-1", status=0)
    assert (tree.read(irq), tree.read(queue)) == ("0-1", "3")
    # irqbalance may use all its CPUs.
    tree.add(
        {**trees.process(7, "irqbalance"), trees.IRQBALANCE: 'IRQBALANCE_BANNED_CPULIST="1,3"\n'}
    )
    tree.run(*arguments, "--housekeeping=0,2", status=0)
    assert tree.read(irq) == "0,2"


def test_the_kernels_forms_are_no_differences(tree: Tree) -> None:
    tree.run("apply", "--profile=web-1m", HOUSEKEEPING, status=0)
    tree.add(
        {
            trees.THP: "always [madvise] never\n",
            trees.sysctl("net.ipv4.tcp_mem"): "524288\t786432\t1048576\n",
            trees.sysctl("net.core.rps_default_mask"): "00000000,00000003\n",
            "sys/class/net/eth0/queues/rx-0/rps_cpus": "03\n",
            # One of the wanted CPUs is enough.
            "proc/irq/40/smp_affinity_list": "1\n",
        }
    )
    assert tree.report("audit", "--profile=web-1m", HOUSEKEEPING)["differs"] == 0


def test_links_do_not_lead_out_of_the_tree(tree: Tree, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("1\n")
    tree.remove(trees.sysctl(BACKLOG))
    (tree.root / trees.sysctl(BACKLOG)).symlink_to(outside)
    rows = {
        row["name"]: row for row in json.loads(tree.run("apply", JSON, status=1).stdout)["knobs"]
    }
    assert rows[BACKLOG]["state"] == "unknown"
    assert "leads out of" in rows[BACKLOG]["reason"]
    assert rows["vm.transparent_hugepage"]["state"] == "ok"
    assert outside.read_text() == "1\n"


def test_what_cannot_be_written_is_a_failure_and_the_rest_is_written(tree: Tree) -> None:
    # Root ignores file modes but not read-only file systems, such as /sys in a namespace.
    file = tree.root / trees.sysctl(BACKLOG)
    script = f'mount --bind "{file}" "{file}" && mount -o remount,bind,ro "{file}" && exec "$@"'
    own = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    argv = ["unshare", "--mount", *own, "sh", "-c", script, "sh", *tree.argv("apply", JSON)]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert result.returncode == 1, result.stderr
    rows = {row["name"]: row for row in json.loads(result.stdout)["knobs"]}
    assert (rows[BACKLOG]["state"], rows[BACKLOG]["actual"]) == ("failed", "1000")
    assert "Read-only file system" in rows[BACKLOG]["reason"]
    assert rows["vm.transparent_hugepage"]["state"] == "ok"
    assert json.loads(result.stdout)["prepared"] is False
    tree.run("restore", status=0)


@pytest.mark.parametrize("error", ["EIO", "EPERM"])
def test_an_interrupt_that_the_kernel_keeps_is_skipped_and_not_tried_again(
    tree: Tree, error: str
) -> None:
    irq = "proc/irq/40/smp_affinity_list"
    result = tree.refused(irq, error, "apply", HOUSEKEEPING, JSON)
    assert result.returncode == 0, result.stderr
    rows = {f"{row['name']} {row['target']}": row for row in json.loads(result.stdout)["knobs"]}
    assert rows["irq.affinity eth0/40"]["state"] == "skipped"
    assert rows["irq.affinity eth0/40"]["reason"] == "the kernel manages this interrupt itself"
    assert rows["irq.affinity eth0/41"]["changed_from"] == "0-3"
    # Kernel files are not truncated on open. A write would now succeed.
    tree.add({irq: "0-3\n"})
    for command in ("audit", "apply"):
        row = tree.rows(command, HOUSEKEEPING)["irq.affinity eth0/40"]
        assert (row["state"], row["actual"]) == ("skipped", "0-3")
    tree.add({"proc/sys/kernel/random/boot_id": "two\n"})
    assert tree.rows("apply", HOUSEKEEPING)["irq.affinity eth0/40"]["changed_from"] == "0-3"


def test_a_value_that_the_kernel_refuses_is_a_failure(tree: Tree) -> None:
    result = tree.refused(trees.sysctl(BACKLOG), "EINVAL", "apply", JSON)
    assert result.returncode == 1
    row = next(row for row in json.loads(result.stdout)["knobs"] if row["name"] == BACKLOG)
    assert row["state"] == "failed"
    assert "Invalid argument" in row["reason"]
    assert tree.read(trees.THP) == "madvise"
    # The next run retries the write.
    tree.run("apply", status=0)
    assert tree.read(trees.sysctl(BACKLOG)) == "4000"


def test_what_only_the_agent_can_hold_is_said_to_be_its(tree: Tree) -> None:
    rows = tree.rows("apply", "--knobs=cpu.dma_latency_us=20")
    row = rows["cpu.dma_latency_us"]
    assert (row["state"], row["actual"]) == ("elsewhere", str(trees.NO_LATENCY))
    assert "the agent holds it" in row["reason"]
    assert (tree.root / trees.LATENCY).read_bytes() == trees.latency(trees.NO_LATENCY)
    tree.add({trees.LATENCY: trees.latency(10)})
    assert (
        tree.rows("apply", "--knobs=cpu.dma_latency_us=20")["cpu.dma_latency_us"]["state"] == "ok"
    )


def test_governors_of_all_policies_are_set(tree: Tree) -> None:
    folder = "sys/devices/system/cpu/cpufreq"
    tree.add({f"{folder}/policy{at}/scaling_governor": "powersave\n" for at in (0, 2)})
    tree.run("apply", "--knobs=cpu.governor=performance", status=0)
    assert [tree.read(f"{folder}/policy{at}/scaling_governor") for at in (0, 2)] == [
        "performance"
    ] * 2


def test_irqbalance_leaves_the_other_cpus_alone_and_must_be_restarted(tree: Tree) -> None:
    tree.add({trees.IRQBALANCE: "# Options\nIRQBALANCE_ARGS=-t 5\n#IRQBALANCE_BANNED_CPULIST=\n"})
    tree.add(trees.process(77, "irqbalance", environ="IRQBALANCE_ARGS=-t 5\0"))
    rows = tree.rows("apply", HOUSEKEEPING)
    assert tree.read(trees.IRQBALANCE) == (
        "# Options\nIRQBALANCE_ARGS=-t 5\nIRQBALANCE_BANNED_CPULIST=2-3"
    )
    assert "restart irqbalance" in rows["irqbalance.banned_cpus"]["reason"]
    assert rows["irq.affinity eth0/40"]["state"] == "skipped"
    assert tree.noted()["settings"][0]["name"] != "irq.affinity"

    # The agent has restarted.
    tree.add(trees.process(77, "irqbalance", environ="IRQBALANCE_BANNED_CPULIST=2-3\0"))
    rows = tree.rows("apply", HOUSEKEEPING)
    assert rows["irqbalance.banned_cpus"]["reason"] == ""
    assert rows["irq.affinity eth0/40"]["changed_from"] == "0-3"


def test_what_kube_proxy_takes_over_is_forgotten(tree: Tree) -> None:
    tree.run("apply", status=0)
    assert tree.read(trees.sysctl(CONNTRACK)) == "131072"
    tree.add(trees.process(501, "kube-proxy"))
    tree.add({trees.sysctl(CONNTRACK): "98304\n"})
    assert tree.rows("apply")[CONNTRACK]["state"] == "owned"
    assert CONNTRACK not in {entry["name"] for entry in tree.noted()["settings"]}
    tree.run("restore", status=0)
    assert tree.read(trees.sysctl(CONNTRACK)) == "98304"


def test_two_writers_are_kept_apart(tree: Tree) -> None:
    tree.journal.mkdir()
    with (tree.journal / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in ("apply", "restore"):
            result = tree.run(command, status=1)
            assert "another node-tuner has the lock" in result.stderr
        assert tree.read(trees.sysctl(BACKLOG)) == "1000"
    tree.run("apply", status=0)


def test_a_journal_that_cannot_be_understood_stops_every_change(tree: Tree) -> None:
    tree.run("apply", status=0)
    noted = tree.noted()
    tree.add({trees.sysctl(BACKLOG): "1\n"})
    before = tree.snapshot()
    for text, why in [
        ("{", "EOF while parsing"),
        (json.dumps({**noted, "version": 2}), "version 2, but this program knows only 1"),
        (json.dumps({"version": 1}), "missing field"),
    ]:
        (tree.journal / "journal.json").write_text(text)
        for command in ("apply", "restore"):
            result = tree.run(command, status=1)
            assert "so nothing is changed" in result.stderr
            assert why in result.stderr
        assert tree.snapshot() == before


def test_a_journal_that_cannot_be_written_stops_every_change(tree: Tree) -> None:
    tree.journal.mkdir()
    (tree.journal / "journal.json.new").mkdir()
    before = tree.snapshot()
    assert "Is a directory" in tree.run("apply", status=1).stderr
    assert tree.snapshot() == before


def test_what_cannot_be_put_back_is_a_failure(tree: Tree) -> None:
    tree.run("apply", "--profile=custom", f"--knobs={BACKLOG}=4000", status=0)
    tree.remove(trees.sysctl(BACKLOG))
    (tree.root / trees.sysctl(BACKLOG)).mkdir()
    report = tree.report("apply", "--profile=custom", "--knobs=fs.file-max=200000")
    row = next(row for row in report["knobs"] if row["name"] == BACKLOG)
    assert (row["state"], report["prepared"]) == ("failed", False)
    assert "Is a directory" in row["reason"]
