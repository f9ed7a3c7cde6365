"""Disposable trees that look like a node's /proc, /sys, /dev and /etc, and `node-tuner` on them.

The program changes only files below `--root`; no test passes the machine's own root.
"""

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from stack import PATIENCE
from stack.programs import program
from tools import resolve

Content = str | bytes

THP = "sys/kernel/mm/transparent_hugepage/enabled"
LATENCY = "dev/cpu_dma_latency"
IRQBALANCE = "etc/default/irqbalance"
NO_LATENCY = 2_000_000_000
"""Microseconds that the kernel shows while no process requires less."""


SYSCTLS = {
    "fs.file-max": "100000",
    "fs.nr_open": "1048576",
    "net.core.netdev_max_backlog": "1000",
    "net.core.netdev_budget": "300",
    "net.core.netdev_budget_usecs": "2000",
    "net.core.rps_default_mask": "0",
    "net.core.rps_sock_flow_entries": "0",
    "net.ipv4.tcp_max_orphans": "8192",
    "net.ipv4.tcp_mem": "24000\t32000\t48000",
    "net.ipv4.tcp_ehash_entries": "131072",
    "net.ipv4.neigh.default.gc_thresh1": "128",
    "net.ipv4.neigh.default.gc_thresh2": "512",
    "net.ipv4.neigh.default.gc_thresh3": "1024",
    "net.ipv6.neigh.default.gc_thresh1": "128",
    "net.ipv6.neigh.default.gc_thresh2": "512",
    "net.ipv6.neigh.default.gc_thresh3": "1024",
    "net.netfilter.nf_conntrack_max": "65536",
    "net.netfilter.nf_conntrack_tcp_timeout_time_wait": "120",
}


def sysctl(name: str) -> str:
    return "proc/sys/" + name.replace(".", "/")


def latency(microseconds: int) -> bytes:
    return struct.pack("=i", microseconds)


def process(pid: int, name: str, **files: Content) -> dict[str, Content]:
    return {
        f"proc/{pid}/{file}": content for file, content in {"comm": f"{name}\n", **files}.items()
    }


def device(
    name: str, *, receiving: int = 1, sending: int = 1, irqs: Iterable[int] = (), cpus: int = 4
) -> dict[str, Content]:
    folder = f"sys/class/net/{name}"
    files: dict[str, Content] = {f"{folder}/device/uevent": "DRIVER=some_net\n"}
    for queue in range(receiving):
        files[f"{folder}/queues/rx-{queue}/rps_cpus"] = "0\n"
        files[f"{folder}/queues/rx-{queue}/rps_flow_cnt"] = "0\n"
    for queue in range(sending):
        files[f"{folder}/queues/tx-{queue}/xps_cpus"] = "0\n"
    for irq in irqs:
        files[f"{folder}/device/msi_irqs/{irq}"] = "msix\n"
        files[f"proc/irq/{irq}/smp_affinity_list"] = f"0-{cpus - 1}\n"
    return files


def node(*, cpus: int = 4) -> dict[str, Content]:
    """An untuned node with one device, eth0, which has two queues and two interrupts."""
    return {
        "proc/sys/kernel/random/boot_id": "0a0a0a0a-0000-0000-0000-000000000001\n",
        "proc/meminfo": "MemTotal:       16777216 kB\nMemFree:        8388608 kB\n",
        "sys/devices/system/cpu/online": f"0-{cpus - 1}\n",
        THP: "[always] madvise never\n",
        LATENCY: latency(NO_LATENCY),
        "sys/class/net/lo/mtu": "65536\n",
        **{sysctl(name): f"{value}\n" for name, value in SYSCTLS.items()},
        **device("eth0", receiving=2, sending=2, irqs=(40, 41), cpus=cpus),
    }


@dataclass(frozen=True)
class Tree:
    root: Path
    journal: Path

    def add(self, files: Mapping[str, Content]) -> "Tree":
        write(self.root, files)
        return self

    def drift(self, name: str, value: str) -> None:
        """Changes a sysctl atomically, so that an agent never reads a partial value."""
        fresh = self.root.parent / "drifted"
        fresh.write_text(f"{value}\n")
        fresh.replace(self.root / sysctl(name))

    def remove(self, path: str) -> None:
        target = self.root / path
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink()

    def read(self, path: str) -> str:
        return (self.root / path).read_text().strip()

    def snapshot(self) -> dict[str, bytes]:
        files = (path for path in sorted(self.root.rglob("*")) if path.is_file())
        return {str(path.relative_to(self.root)): path.read_bytes() for path in files}

    def noted(self) -> dict:
        return json.loads((self.journal / "journal.json").read_text())

    def argv(self, *arguments: str | Path) -> list[str | Path]:
        return [
            program("node-tuner"),
            *arguments,
            f"--root={self.root}",
            f"--journal={self.journal}",
        ]

    def run(
        self, *arguments: str | Path, status: int | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Without `status`, the caller checks the exit status."""
        result = subprocess.run(
            self.argv(*arguments),
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if status is not None:
            assert result.returncode == status, result.stdout + result.stderr
        return result

    def refused(
        self, path: str, error: str, *arguments: str | Path, when: int = 1
    ) -> subprocess.CompletedProcess[str]:
        """Runs `node-tuner` while the kernel rejects one write to a file."""
        strace = resolve.tool("strace")
        inject = f"inject=write:error={error}:when={when}"
        argv = [strace, "-qq", "-o", "/dev/null", "-P", self.root / path, "-e", inject]
        return subprocess.run(
            [*argv, *self.argv(*arguments)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def report(self, *arguments: str | Path) -> dict:
        return json.loads(self.run(*arguments, "--output=json").stdout)

    def rows(self, *arguments: str | Path) -> dict[str, dict]:
        """Settings by name and target: `net.rps_cpus eth0/rx-0`."""
        rows = self.report(*arguments)["knobs"]
        return {f"{row['name']} {row['target']}".rstrip(): row for row in rows}


def write(folder: Path, files: Mapping[str, Content]) -> None:
    for path, content in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)


def make(folder: Path, files: Mapping[str, Content]) -> Tree:
    """Names a second folder for the journal."""
    tree = Tree(folder / "root", folder / "journal")
    tree.root.mkdir(parents=True)
    return tree.add(files)


def copy(folder: Path, paths: Iterable[str]) -> Tree:
    """Copies the files that exist on this machine, which is not changed."""
    found = {}
    for path in paths:
        try:
            found[path] = (Path("/") / path).read_bytes()
        except OSError:
            continue
    return make(folder, found)
