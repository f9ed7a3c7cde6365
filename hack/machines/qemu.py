"""Command lines of virtual machines."""

import platform
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from machines import initramfs
from tools import debian, resolve

DRIVERS = ("virtio_pci", "virtio_console", "virtio_net", "vmxnet3")
LATER = ("nf_conntrack",)

HOST = ("overlay", "virtiofs")
CLUSTER = ("bridge", "veth", "nft_chain_nat", "virtio_blk", "sch_netem")
"""Modules that a cluster needs, including every `nft_` module, because the guest's kernel cannot
find modules by itself.
"""

PROBE = 5.0
"""Response timeout of a KVM guest in seconds; Debian's kernel needs about one second."""

BARE = ("-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35")

# While emulated CPUs are waiting for a real one, late timers in the guest are not a defect. Without
# tsc=reliable, the guest considers the TSC unstable and reads the HPET, which takes twice as long.
# By default, Debian's kernel zeroes all memory it allocates.
PATIENT = "mitigations=off no_timer_check nowatchdog tsc=reliable init_on_alloc=0 rcupdate.rcu_cpu_stall_timeout=300"
APPEND = f"console=ttyS0 quiet panic=-1 {PATIENT}"

# AMD's CPUID leaves describe threads only if QEMU adds them; Intel's always do. With emulated AVX,
# a hash takes 2.4 times as long. With erms, the kernel clears pages by `rep stosb`, which QEMU
# emulates byte by byte, so a new page takes twice as long.
EMULATED = "max,vendor=GenuineIntel,avx=off,erms=off,fsrm=off"

FILES = "files.sock"
COMMANDS = "commands.sock"
"""Sockets in a machine's folder: for its shared file system, and for commands."""


@dataclass(frozen=True)
class Hardware:
    cpus: str = "2"
    nodes: tuple[str, ...] = ()
    memory: int = 640
    """In MiB. With less than 512 MiB, the kernel boots without transparent huge pages."""
    host: bool = False

    def flags(self) -> list[str]:
        flags = ["-smp", self.cpus, "-m", f"{self.memory}M"]
        # The process that shares files reads and writes the guest's memory.
        kind = "memory-backend-memfd,share=on" if self.host else "memory-backend-ram"
        for node, cpus in enumerate(self.nodes):
            part = f"{kind},id=m{node},size={self.memory // len(self.nodes)}M"
            flags += ["-object", part, "-numa", f"node,nodeid={node},cpus={cpus},memdev=m{node}"]
        return flags


def usable() -> bool:
    """Whether these machines' kernel is available here: Debian's for x86-64, as root."""
    system = platform.freedesktop_os_release()["ID"], platform.machine()
    return system == ("debian", "x86_64") and debian.usable()


def _installed(tool: str) -> Path:
    """The folder with a tool and the other content of its packages."""
    return resolve.tool(tool).parent.parent


def _system() -> Path:
    return _installed("busybox")


def busybox() -> Path:
    """All programs of a machine without this machine's file system."""
    return _system() / "bin/busybox"


def archive(hardware: Hardware, programs: Iterable[Path] = (), files: Iterable[Path] = ()) -> bytes:
    modules = modules_of_kernel()
    loaded = [*DRIVERS]
    if hardware.host:
        loaded += [*HOST, *CLUSTER, *sorted(name for name in modules if name.startswith("nft_"))]
    return initramfs.build([busybox(), *programs], files, modules, loaded, LATER)


@cache
def modules_of_kernel() -> dict[str, Path]:
    return initramfs.modules(_system() / "lib/modules")


def command(accelerator: str, archive: Path, append: str, *more: object) -> list[object]:
    (kernel,) = (_system() / "boot").glob("vmlinuz-*")
    cpu = "host" if accelerator == "kvm" else EMULATED
    return [
        resolve.tool("qemu-system-x86_64"),
        *("-accel", accelerator, "-cpu", cpu),
        *("-kernel", kernel, "-initrd", archive, "-append", append, *more),
    ]


@cache
def accelerator() -> str:
    """`kvm` if a guest responds soon, and otherwise `tcg`. The existence of the device alone proves
    nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        archive, console = Path(folder, "initramfs"), Path(folder, "console")
        archive.write_bytes(initramfs.build([busybox()]))
        flags = ("-nodefaults", "-display", "none", "-no-reboot", "-m", "512M")
        # The kernel passes unknown parameters to its first process.
        argv = command("kvm", archive, f"{APPEND} probe", *flags, "-serial", f"file:{console}")
        try:
            subprocess.run(argv, capture_output=True, timeout=PROBE, check=False)
        except subprocess.TimeoutExpired:
            return "tcg"
        answered = console.exists() and "a guest answers" in console.read_text(errors="replace")
        return "kvm" if answered else "tcg"


def sharing(folder: Path) -> tuple[list[object], dict[str, str]]:
    """A command that shares this machine's file system with a guest, read-only, and its
    environment.

    The guest sees changes after a second. With cache=auto, it would read a program again at each
    start.
    """
    source = folder / "files"
    source.mkdir(exist_ok=True)
    (folder / FILES).unlink(missing_ok=True)
    qemu = _installed("qemu-system-x86_64")
    options = f"source={source},cache=always,timeout=1,sandbox=chroot,xattr"
    script = 'mount --bind / "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", script, source, qemu / "usr/lib/qemu/virtiofsd"]
    argv += [f"--socket-path={folder / FILES}", "-o", options]
    return argv, {"LD_LIBRARY_PATH": debian.libraries(qemu)}


def shared(folder: Path) -> list[object]:
    device = "vhost-user-fs-pci,chardev=files,tag=host"
    return ["-chardev", f"socket,id=files,path={folder / FILES}", "-device", device]


def commands(folder: Path, *options: str) -> list[object]:
    where = ",".join((f"socket,id=commands,path={folder / COMMANDS}", *options))
    port = ("-device", "virtio-serial-pci", "-device", "virtserialport,chardev=commands")
    return ["-chardev", where, *port]
