"""The node tuner in a virtual machine, where machine-wide settings can change.

After `restore`, every sysctl, mask and affinity must be back to its original value.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stack import eventually
from support.machines import ANSWER, JOURNAL, Machine, journal, rows, snapshot, tuner

HOUSEKEEPING = "--housekeeping=0"

SETTING = "net.core.netdev_max_backlog"
BACKLOG = "/proc/sys/net/core/netdev_max_backlog"
HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
FLOWS = "net.core.rps_sock_flow_entries"
CONNTRACK = "net.netfilter.nf_conntrack_max"


def interrupts(machine: Machine) -> dict[str, str]:
    """Interrupt numbers of a network device, by name."""
    lines = [line.split() for line in machine.read("/proc/interrupts").splitlines()]
    return {
        line[-1]: line[0].rstrip(":")
        for line in lines
        if line[-1].startswith(("eth1-", "virtio0-"))
    }


def affinities(machine: Machine) -> set[str]:
    lists = [f"/proc/irq/{number}/smp_affinity_list" for number in interrupts(machine).values()]
    return set(machine.good(f"cat {' '.join(lists)}").split())


def test_it_is_another_kernel(machine: Machine) -> None:
    boot = "/proc/sys/kernel/random/boot_id"
    assert machine.read(boot) != Path(boot).read_text()
    assert machine.read(BACKLOG) == "1000\n"


@pytest.mark.parametrize(("profile", "backlog"), [("web-10k", "4000"), ("web-100k", "10000")])
def test_audit_finds_what_differs(machine: Machine, profile: str, backlog: str) -> None:
    found = rows(machine, "audit", f"--profile={profile}", HOUSEKEEPING, status=2)
    assert found == rows(machine, "plan", f"--profile={profile}", HOUSEKEEPING, status=2)
    row = found[SETTING]
    assert (row["state"], row["actual"], row["wanted"]) == ("differs", "1000", backlog)
    huge = found["vm.transparent_hugepage"]
    assert f"[{huge['actual']}]" in machine.read(HUGE_PAGES)
    files = snapshot(machine)
    for name, row in found.items():
        if row["state"] == "differs" and name.startswith(("fs.", "net.core.", "net.ipv")):
            path = f"/proc/sys/{row['name'].replace('.', '/')}"
            assert files[path].split() == row["actual"].split(), row
    moved = [row for row in found.values() if row["name"] == "irq.affinity"]
    assert len(moved) == len(interrupts(machine)) == 6
    assert {row["state"] for row in moved} == {"differs"}
    assert journal(machine) is None


def test_apply_is_what_the_kernel_has_and_a_second_one_does_nothing(machine: Machine) -> None:
    flags = ("--profile=web-100k", HOUSEKEEPING)
    before = snapshot(machine)
    applied = rows(machine, "apply", *flags, status=0)
    assert {row["state"] for row in applied.values()} == {"ok", "skipped", "elsewhere"}
    assert machine.read(BACKLOG) == "10000\n"
    assert machine.read("/proc/sys/net/core/rps_sock_flow_entries") == "32768\n"
    assert "[madvise]" in machine.read(HUGE_PAGES)
    # eth0 has fewer queues than CPUs; eth1 has one queue per CPU.
    assert machine.read("/sys/class/net/eth0/queues/rx-0/rps_flow_cnt") == "32768\n"
    assert applied["net.rps_flow_cnt eth0/rx-0"]["state"] == "ok"
    assert machine.read("/sys/class/net/eth0/queues/rx-0/rps_cpus") == "1\n"
    for queue in ("rx-0", "rx-1"):
        row = applied[f"net.rps_cpus eth1/{queue}"]
        assert (row["state"], "2 receive queue(s) for 2 CPU(s)" in row["reason"]) == (
            "skipped",
            True,
        )
    assert affinities(machine) == {"0"}

    after, noted = snapshot(machine), journal(machine)
    changed = {file for file in after if after[file] != before[file]}
    # Mask and list agree.
    assert {file.replace("smp_affinity_list", "smp_affinity") for file in changed} == {
        entry["path"].replace("smp_affinity_list", "smp_affinity") for entry in noted["settings"]
    }
    for entry in noted["settings"]:
        assert entry["original"] == before[entry["path"]]

    again = rows(machine, "apply", *flags, status=0)
    assert not [row for row in again.values() if "changed_from" in row]
    assert (snapshot(machine), journal(machine)) == (after, noted)
    assert "is prepared" in tuner(machine, "audit", *flags, status=0).output

    # Under another profile, settings that it drops or lowers return to their originals.
    tuner(machine, "apply", "--profile=web-10k", status=0)
    assert machine.read(BACKLOG) == "4000\n"
    for file in changed - {BACKLOG}:
        if "rps" in file or "irq" in file:
            assert machine.read(file) == before[file]
    tuner(machine, "restore", status=0)
    assert snapshot(machine) == before


def test_interrupts_come_to_the_cpu_that_is_set_aside(machine: Machine) -> None:
    name = "virtio0-input.0"
    number = interrupts(machine)[name]
    machine.good("ip address show dev eth0 | grep -q inet || ip address add 10.0.2.15/24 dev eth0")

    def comes_to(cpu: str) -> bool:
        # Affinity takes effect at the next interrupt (Documentation/core-api/irq/irq-affinity.rst,
        # "effective").
        machine.good("arping -q -f -w 10 -I eth0 10.0.2.2")
        return machine.read(f"/proc/irq/{number}/effective_affinity_list").strip() == cpu

    def came() -> list[int]:
        (line,) = (
            line for line in machine.read("/proc/interrupts").splitlines() if line.endswith(name)
        )
        return list(map(int, line.split()[1:3]))

    allowed = f"/proc/irq/{number}/smp_affinity_list"
    machine.write(allowed, "1")
    try:
        eventually(lambda: comes_to("1"), patience=ANSWER)
        tuner(machine, "apply", "--profile=web-10k", HOUSEKEEPING, status=0)
        eventually(lambda: comes_to("0"), patience=ANSWER)
        first, second = came()
        machine.good("arping -q -f -w 10 -I eth0 10.0.2.2")
        eventually(lambda: came()[0] > first, patience=ANSWER)
        assert came()[1] == second
        tuner(machine, "restore", status=0)
        assert machine.read(allowed) == "1\n"
        eventually(lambda: comes_to("1"), patience=ANSWER)
    finally:
        machine.write(allowed, "0-1")


def test_largest_profile_and_chosen_knobs_are_taken_by_the_kernel_and_undone(
    machine: Machine,
) -> None:
    knobs = "net.xps_cpus=auto,net.core.netdev_budget_usecs=9000"
    found = rows(machine, "apply", "--profile=web-1m", f"--knobs={knobs}", status=0)
    assert found["net.ipv4.tcp_mem"]["state"] == "ok"
    assert machine.read("/proc/sys/fs/nr_open") == "2097152\n"
    assert machine.read("/proc/sys/net/core/netdev_budget_usecs") == "9000\n"
    # eth1 has a queue per CPU; eth0 has only one.
    masks = [machine.read(f"/sys/class/net/eth1/queues/tx-{queue}/xps_cpus") for queue in (0, 1)]
    assert sorted(masks) == ["1\n", "2\n"]
    assert found["net.xps_cpus eth0/tx-0"]["state"] == "skipped"
    # No housekeeping CPUs.
    assert found["net.rps_cpus eth0/rx-0"]["reason"].endswith("set housekeeping")
    assert machine.read("/sys/class/net/eth0/queues/rx-0/rps_cpus") == "0\n"


def test_what_the_kernel_lacks_is_skipped_with_the_reason(machine: Machine) -> None:
    knobs = f"cpu.governor=performance,cpu.dma_latency_us=10,{CONNTRACK}=131072"
    flags = ("--profile=custom", f"--knobs={knobs}")
    found = rows(machine, "apply", *flags, status=0)
    states = {name: (row["state"], row["reason"]) for name, row in found.items()}
    assert states["cpu.governor"][0] == "skipped"
    assert "no cpufreq" in states["cpu.governor"][1]
    assert "module nf_conntrack is not loaded" in states[CONNTRACK][1]
    assert "the agent holds it" in states["cpu.dma_latency_us"][1]
    with machine.loaded("nf_conntrack"):
        assert rows(machine, "audit", *flags, status=2)[CONNTRACK]["state"] == "differs"
        tuner(machine, "apply", *flags, status=0)
        file = "/proc/sys/net/netfilter/nf_conntrack_max"
        assert machine.read(file) == "131072\n"
        tuner(machine, "restore", status=0)
        assert int(machine.read(file)) < 131072


def test_what_the_kernel_refuses_is_failed_with_the_reason_and_the_rest_is_done(
    machine: Machine,
) -> None:
    # 1 GiB, more than the machine's memory.
    knobs = f"{FLOWS}=268435456,net.core.netdev_max_backlog=5000"
    found = rows(machine, "apply", "--profile=custom", f"--knobs={knobs}", status=1)
    assert found[FLOWS]["state"] == "failed"
    assert "Cannot allocate memory" in found[FLOWS]["reason"]
    assert machine.read("/proc/sys/net/core/rps_sock_flow_entries") == "0\n"
    assert machine.read(BACKLOG) == "5000\n"


def test_a_number_that_the_kernel_rounds_up_is_as_wanted(machine: Machine) -> None:
    flags = ("--profile=custom", f"--knobs={FLOWS}=30000")
    tuner(machine, "apply", *flags, status=0)
    assert machine.read("/proc/sys/net/core/rps_sock_flow_entries") == "32768\n"
    row = rows(machine, "audit", *flags, status=0)[FLOWS]
    assert (row["state"], row["actual"]) == ("ok", "32768")


def test_a_journal_of_another_boot_restores_nothing(booted: Machine) -> None:
    tuner(booted, "apply", HOUSEKEEPING, status=0)
    noted = booted.read(JOURNAL)
    # Simulates a journal on disk.
    booted.restart()
    booted.good(f"mkdir -p {JOURNAL.rpartition('/')[0]}")
    booted.write(JOURNAL, noted)
    assert booted.read(BACKLOG) == "1000\n"
    # Values that other programs set later must survive.
    booted.write(BACKLOG, "1500")
    untouched = snapshot(booted)
    tuner(booted, "restore", status=0)
    assert (snapshot(booted), journal(booted)) == (untouched, None)

    booted.write(JOURNAL, noted)
    tuner(booted, "apply", HOUSEKEEPING, status=0)
    assert booted.read(BACKLOG) == "4000\n"
    fresh = journal(booted)
    assert fresh["boot"] == booted.read("/proc/sys/kernel/random/boot_id").strip()
    originals = {entry["path"]: entry["original"] for entry in fresh["settings"]}
    assert originals[BACKLOG] == "1500\n"
    tuner(booted, "restore", status=0)
    assert snapshot(booted) == untouched
    booted.write(BACKLOG, "1000")


def test_two_sockets_are_prepared_audited_and_restored_even_after_kills(large: Machine) -> None:
    flags = ("--profile=web-100k", "--housekeeping=0-1,4-5")
    before = snapshot(large)
    planned = rows(large, "plan", *flags, status=2)
    applied = rows(large, "apply", *flags, status=0)
    assert planned.keys() == applied.keys()
    assert set(",".join(affinities(large)).split(",")) <= {"0", "1", "4", "5", "0-1", "4-5"}
    # eth0's only queue is served by all CPUs, both threads of both cores.
    assert large.read("/sys/class/net/eth0/queues/rx-0/rps_cpus") == "33\n"
    assert {row["state"] for row in rows(large, "audit", *flags, status=0).values()} <= {
        "ok",
        "skipped",
        "elsewhere",
    }
    tuner(large, "restore", status=0)
    assert snapshot(large) == before
    # Whenever the run is killed, the journal contains the originals of everything written.
    for pause in (1000, 20_000, 50_000, 100_000, 200_000):
        large.run(
            f"node-tuner apply {' '.join(flags)} >/run/log & usleep {pause}; kill -9 $!; wait"
        )
        tuner(large, "restore", status=0)
        assert snapshot(large) == before
    assert journal(large) is None


PROFILE = f"--profile=custom --knobs={SETTING}=5000,cpu.dma_latency_us=10"
LOG = "/run/agent.log"

NONE = 2_000_000_000


class Agent:
    def __init__(self, machine: Machine, *flags: str) -> None:
        self.machine = machine
        words = f"node-tuner {PROFILE} --agent.interval=1s {' '.join(flags)} agent"
        self.pid = int(machine.good(f"{words} >{LOG} 2>&1 &\necho $!"))

    def ask(self, path: str) -> str:
        """Empty on any error or a status other than 200."""
        return self.machine.run(f"wget -qO- http://127.0.0.1:9905{path}").output

    def wait_until_ready(self) -> None:
        def ready() -> bool:
            # A zombie has no executable, even before it is reaped.
            assert self.machine.run(f"readlink /proc/{self.pid}/exe").status == 0, self.log()
            return self.ask("/readyz") != ""

        eventually(ready, "readiness", patience=ANSWER)

    def log(self) -> str:
        return self.machine.read(LOG)

    def passes(self) -> None:
        """Waits for a full pass."""
        for _ in range(2):
            before = self.metric("last_pass_timestamp_seconds")
            eventually(
                lambda before=before: self.metric("last_pass_timestamp_seconds") > before,
                "another pass",
                patience=ANSWER,
            )

    def metric(self, series: str) -> float:
        for line in self.ask("/metrics").splitlines():
            name, _, value = line.rpartition(" ")
            if name == f"corelane_node_{series}":
                return float(value)
        raise AssertionError(f"no {series}: {self.log()}")

    def kill(self) -> None:
        """Waits until the files are closed, which the kernel does before threads become zombies."""
        self.machine.run(f"kill -9 {self.pid}")
        threads = f"grep -hs ^State: /proc/{self.pid}/task/*/status"
        gone = f"! {threads} | grep -qv Z"
        eventually(lambda: self.machine.run(gone).status == 0, "its end", patience=ANSWER)


@contextmanager
def agent(machine: Machine, *flags: str) -> Iterator[Agent]:
    running = Agent(machine, *flags)
    try:
        running.wait_until_ready()
        yield running
    finally:
        running.kill()


def latency(machine: Machine) -> int:
    """The effective PM QoS limit in microseconds."""
    # A process that only reads makes no request.
    text = machine.good("head -c 4 /dev/cpu_dma_latency | hexdump -v -e '1/4 \"%d\"'")
    return int(text)


def test_a_killed_agent_leaves_the_tuning_and_the_next_one_has_its_journal(
    machine: Machine,
) -> None:
    assert latency(machine) == NONE
    with agent(machine, "--agent.mode=apply"):
        assert machine.read(BACKLOG) == "5000\n"
        assert latency(machine) == 10
        noted = journal(machine)
        originals = {entry["name"]: entry["original"] for entry in noted["settings"]}
        assert originals[SETTING] == "1000\n"
    # The latency request ends when its process exits, but written settings remain.
    assert latency(machine) == NONE
    assert machine.read(BACKLOG) == "5000\n"
    assert journal(machine) == noted
    with agent(machine, "--agent.mode=apply") as second:
        assert latency(machine) == 10
        assert json.loads(second.ask("/audit.json"))["journal"] == len(originals)
        assert second.metric("prepared") == 1
        assert second.metric(f'knob_repairs_total{{knob="{SETTING}"}}') == 0
        assert journal(machine) == noted
    with agent(machine, "--agent.mode=restore"):
        assert machine.read(BACKLOG) == "1000\n"
        assert (latency(machine), journal(machine)) == (NONE, None)


def test_what_is_changed_by_hand_is_repaired(machine: Machine) -> None:
    with agent(machine, "--agent.mode=apply") as running:
        machine.write(BACKLOG, "300")
        eventually(lambda: machine.read(BACKLOG) == "5000\n", "the repair", patience=ANSWER)
        running.passes()
        assert running.metric(f'knob_drift_total{{knob="{SETTING}"}}') == 1
        assert running.metric(f'knob_repairs_total{{knob="{SETTING}"}}') == 1
        assert running.metric(f'knob_actual{{knob="{SETTING}"}}') == 5000
    tuner(machine, "restore", status=0)
    assert machine.read(BACKLOG) == "1000\n"


def test_drift_is_only_reported_if_so_told(machine: Machine) -> None:
    with agent(machine, "--agent.mode=apply", "--agent.drift=report") as running:
        machine.write(BACKLOG, "300")
        running.passes()
        assert machine.read(BACKLOG) == "300\n"
        assert running.metric(f'knob_drift_total{{knob="{SETTING}"}}') == 1
        assert running.metric(f'knob_repairs_total{{knob="{SETTING}"}}') == 0
        assert running.metric("prepared") == 0
        assert machine.run("wget -qO- http://127.0.0.1:9905/readyz").status != 0


def test_an_audit_changes_nothing(machine: Machine) -> None:
    with agent(machine, "--agent.mode=audit") as running:
        running.passes()
        assert running.metric(f'knob_wanted{{knob="{SETTING}"}}') == 5000
        assert running.metric(f'knob_actual{{knob="{SETTING}"}}') == 1000
        assert machine.read(BACKLOG) == "1000\n"
        assert latency(machine) == NONE
        assert machine.run(f"cat {JOURNAL}").status != 0
