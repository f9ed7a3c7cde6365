"""`node-tuner audit` shows settings with their state and reason, without changes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from stack import node as trees
from stack.node import Tree

BACKLOG = "net.core.netdev_max_backlog"
CONNTRACK = "net.netfilter.nf_conntrack_max"
HOUSEKEEPING = "--housekeeping=0-1"


def test_differences_are_shown_and_nothing_is_changed(tree: Tree) -> None:
    before = tree.snapshot()
    result = tree.run("audit", "--output=json", HOUSEKEEPING, status=2)
    report = json.loads(result.stdout)
    assert (report["profile"], report["prepared"]) == ("web-10k", False)
    assert report["differs"] == sum(row["state"] == "differs" for row in report["knobs"]) > 0
    backlog = next(row for row in report["knobs"] if row["name"] == BACKLOG)
    assert backlog == {
        "name": BACKLOG,
        "class": "host",
        "target": "",
        "wanted": "4000",
        "actual": "1000",
        "state": "differs",
        "reason": "",
    }
    assert tree.snapshot() == before
    assert not tree.journal.exists()


def test_a_part_of_a_core_for_interrupts_is_named(tree: Tree) -> None:
    cores = {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}
    name = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    tree.add({name.format(cpu): f"{core}\n" for cpu, core in cores.items()})
    note = "housekeeping = 0: CPU 2 shares a core with it and is left to pods: whole cores are 0,2"
    for arguments in (("audit",), ("plan",)):
        assert note in tree.run(*arguments, "--housekeeping=0").stdout.splitlines()
        assert "shares a core" not in tree.run(*arguments, "--housekeeping=0,2").stdout
    audit = tree.run("audit", "--output=json", "--housekeeping=0")
    assert json.loads(audit.stdout)["notes"] == [note]
    assert note in tree.run("generate", "kubelet", "--housekeeping=0", status=0).stderr


def test_a_prepared_node_has_no_differences(tree: Tree) -> None:
    tree.run("apply", HOUSEKEEPING, status=0)
    report = json.loads(tree.run("audit", "--output=json", HOUSEKEEPING, status=0).stdout)
    assert (report["prepared"], report["differs"]) == (True, 0)


def test_tables_fit_a_terminal(tree: Tree) -> None:
    table = tree.run("audit", "--profile=web-1m", HOUSEKEEPING).stdout
    assert max(len(line) for line in table.splitlines()) <= 120
    line = next(line for line in table.splitlines() if line.startswith(BACKLOG))
    assert line.split() == [BACKLOG, "differs", "1000", "10000"]
    assert table.splitlines()[-1].startswith("web-1m is not prepared: ")


def test_every_class_but_the_hosts_says_where_it_belongs(tree: Tree) -> None:
    rows = tree.rows("audit", HOUSEKEEPING)
    elsewhere = {key: row for key, row in rows.items() if row["class"] != "host"}
    assert {row["state"] for row in elsewhere.values()} == {"elsewhere"}
    for row in elsewhere.values():
        assert "`node-tuner generate " in row["reason"], row
    assert elsewhere["net.core.somaxconn gateway"]["class"] == "pod"
    assert elsewhere["kubelet.reservedSystemCPUs"]["wanted"] == "0-1"
    assert elsewhere["containerd.nofile"]["wanted"] == "100000"


SKIPPED: list[tuple[str, Callable[[Tree], object], list[str], str, str]] = [
    (
        "no module",
        lambda tree: tree.remove(trees.sysctl(CONNTRACK)),
        [],
        CONNTRACK,
        "its module nf_conntrack is not loaded",
    ),
    (
        "an old kernel",
        lambda tree: tree.remove(trees.sysctl("net.core.rps_default_mask")),
        [HOUSEKEEPING],
        "net.core.rps_default_mask",
        "this kernel has none",
    ),
    (
        "a queue per CPU",
        lambda tree: tree.add(trees.device("eth0", receiving=4)),
        [],
        "net.rps_cpus eth0/rx-0",
        "redundant: 4 receive queue(s) for 4 CPU(s)",
    ),
    (
        "one queue to send",
        lambda tree: tree.remove("sys/class/net/eth0/queues/tx-1"),
        ["--knobs=net.xps_cpus=auto"],
        "net.xps_cpus eth0/tx-0",
        "a single queue has no XPS",
    ),
    (
        "a virtual machine",
        lambda tree: None,
        ["--knobs=cpu.governor=performance"],
        "cpu.governor",
        "no cpufreq: a virtual machine",
    ),
    (
        "a driver without it",
        lambda tree: tree.add(
            {
                "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "powersave\n",
                "sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors": "powersave\n",
            }
        ),
        ["--knobs=cpu.governor=performance"],
        "cpu.governor policy0",
        "the driver has no governor performance",
    ),
    (
        "nothing set aside",
        lambda tree: None,
        [],
        "irq.affinity eth0/40",
        "no CPUs are reserved for interrupts: set housekeeping",
    ),
    (
        "CPUs that are off",
        lambda tree: None,
        ["--housekeeping=8-9"],
        "irq.affinity eth0/40",
        "none of the CPUs for interrupts, 8-9, is online",
    ),
    (
        "irqbalance as it is",
        lambda tree: tree.add(trees.process(77, "irqbalance", environ="A=1\0")),
        [HOUSEKEEPING],
        "irq.affinity eth0/40",
        "irqbalance runs without a ban list",
    ),
    (
        "an interrupt that nobody may move",
        lambda tree: (tree.root / "proc/irq/40/smp_affinity_list").chmod(0o444),
        [HOUSEKEEPING],
        "irq.affinity eth0/40",
        "the kernel manages this interrupt itself",
    ),
    (
        "no irqbalance",
        lambda tree: None,
        [HOUSEKEEPING],
        "irqbalance.banned_cpus",
        "there is no irqbalance",
    ),
    (
        "no hardware",
        lambda tree: tree.remove("sys/class/net/eth0/device"),
        [HOUSEKEEPING],
        "irq.affinity",
        "no network device with hardware",
    ),
    (
        "a device that is not there",
        lambda tree: None,
        ["--interfaces=eth7"],
        "net.rps_cpus eth7",
        "no such device",
    ),
    (
        "no device for latency",
        lambda tree: tree.remove(trees.LATENCY),
        ["--knobs=cpu.dma_latency_us=20"],
        "cpu.dma_latency_us",
        "no such device",
    ),
]


@pytest.mark.parametrize(
    ("change", "flags", "setting", "reason"),
    [pytest.param(*case[1:], id=case[0]) for case in SKIPPED],
)
def test_what_cannot_be_or_is_pointless_is_skipped_with_its_reason(
    tree: Tree, change: Callable[[Tree], object], flags: list[str], setting: str, reason: str
) -> None:
    change(tree)
    row = tree.rows("audit", "--profile=web-100k", *flags)[setting]
    assert row["state"] == "skipped"
    assert reason in row["reason"]


def test_what_kube_proxy_sets_is_its_own(tree: Tree) -> None:
    tree.add(trees.process(501, "kube-proxy"))
    row = tree.rows("audit", "--profile=web-100k")[CONNTRACK]
    assert (row["state"], row["actual"]) == ("owned", "65536")
    assert "conntrack.maxPerCore to 131072 (4 CPUs)" in row["reason"]
    row = tree.rows("audit", "--profile=web-1m")[CONNTRACK]
    assert "conntrack.min to 2097152" in row["reason"]
    tree.add({trees.sysctl(CONNTRACK): "524288\n"})
    assert tree.rows("audit", "--profile=web-100k")[CONNTRACK]["state"] == "ok"


def test_what_cannot_be_read_is_unknown(tree: Tree) -> None:
    # Root can read any file, but not a folder.
    tree.remove(trees.sysctl(BACKLOG))
    (tree.root / trees.sysctl(BACKLOG)).mkdir()
    row = tree.rows("audit")[BACKLOG]
    assert (row["state"], row["actual"]) == ("unknown", None)
    assert "Is a directory" in row["reason"]


@pytest.mark.parametrize("form", ["file", "configz"])
def test_a_kubelets_configuration_is_compared(tree: Tree, tmp_path: Path, form: str) -> None:
    fields = {
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true", "strict-cpu-reservation": "true"},
        "reservedSystemCPUs": "0,1",
        "allowedUnsafeSysctls": ["net.core.*", "net.ipv4.*"],
    }
    path = tmp_path / "kubelet"
    path.write_text(json.dumps({"kubeletconfig": fields} if form == "configz" else fields))
    rows = tree.rows("audit", HOUSEKEEPING, f"--kubelet-config={path}")
    states = {key: row["state"] for key, row in rows.items() if key.startswith("kubelet.")}
    assert states == {
        "kubelet.cpuManagerPolicy": "ok",
        "kubelet.cpuManagerPolicyOptions": "elsewhere",
        "kubelet.reservedSystemCPUs": "ok",
        "kubelet.topologyManagerPolicy": "elsewhere",
        "kubelet.allowedUnsafeSysctls": "ok",
    }
    assert rows["kubelet.topologyManagerPolicy"]["actual"] == "unset"


@pytest.mark.parametrize(("limit", "state"), [("524288", "ok"), ("4096", "elsewhere")])
def test_the_limit_of_containerd_is_read(tree: Tree, limit: str, state: str) -> None:
    limits = f"Limit  Soft  Hard  Units\nMax open files            1024                 {limit}   files\n"
    tree.add(trees.process(9, "containerd", limits=limits))
    row = tree.rows("audit")["containerd.nofile"]
    assert (row["state"], row["actual"]) == (state, limit)


def test_the_table_of_connections_is_read(tree: Tree) -> None:
    row = tree.rows("audit", "--profile=web-1m")["boot.thash_entries"]
    assert (row["state"], row["actual"], row["wanted"]) == ("elsewhere", "131072", "1048576")
    # The value is negative if the table is shared with another network namespace.
    tree.add({trees.sysctl("net.ipv4.tcp_ehash_entries"): "-1048576\n"})
    assert tree.rows("audit", "--profile=web-1m")["boot.thash_entries"]["state"] == "ok"


def test_a_journal_that_cannot_be_understood_is_an_error(tree: Tree) -> None:
    tree.journal.mkdir()
    (tree.journal / "journal.json").write_text('{"version": 2}')
    result = tree.run("audit", status=1)
    assert "version 2, but this program knows only 1" in result.stderr


def test_interrupts_are_found_without_a_list_of_the_device(tree: Tree) -> None:
    tree.remove("sys/class/net/eth0/device/msi_irqs")
    lines = [
        "      CPU0  CPU1",
        " 40:  1  0  PCI-MSIX  0-edge  eth0-rx-0",
        " 41:  0  0  PCI  eth01-tx",
    ]
    tree.add({"proc/interrupts": "\n".join(lines)})
    rows = tree.rows("audit", HOUSEKEEPING)
    assert [key for key in rows if key.startswith("irq.affinity")] == ["irq.affinity eth0/40"]
