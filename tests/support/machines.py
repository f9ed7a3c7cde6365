"""A disposable machine for what is machine-wide: a real kernel in software emulation, with commands from the test.

    def test_something(machine):
        assert machine.run("uname -s").output == "Linux\\n"

Nothing of the machine that runs the tests is changed, whatever they write there. It has two CPUs, a network
device with a queue for each (eth1) and one with a single queue (eth0), and no disk.
"""

import base64
import json
import platform
import re
import shlex
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.processes import program
from tools import debian, resolve

INIT = Path(__file__).parent / "machine" / "init"
FOLDERS = ("bin", "dev", "etc", "lib", "lib/modules", "proc", "root", "run", "sys", "tmp", "var")

# inode(7): the types of files.
FOLDER, DEVICE, FILE, LINK = 0o040755, 0o020600, 0o100755, 0o120777
CONSOLE = (5, 1)
"""The device number of /dev/console, without which the first process could say nothing."""


class Archive:
    """An archive that grows."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._folders: set[str] = set()

    def add(self, path: str, content: bytes, mode: int = FILE, device: tuple = (0, 0)) -> None:
        """Adds a file, with the folders above it."""
        for folder in reversed(Path(path).parents[:-1]):
            self.folder(str(folder))
        self._entry(path, content, mode, device)

    def folder(self, path: str) -> None:
        """Adds a folder, once."""
        if path not in self._folders:
            self._folders.add(path)
            self._entry(path, b"", FOLDER, (0, 0))

    def content(self) -> bytes:
        """The whole archive."""
        self._entry("TRAILER!!!", b"", 0, (0, 0))
        return b"".join(self._parts)

    def _entry(self, path: str, content: bytes, mode: int, device: tuple[int, int]) -> None:
        name = path.encode() + b"\0"
        # Inode, mode, owner, group, links, time, size, device, its own device number, length of the name, sum.
        fields = (len(self._parts) + 1, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
        self._parts += [_padded(head), _padded(content)]


def build(
    programs: list[Path], files: dict[str, Path], first: Iterable[str], later: Iterable[str]
) -> bytes:
    """An archive with programs in /bin and modules: the first are loaded, others can be `later`."""
    archive = Archive()
    for folder in FOLDERS:
        archive.folder(folder)
    archive.add("dev/console", b"", DEVICE, CONSOLE)
    archive.add("init", INIT.read_bytes())
    archive.add("bin/sh", b"busybox", LINK)
    loaded = in_order(files, first)
    archive.add("etc/modules", "".join(f"{name}\n" for name in loaded).encode())
    for name in dict.fromkeys([*loaded, *in_order(files, later)]):
        archive.add(f"lib/modules/{name}.ko", files[name].read_bytes())
    for library in sorted({path for each in programs for path in _libraries(each)}):
        archive.add(library.lstrip("/"), Path(library).read_bytes())
    for each in programs:
        archive.add(f"bin/{each.name}", each.read_bytes())
    return archive.content()


def modules(folder: Path) -> dict[str, Path]:
    """The modules of a kernel, by name."""
    return {file.stem.replace("-", "_"): file for file in folder.rglob("*.ko")}


def in_order(files: dict[str, Path], names: Iterable[str]) -> list[str]:
    """Modules with all that they need, in the order in which they can be loaded."""
    order: dict[str, None] = {}
    for name in names:
        # The section .modinfo of a module names those that it uses.
        field = re.search(rb"\0depends=([^\0]*)\0", files[name].read_bytes())
        needs = field[1].decode().replace("-", "_").split(",") if field else []
        order.update(dict.fromkeys(in_order(files, filter(None, needs))))
        order[name] = None
    return list(order)


def _libraries(program: Path) -> list[str]:
    """The loader and libraries that a program is started with; none for a static one."""
    found = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    return re.findall(r"(/\S+) \(0x", found.stdout)


def _padded(data: bytes) -> bytes:
    """Ends at a multiple of four bytes."""
    return data + bytes(-len(data) % 4)


BOOT = 180.0
"""Longest time in seconds for a boot; 4 s where nothing else runs."""

ANSWER = 120.0
"""Longest time in seconds for the answer to a command."""

DRIVERS = ("virtio_pci", "virtio_console", "virtio_net", "vmxnet3")
LATER = ("nf_conntrack",)
"""Modules that a test may load, by `load`."""

MACHINE = (
    *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
    *("-machine", "q35", "-accel", "tcg", "-cpu", "max", "-smp", "2"),
    # With less than 512 MiB the kernel begins without transparent huge pages.
    *("-m", "640M"),
    # No backend of QEMU gives a virtio device two queues without a device of this machine; vmxnet3 has its own.
    *("-netdev", "user,id=eth0,restrict=on", "-device", "virtio-net-pci,netdev=eth0,romfile="),
    *("-netdev", "user,id=eth1,restrict=on", "-device", "vmxnet3,netdev=eth1,romfile="),
    *("-device", "virtio-serial-pci", "-device", "virtserialport,chardev=commands"),
    *("-append", "console=ttyS0 quiet panic=-1"),
)


OTHERS = (
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/proc/irq/*/smp_affinity*",
    "/sys/class/net/*/queues/*/?ps_*",
)
"""Files beside /proc/sys that a tuner may change."""

JOURNAL = "/var/lib/corelane/node-tuner/journal.json"

MOVING = re.compile(
    "/proc/sys/(fs/(aio-nr|dentry-state|file-nr|inode-(nr|state))|net/netfilter/nf_conntrack_count|"
    "kernel/(ns_last_pid|perf_event_max_sample_rate|pty/nr|random/.*))$"
)
"""Sysctls that the kernel itself changes."""


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    status: int
    output: str
    errors: str


class Machine:
    """One machine; `start` boots it anew."""

    def __init__(self, folder: Path, program: Path) -> None:
        self.console = folder / "console.log"
        self._folder = folder
        self._busybox = resolve.ensure(["busybox"])["busybox"].parent.parent
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._modules = modules(self._busybox / "lib/modules")
        # Without what only debuggers read it is a third as large, and the kernel unpacks it sooner.
        subprocess.run(["strip", "-o", folder / program.name, program], check=True)
        programs = [self._busybox / "bin/busybox", folder / program.name]
        content = build(programs, self._modules, DRIVERS, LATER)
        (folder / "initramfs").write_bytes(content)

    def start(self) -> None:
        """Boots; it answers commands then."""
        (kernel,) = (self._busybox / "boot").glob("vmlinuz-*")
        path = self._folder / "commands.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            path.unlink(missing_ok=True)
            listener.bind(str(path))
            listener.listen()
            self._process = subprocess.Popen(
                [
                    resolve.ensure(["qemu-system-x86_64"])["qemu-system-x86_64"],
                    *MACHINE,
                    *("-kernel", kernel, "-initrd", self._folder / "initramfs"),
                    *("-serial", f"file:{self.console}"),
                    *("-chardev", f"socket,id=commands,path={path}"),
                ],
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
        if self._process:
            self._process.kill()
            self._process.wait()

    def restart(self) -> None:
        """Switches it off and on: all that it had in memory is gone."""
        self.end()
        self.start()

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

    def good(self, script: str) -> str:
        """Runs lines of shell that must not fail; what they print."""
        result = self.run(f"set -e\n{script}")
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
        names = in_order(self._modules, [module])
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


@pytest.fixture(scope="session")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """The machine that tests share: each leaves it as it was."""
    system = platform.freedesktop_os_release()["ID"], platform.machine()
    if system != ("debian", "x86_64") or not debian.usable():
        pytest.skip(
            "its kernel is Debian's for x86-64, which only root on such a system can obtain"
        )
    machine = Machine(tmp_path_factory.mktemp("machine"), program("node-tuner"))
    try:
        machine.start()
        yield machine
    finally:
        machine.end()


@pytest.fixture
def machine(booted: Machine) -> Iterator[Machine]:
    """The machine, which has to be as it was when the journal's originals are back."""
    before = snapshot(booted)
    yield booted
    tuner(booted, "restore", status=0)
    assert snapshot(booted) == before
    assert journal(booted) is None
