"""`node-tuner agent` on a machine of its own, with a real kernel."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from stack import eventually
from support.machines import ANSWER, JOURNAL, Machine, journal, tuner

BACKLOG = "net.core.netdev_max_backlog"
FILE = "/proc/sys/net/core/netdev_max_backlog"
PROFILE = f"--profile=custom --knobs={BACKLOG}=5000,cpu.dma_latency_us=10"
LOG = "/run/agent.log"

NONE = 2_000_000_000
"""PM_QOS_CPU_LATENCY_DEFAULT_VALUE of include/linux/pm_qos.h: nobody asks for less."""


class Agent:
    """An agent that runs there."""

    def __init__(self, machine: Machine, *flags: str) -> None:
        self.machine = machine
        words = f"node-tuner {PROFILE} --agent.interval=1s {' '.join(flags)} agent"
        self.pid = int(machine.good(f"{words} >{LOG} 2>&1 &\necho $!"))

    def ask(self, path: str) -> str:
        """The reply of its port; empty while there is none, or another status than 200."""
        return self.machine.run(f"wget -qO- http://127.0.0.1:9905{path}").output

    def wait_until_ready(self) -> None:
        """Waits for the end of the first pass."""

        def ready() -> bool:
            # What has ended has no program any more, even before its parent knows.
            assert self.machine.run(f"readlink /proc/{self.pid}/exe").status == 0, self.log()
            return self.ask("/readyz") != ""

        eventually(ready, "readiness", patience=ANSWER)

    def log(self) -> str:
        """What it said so far."""
        return self.machine.read(LOG)

    def passes(self) -> None:
        """Waits until a pass that has begun after this call has ended."""
        for _ in range(2):
            before = self.metric("last_pass_timestamp_seconds")
            eventually(
                lambda before=before: self.metric("last_pass_timestamp_seconds") > before,
                "another pass",
                patience=ANSWER,
            )

    def metric(self, series: str) -> float:
        """One of its metrics."""
        for line in self.ask("/metrics").splitlines():
            name, _, value = line.rpartition(" ")
            if name == f"corelane_node_{series}":
                return float(value)
        raise AssertionError(f"no {series}: {self.log()}")

    def kill(self) -> None:
        """SIGKILL, and waits until its files are closed, which the kernel does before a thread is a zombie."""
        self.machine.run(f"kill -9 {self.pid}")
        threads = f"grep -hs ^State: /proc/{self.pid}/task/*/status"
        gone = f"! {threads} | grep -qv Z"
        eventually(lambda: self.machine.run(gone).status == 0, "its end", patience=ANSWER)


@contextmanager
def agent(machine: Machine, *flags: str) -> Iterator[Agent]:
    """An agent, which is killed at the end."""
    running = Agent(machine, *flags)
    try:
        running.wait_until_ready()
        yield running
    finally:
        running.kill()


def latency(machine: Machine) -> int:
    """The microseconds that the kernel keeps to, as all who hold the file have asked for."""
    # One that only reads asks for nothing.
    text = machine.good("head -c 4 /dev/cpu_dma_latency | hexdump -v -e '1/4 \"%d\"'")
    return int(text)


def test_a_killed_agent_leaves_the_tuning_and_the_next_one_has_its_journal(
    machine: Machine,
) -> None:
    assert latency(machine) == NONE
    with agent(machine, "--agent.mode=apply"):
        assert machine.read(FILE) == "5000\n"
        assert latency(machine) == 10
        noted = journal(machine)
        originals = {entry["name"]: entry["original"] for entry in noted["settings"]}
        assert originals[BACKLOG] == "1000\n"
    # What is held ends with who held it; what is written stays.
    assert latency(machine) == NONE
    assert machine.read(FILE) == "5000\n"
    assert journal(machine) == noted
    with agent(machine, "--agent.mode=apply") as second:
        assert latency(machine) == 10
        assert json.loads(second.ask("/audit.json"))["journal"] == len(originals)
        assert second.metric("prepared") == 1
        assert second.metric(f'knob_repairs_total{{knob="{BACKLOG}"}}') == 0
        assert journal(machine) == noted
    with agent(machine, "--agent.mode=restore"):
        assert machine.read(FILE) == "1000\n"
        assert (latency(machine), journal(machine)) == (NONE, None)


def test_what_is_changed_by_hand_is_repaired(machine: Machine) -> None:
    with agent(machine, "--agent.mode=apply") as running:
        machine.write(FILE, "300")
        eventually(lambda: machine.read(FILE) == "5000\n", "the repair", patience=ANSWER)
        running.passes()
        assert running.metric(f'knob_drift_total{{knob="{BACKLOG}"}}') == 1
        assert running.metric(f'knob_repairs_total{{knob="{BACKLOG}"}}') == 1
        assert running.metric(f'knob_actual{{knob="{BACKLOG}"}}') == 5000
    tuner(machine, "restore", status=0)
    assert machine.read(FILE) == "1000\n"


def test_drift_is_only_reported_if_so_told(machine: Machine) -> None:
    with agent(machine, "--agent.mode=apply", "--agent.drift=report") as running:
        machine.write(FILE, "300")
        running.passes()
        assert machine.read(FILE) == "300\n"
        assert running.metric(f'knob_drift_total{{knob="{BACKLOG}"}}') == 1
        assert running.metric(f'knob_repairs_total{{knob="{BACKLOG}"}}') == 0
        assert running.metric("prepared") == 0
        assert machine.run("wget -qO- http://127.0.0.1:9905/readyz").status != 0


def test_an_audit_changes_nothing(machine: Machine) -> None:
    with agent(machine, "--agent.mode=audit") as running:
        running.passes()
        assert running.metric(f'knob_wanted{{knob="{BACKLOG}"}}') == 5000
        assert running.metric(f'knob_actual{{knob="{BACKLOG}"}}') == 1000
        assert machine.read(FILE) == "1000\n"
        assert latency(machine) == NONE
        assert machine.run(f"cat {JOURNAL}").status != 0
