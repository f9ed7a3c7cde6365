"""QEMU machines for tests of machine-wide state.

def test_something(machine): assert machine.run("uname -s").output == "Linux\\n"

Each machine has cgroup v2, a multi-queue network device for two CPUs (eth1), a single-queue one
(eth0), and no disk. `machine` has two CPUs; `booted_with` boots other machines. With `host`, a
machine shares the tests' file system and tool caches; writes stay in memory.
"""

import json
import os
import re
import shlex
import socket
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from machines import channel, initramfs, qemu
from machines.channel import Result
from machines.qemu import Hardware
from stack import eventually
from stack.programs import program

BOOT = 600.0
"""Boot timeout in seconds; takes 4 s with two idle CPUs."""

ANSWER = 300.0
"""Command timeout in seconds."""

MACHINE = (
    *qemu.BARE,
    "-no-reboot",
    # virtio has two queues only with a host device; vmxnet3 always has its own queues.
    *("-netdev", "user,id=eth0,restrict=on", "-device", "virtio-net-pci,netdev=eth0,romfile="),
    *("-netdev", "user,id=eth1,restrict=on", "-device", "vmxnet3,netdev=eth1,romfile="),
)

SMALL = Hardware()

HOUSED = Hardware("4,sockets=2,cores=2", ("0-1", "2-3"), 6144, host=True)
"""Large enough for a cluster with two nodes, one per socket."""

LARGE = Hardware("8,sockets=2,cores=2,threads=2", ("0-3", "4-7"), 1024)
"""Two sockets, which are NUMA nodes, with two cores of two threads; CPUs 0 and 1 are the first
core.
"""


OTHERS = (
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/proc/irq/*/smp_affinity*",
    "/sys/class/net/*/queues/*/?ps_*",
)

JOURNAL = "/var/lib/corelane/node-tuner/journal.json"

MOVING = re.compile(
    "/proc/sys/(fs/(aio-nr|dentry-state|file-nr|inode-(nr|state))|net/netfilter/nf_conntrack_count|"
    "kernel/(ns_last_pid|perf_event_max_sample_rate|pty/nr|random/.*)|vm/min_free_kbytes)$"
)
"""Sysctls that the kernel changes, the last one whenever huge pages are enabled."""


class Machine:
    def __init__(
        self,
        folder: Path,
        *programs: Path,
        hardware: Hardware = SMALL,
        files: Iterable[Path] = (),
    ) -> None:
        self.console = folder / "console.log"
        self._folder = folder
        self._hardware = hardware
        self._process: subprocess.Popen[bytes] | None = None
        self._sharing: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        # Stripped modules are a third of the size and load faster.
        for each in programs:
            subprocess.run(["strip", "-o", folder / each.name, each], check=True)
        stripped = [folder / each.name for each in programs]
        (folder / "initramfs").write_bytes(qemu.archive(hardware, stripped, files))

    def start(self) -> None:
        if self._hardware.host:
            self._share_files()
        path = self._folder / qemu.COMMANDS
        with socket.socket(socket.AF_UNIX) as listener:
            path.unlink(missing_ok=True)
            listener.bind(str(path))
            listener.listen()
            self._process = subprocess.Popen(
                qemu.command(
                    qemu.accelerator(),
                    self._folder / "initramfs",
                    f"{qemu.APPEND} host=1" if self._hardware.host else qemu.APPEND,
                    *MACHINE,
                    *self._hardware.flags(),
                    *(qemu.shared(self._folder) if self._hardware.host else ()),
                    *("-serial", f"file:{self.console}"),
                    *qemu.commands(self._folder),
                ),
                stdin=subprocess.DEVNULL,
                process_group=0,
            )
            listener.settimeout(BOOT)
            self._channel, _ = listener.accept()
        self.run("true", patience=BOOT)

    def end(self) -> None:
        if self._channel:
            self._channel.close()
        for process in (self._process, self._sharing):
            if process:
                process.kill()
                process.wait()

    def restart(self) -> None:
        """Power cycle, which clears memory."""
        self.end()
        self.start()

    def _share_files(self) -> None:
        """Shares the file system read-only."""
        argv, environment = qemu.sharing(self._folder)
        with (self._folder / "files.log").open("wb") as log:
            self._sharing = subprocess.Popen(
                argv,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        listener = self._folder / qemu.FILES
        eventually(listener.exists, f"{listener}; see {log.name}")

    def run(self, script: str, patience: float = ANSWER) -> Result:
        """Runs a script as root. The caller checks the result."""
        try:
            return channel.run(self._channel, script, patience)
        except channel.Silence as error:
            said = "\n".join(self.console.read_text(errors="replace").splitlines()[-20:])
            raise AssertionError(f"{error}, running {script!r}; its console:\n{said}") from error

    def good(self, script: str, patience: float = ANSWER) -> str:
        """Runs a script and returns its output, or raises an error if the script fails."""
        result = self.run(f"set -e\n{script}", patience)
        assert result.status == 0, f"{script}: {result}"
        return result.output

    def read(self, path: str) -> str:
        return self.good(f"cat {shlex.quote(path)}")

    def write(self, path: str, content: str) -> None:
        self.good(f"printf %s {shlex.quote(content)} >{shlex.quote(path)}")

    @contextmanager
    def loaded(self, module: str) -> Iterator[None]:
        """Loads a module of `LATER` with its dependencies."""
        names = initramfs.in_order(qemu.modules_of_kernel(), [module])
        absent = [name for name in names if self.run(f"[ -d /sys/module/{name} ]").status]
        try:
            for name in absent:
                self.good(f"insmod /lib/modules/{name}.ko")
            yield
        finally:
            for name in reversed(absent):
                self.run(f"rmmod {name}")


def snapshot(machine: Machine) -> dict[str, str]:
    """Everything a tuner may change, plus all sysctls."""
    found = machine.run(f"grep -rs '' /proc/sys; grep -s '' {' '.join(OTHERS)}").output
    lines = [line.partition(":")[::2] for line in found.splitlines()]
    files: dict[str, str] = {}
    for file, line in lines:
        if not MOVING.match(file):
            files[file] = f"{files.get(file, '')}{line}\n"
    assert len(files) > 500, found
    return files


def tuner(machine: Machine, *words: str, status: int) -> Result:
    result = machine.run(f"node-tuner {' '.join(words)}")
    assert result.status == status, result
    return result


def rows(machine: Machine, *words: str, status: int) -> dict[str, dict]:
    """The node tuner's settings by name and target."""
    report = json.loads(tuner(machine, "--output=json", *words, status=status).output)
    return {f"{row['name']} {row['target']}".strip(): row for row in report["knobs"]}


def journal(machine: Machine) -> dict | None:
    found = machine.run(f"cat {JOURNAL}")
    return json.loads(found.output) if found.status == 0 else None


@contextmanager
def booted_with(
    folder: Path, *programs: str, hardware: Hardware = SMALL, files: Iterable[Path] = ()
) -> Iterator[Machine]:
    """Boots a machine with these programs and files."""
    if not qemu.usable():
        pytest.skip(
            "its kernel is Debian's for x86-64, which only root on such a system can obtain"
        )
    machine = Machine(folder, *map(program, programs), hardware=hardware, files=files)
    try:
        machine.start()
        yield machine
    finally:
        machine.end()


@pytest.fixture(scope="session")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Shared; must not be changed."""
    with booted_with(tmp_path_factory.mktemp("machine"), "node-tuner") as machine:
        yield machine


@pytest.fixture
def machine(booted: Machine) -> Iterator[Machine]:
    """Fails if restoring the journal does not undo all changes."""
    before = snapshot(booted)
    yield booted
    tuner(booted, "restore", status=0)
    assert snapshot(booted) == before
    assert journal(booted) is None


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Shared machine of type `LARGE` with our programs and Python."""
    files = initramfs.python("cluster.cgroups", "socket")
    folder = tmp_path_factory.mktemp("large")
    programs = ("corelane-server", "node-tuner")
    with booted_with(folder, *programs, hardware=LARGE, files=files) as machine:
        machine.good("echo '+cpuset +cpu +memory' >/sys/fs/cgroup/cgroup.subtree_control")
        yield machine
