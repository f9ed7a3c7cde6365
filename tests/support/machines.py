"""Disposable machines for what is machine-wide: a real kernel in QEMU, with commands from the test.

    def test_something(machine):
        assert machine.run("uname -s").output == "Linux\\n"

Nothing of the machine that runs the tests is changed, whatever they write there. A machine has cgroup v2 alone,
a network device with a queue for each of two CPUs (eth1) and one with a single queue (eth0), and no disk. The
machine `machine` has two CPUs; `booted_with` boots others. One with `host` has the file system of the tests, with
the caches of tools, and keeps what is written to it in its memory.
"""

import base64
import json
import os
import platform
import re
import shlex
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from support import eventually, initramfs
from support.processes import program
from tools import debian, resolve

BOOT = 600.0
"""Longest time in seconds for a boot; 4 s with two CPUs where nothing else runs."""

ANSWER = 300.0
"""Longest time in seconds for the answer to a command."""

DRIVERS = ("virtio_pci", "virtio_console", "virtio_net", "vmxnet3")
LATER = ("nf_conntrack",)
"""Modules that a test may load, by `load`."""

HOST = ("overlay", "virtiofs")
CLUSTER = ("bridge", "veth", "nft_chain_nat")
"""What a cluster needs, beside every `nft_` module: the kernel cannot find modules by itself there."""

PROBE = 5.0
"""Seconds in which a guest has to answer where KVM can run it; Debian's kernel takes one."""

MACHINE = (
    *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "q35"),
    # No backend of QEMU gives a virtio device two queues without a device of this machine; vmxnet3 has its own.
    *("-netdev", "user,id=eth0,restrict=on", "-device", "virtio-net-pci,netdev=eth0,romfile="),
    *("-netdev", "user,id=eth1,restrict=on", "-device", "vmxnet3,netdev=eth1,romfile="),
    *("-device", "virtio-serial-pci", "-device", "virtserialport,chardev=commands"),
)

# Emulated CPUs that wait for their turn are no defect of the guest, whose timers are late then.
PATIENT = "mitigations=off no_timer_check nowatchdog rcupdate.rcu_cpu_stall_timeout=300"
APPEND = f"console=ttyS0 quiet panic=-1 {PATIENT}"


@dataclass(frozen=True)
class Hardware:
    """CPUs and memory of a machine."""

    cpus: str = "2"
    """As QEMU's `-smp`."""
    nodes: tuple[str, ...] = ()
    """The CPUs of each NUMA node."""
    memory: int = 640
    """In MiB. With less than 512 the kernel begins without transparent huge pages."""
    host: bool = False
    """Whether it has the tests' file system."""

    def flags(self) -> list[str]:
        """The flags of QEMU."""
        flags = ["-smp", self.cpus, "-m", f"{self.memory}M"]
        # The process that shares files reads and writes the guest's memory.
        kind = "memory-backend-memfd,share=on" if self.host else "memory-backend-ram"
        for node, cpus in enumerate(self.nodes):
            part = f"{kind},id=m{node},size={self.memory // len(self.nodes)}M"
            flags += ["-object", part, "-numa", f"node,nodeid={node},cpus={cpus},memdev=m{node}"]
        return flags


HOUSED = Hardware("4,sockets=2,cores=2", ("0-1", "2-3"), 6144, host=True)
"""Room for a cluster whose two nodes have a socket each."""

LARGE = Hardware("8,sockets=2,cores=2,threads=2", ("0-3", "4-7"), 1024)
"""Two sockets, each a NUMA node, with two cores of two threads: CPU 0 and 1 are the first core."""


OTHERS = (
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/proc/irq/*/smp_affinity*",
    "/sys/class/net/*/queues/*/?ps_*",
)
"""Files beside /proc/sys that a tuner may change."""

JOURNAL = "/var/lib/corelane/node-tuner/journal.json"

MOVING = re.compile(
    "/proc/sys/(fs/(aio-nr|dentry-state|file-nr|inode-(nr|state))|net/netfilter/nf_conntrack_count|"
    "kernel/(ns_last_pid|perf_event_max_sample_rate|pty/nr|random/.*)|vm/min_free_kbytes)$"
)
"""Sysctls that the kernel itself changes; the last one whenever huge pages are switched on."""


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    status: int
    output: str
    errors: str


def _installed(tool: str) -> Path:
    """The folder with a tool and what else is in its packages."""
    return resolve.ensure([tool])[tool].parent.parent


def _system() -> Path:
    """The folder with the kernel, its modules and busybox."""
    return _installed("busybox")


def _qemu(accelerator: str, archive: Path, append: str, *more: object) -> list[object]:
    (kernel,) = (_system() / "boot").glob("vmlinuz-*")
    # AMD's leaves say nothing of threads unless QEMU is told to add them; Intel's do.
    cpu = "host" if accelerator == "kvm" else "max,vendor=GenuineIntel"
    return [
        resolve.ensure(["qemu-system-x86_64"])["qemu-system-x86_64"],
        *("-accel", accelerator, "-cpu", cpu),
        *("-kernel", kernel, "-initrd", archive, "-append", append, *more),
    ]


@cache
def accelerator() -> str:
    """What runs guests here: `kvm` if one answers soon, as the device alone proves nothing; else `tcg`."""
    with tempfile.TemporaryDirectory() as folder:
        archive, console = Path(folder, "initramfs"), Path(folder, "console")
        archive.write_bytes(initramfs.build([_system() / "bin/busybox"]))
        flags = ("-nodefaults", "-display", "none", "-no-reboot", "-m", "512M")
        # What is no parameter of the kernel is an argument of its first process.
        argv = _qemu("kvm", archive, f"{APPEND} probe", *flags, "-serial", f"file:{console}")
        try:
            subprocess.run(argv, capture_output=True, timeout=PROBE, check=False)
        except subprocess.TimeoutExpired:
            return "tcg"
        answered = console.exists() and "a guest answers" in console.read_text(errors="replace")
        return "kvm" if answered else "tcg"


class Machine:
    """One machine; `start` boots it anew."""

    def __init__(
        self,
        folder: Path,
        *programs: Path,
        hardware: Hardware = Hardware(),
        files: Iterable[Path] = (),
    ) -> None:
        self.console = folder / "console.log"
        self._folder = folder
        self._hardware = hardware
        self._process: subprocess.Popen[bytes] | None = None
        self._sharing: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._modules = initramfs.modules(_system() / "lib/modules")
        # Without what only debuggers read they are a third as large, and the kernel unpacks them sooner.
        for each in programs:
            subprocess.run(["strip", "-o", folder / each.name, each], check=True)
        stripped = [_system() / "bin/busybox", *(folder / each.name for each in programs)]
        loaded = [*DRIVERS, *(self._for_cluster() if hardware.host else ())]
        content = initramfs.build(stripped, files, self._modules, loaded, LATER)
        (folder / "initramfs").write_bytes(content)

    def start(self) -> None:
        """Boots; it answers commands then."""
        if self._hardware.host:
            self._share_files()
        path = self._folder / "commands.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            path.unlink(missing_ok=True)
            listener.bind(str(path))
            listener.listen()
            self._process = subprocess.Popen(
                _qemu(
                    accelerator(),
                    self._folder / "initramfs",
                    f"{APPEND} host=1" if self._hardware.host else APPEND,
                    *MACHINE,
                    *self._hardware.flags(),
                    *(self._files() if self._hardware.host else ()),
                    *("-serial", f"file:{self.console}"),
                    *("-chardev", f"socket,id=commands,path={path}"),
                ),
                stdin=subprocess.DEVNULL,
                process_group=0,
            )
            listener.settimeout(BOOT)
            self._channel, _ = listener.accept()
        self.run("true", patience=BOOT)

    def end(self) -> None:
        """Switches it off."""
        if self._channel:
            self._channel.close()
        for process in (self._process, self._sharing):
            if process:
                process.kill()
                process.wait()

    def restart(self) -> None:
        """Switches it off and on: all that it had in memory is gone."""
        self.end()
        self.start()

    def _for_cluster(self) -> list[str]:
        """Modules of a machine with the tests' file system."""
        filters = sorted(name for name in self._modules if name.startswith("nft_"))
        return [*HOST, *CLUSTER, *filters]

    def _share_files(self) -> None:
        """Starts what gives the machine the tests' file system, which is read-only there."""
        source, listener = self._folder / "files", self._folder / "files.sock"
        source.mkdir(exist_ok=True)
        listener.unlink(missing_ok=True)
        qemu = _installed("qemu-system-x86_64")
        options = f"source={source},cache=always,sandbox=chroot,xattr"
        script = 'mount --bind / "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
        argv = ["unshare", "--mount", "sh", "-c", script, source, qemu / "usr/lib/qemu/virtiofsd"]
        with (self._folder / "files.log").open("wb") as log:
            self._sharing = subprocess.Popen(
                [*argv, f"--socket-path={listener}", "-o", options],
                env={**os.environ, "LD_LIBRARY_PATH": debian.libraries(qemu)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        eventually(listener.exists, f"{listener}; see {log.name}")

    def _files(self) -> list[object]:
        """The flags of QEMU for the tests' file system."""
        device = "vhost-user-fs-pci,chardev=files,tag=host"
        where = f"socket,id=files,path={self._folder / 'files.sock'}"
        return ["-chardev", where, "-device", device]

    def run(self, script: str, patience: float = ANSWER) -> Result:
        """Runs lines of shell as root; the caller judges the result."""
        deadline = time.monotonic() + patience
        self._channel.sendall(base64.b64encode(script.encode()) + b"\n")
        received = b""
        while b"\n" not in received:
            received += self._receive(script, deadline)
        head, _, rest = received.partition(b"\n")
        status, *lengths = map(int, head.split())
        while len(rest) < sum(lengths):
            rest += self._receive(script, deadline)
        output, errors = rest[: lengths[0]], rest[lengths[0] :]
        return Result(status, output.decode(), errors.decode())

    def good(self, script: str, patience: float = ANSWER) -> str:
        """Runs lines of shell that must not fail; what they print."""
        result = self.run(f"set -e\n{script}", patience)
        assert result.status == 0, f"{script}: {result}"
        return result.output

    def read(self, path: str) -> str:
        """The content of a file."""
        return self.good(f"cat {shlex.quote(path)}")

    def write(self, path: str, content: str) -> None:
        """Writes a file, as `echo` does."""
        self.good(f"printf %s {shlex.quote(content)} >{shlex.quote(path)}")

    @contextmanager
    def loaded(self, module: str) -> Iterator[None]:
        """With a module of `LATER` and what it needs."""
        names = initramfs.in_order(self._modules, [module])
        absent = [name for name in names if self.run(f"[ -d /sys/module/{name} ]").status]
        try:
            for name in absent:
                self.good(f"insmod /lib/modules/{name}.ko")
            yield
        finally:
            for name in reversed(absent):
                self.run(f"rmmod {name}")

    def _receive(self, script: str, deadline: float) -> bytes:
        try:
            self._channel.settimeout(max(deadline - time.monotonic(), 0.001))
            if received := self._channel.recv(1 << 16):
                return received
            what = "it has ended"
        except (TimeoutError, ConnectionResetError) as error:
            what = f"no answer ({error})"
        said = "\n".join(self.console.read_text(errors="replace").splitlines()[-20:])
        raise AssertionError(f"{what}, running {script!r}; its console:\n{said}")


def snapshot(machine: Machine) -> dict[str, str]:
    """Every line of the files that a tuner may change, and of all sysctls beside them."""
    found = machine.run(f"grep -rs '' /proc/sys; grep -s '' {' '.join(OTHERS)}").output
    lines = [line.partition(":")[::2] for line in found.splitlines()]
    files: dict[str, str] = {}
    for file, line in lines:
        if not MOVING.match(file):
            files[file] = f"{files.get(file, '')}{line}\n"
    assert len(files) > 500, found
    return files


def tuner(machine: Machine, *words: str, status: int) -> Result:
    """Runs the node tuner to its end."""
    result = machine.run(f"node-tuner {' '.join(words)}")
    assert result.status == status, result
    return result


def rows(machine: Machine, *words: str, status: int) -> dict[str, dict]:
    """The settings that it reports, by name and target."""
    report = json.loads(tuner(machine, "--output=json", *words, status=status).output)
    return {f"{row['name']} {row['target']}".strip(): row for row in report["knobs"]}


def journal(machine: Machine) -> dict | None:
    """The journal, if there is one."""
    found = machine.run(f"cat {JOURNAL}")
    return json.loads(found.output) if found.status == 0 else None


@contextmanager
def booted_with(
    folder: Path, *programs: str, hardware: Hardware = Hardware(), files: Iterable[Path] = ()
) -> Iterator[Machine]:
    """A machine with these programs and copies of files, which runs until the end."""
    system = platform.freedesktop_os_release()["ID"], platform.machine()
    if system != ("debian", "x86_64") or not debian.usable():
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
    """The machine that tests share: each leaves it as it was."""
    with booted_with(tmp_path_factory.mktemp("machine"), "node-tuner") as machine:
        yield machine


@pytest.fixture
def machine(booted: Machine) -> Iterator[Machine]:
    """The machine, which has to be as it was when the journal's originals are back."""
    before = snapshot(booted)
    yield booted
    tuner(booted, "restore", status=0)
    assert snapshot(booted) == before
    assert journal(booted) is None


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with `LARGE`, our programs, and Python with what makes the nodes' cgroups; tests share it."""
    files = initramfs.python("cluster.cgroups", "socket")
    folder = tmp_path_factory.mktemp("large")
    programs = ("corelane-server", "node-tuner")
    with booted_with(folder, *programs, hardware=LARGE, files=files) as machine:
        machine.good("echo '+cpuset +cpu +memory' >/sys/fs/cgroup/cgroup.subtree_control")
        yield machine
