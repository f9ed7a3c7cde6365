"""Faults of virtual machine nodes, for tests. A namespace cannot lose its power, link or clock."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cluster import machines, network, places, programs, records
from cluster.plan import CONTROL, of_machines
from cluster.settings import Settings
from stack import in_time, pids
from tools.errors import ToolError


@dataclass
class Faulty:
    """A cluster whose nodes are virtual machines."""

    settings: Settings

    @property
    def record(self) -> records.Record:
        found = records.Record(self.settings.state)
        if not found.content.get("machines"):
            raise ToolError("no cluster of machines is up: run make cluster-up CLUSTER=vm")
        return found

    def run(self, node: str, script: str) -> str:
        argv = [*places.inside(self.record, node), "sh", "-ec", script]
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
        ).stdout

    def kill(self, node: str) -> None:
        entry = self.record.content["processes"][node]
        pids.kill([entry["pid"]])
        in_time(lambda: not pids.alive(entry), 30)

    def start(self, node: str) -> None:
        plan = of_machines(self.settings.network, machines.CPUS)
        machines.restart(plan, self.record, programs.obtain(), node)

    def reboot(self, node: str) -> None:
        """Reboots a machine without an orderly shutdown."""
        # The reboot is delayed, because it would lose the command's response.
        self.run(node, "(sleep 1; echo b >/proc/sysrq-trigger) >/dev/null 2>&1 &")

    @contextmanager
    def partitioned(self, node: str) -> Iterator[None]:
        self._ip("link", "set", node, "down")
        try:
            yield
        finally:
            self._ip("link", "set", node, "up")

    @contextmanager
    def without_api(self) -> Iterator[None]:
        pid = self.record.content["processes"][f"{CONTROL}-kube-apiserver"]["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def _ip(self, *words: str) -> None:
        pid = self.record.content["processes"][CONTROL]["pid"]
        argv = [*network.inside(pid), programs.obtain()["ip"], *words]
        subprocess.run(argv, check=True)
