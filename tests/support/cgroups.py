"""Real cgroups for servers, and simulated nodes with /proc and /sys."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from stack import eventually
from stack.replica import Server
from support.node_agents import Pod

MOUNTED = Path("/sys/fs/cgroup")


def base(controller: str) -> Path:
    """v1: this process's own cgroup; v2: its parent."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    paths = {names: path for _, names, path in (line.split(":", 2) for line in lines)}
    for names, path in paths.items():
        if controller in names.split(","):
            return MOUNTED / controller / path[1:]
    if "" not in paths:
        raise FileNotFoundError(f"this process is in no cgroup of v2, nor in a {controller} of v1")
    own = MOUNTED / paths[""][1:]
    return own if own == MOUNTED else own.parent


class Cgroup:
    """A cgroup, which must be empty before it is removed."""

    def __init__(self, controller: str) -> None:
        self.controller = controller
        self.directory = base(controller) / f"corelane-test-{controller}-{os.getpid()}"
        self.directory.mkdir()

    def has(self, name: str) -> bool:
        return (self.directory / name).exists()

    def read(self, name: str) -> str:
        return (self.directory / name).read_text()

    def write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)

    def within(self) -> list[str]:
        """Runs a command inside, with the cgroup as its root, as in a container."""
        place = base(self.controller)
        while place.parent != MOUNTED.parent and not os.path.ismount(place):
            place = place.parent
        script = 'echo $$ >"$1/cgroup.procs" && mount --bind "$1" "$2" && shift 2 && exec "$@"'
        return ["unshare", "--mount", "sh", "-ec", script, "sh", str(self.directory), str(place)]

    def take(self, server: Server) -> None:
        self.write("cgroup.procs", str(server.pid))

    def remove(self) -> bool:
        """Returns false while the cgroup is busy, which it is for a moment after its last process
        has exited.
        """
        try:
            self.directory.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        return True


@contextmanager
def cgroup(controller: str, *files: str) -> Iterator[Cgroup]:
    """Yields a cgroup with one of these files, or skips the test if that is impossible."""
    try:
        made = Cgroup(controller)
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        if not any(made.has(file) for file in files):
            pytest.skip(f"cgroups here have no {controller}")
        yield made
    finally:
        eventually(made.remove)


@dataclass(frozen=True)
class Cgroups:
    """A temporary tree in one of the layouts of kubelets and kernels."""

    mounted: Path
    unified: bool
    """cgroup v2."""
    systemd: bool
    """The kubelet's driver: systemd or cgroupfs."""
    root: str = ""

    def __post_init__(self) -> None:
        for hierarchy in self._hierarchies():
            (hierarchy / self.root).mkdir(parents=True, exist_ok=True)
        if self.unified:
            (self.mounted / "cgroup.controllers").write_text("cpuset cpu memory pids\n")

    def _hierarchies(self) -> list[Path]:
        if self.unified:
            return [self.mounted]
        return [self.mounted / name for name in ("cpuset", "cpuacct", "cpu")]

    def put(self, pod: Pod, cpus: str, *pids: int, quality: str = "", below: str = "") -> None:
        """Adds a container with its CPUs and processes. Some runtimes nest a cgroup."""
        folder = self._pod(pod, quality)
        container = f"cri-containerd-{pod.id}.scope" if self.systemd else pod.id
        for hierarchy in self._hierarchies():
            (hierarchy / folder / container / below).mkdir(parents=True, exist_ok=True)
        members = "".join(f"{pid}\n" for pid in pids)
        (self._hierarchies()[0] / folder / container / "cgroup.procs").write_text("")
        (self._hierarchies()[0] / folder / container / below / "cgroup.procs").write_text(members)
        file = "cpuset.cpus.effective" if self.unified else "cpuset.cpus"
        (self._hierarchies()[0] / folder / container / file).write_text(f"{cpus}\n")
        for level in (folder, folder / container):
            self._quota(level, -1, 0)

    def quota(self, pod: Pod, microseconds: int, throttled: int, of: str = "container") -> None:
        """Sets the quota of the container or its pod; -1 removes the limit."""
        folder = self._pod(pod, "")
        container = f"cri-containerd-{pod.id}.scope" if self.systemd else pod.id
        self._quota(folder / container if of == "container" else folder, microseconds, throttled)

    def used(self, pod: Pod, microseconds: int) -> None:
        container = f"cri-containerd-{pod.id}.scope" if self.systemd else pod.id
        folder = self._pod(pod, "") / container
        if self.unified:
            (self.mounted / folder / "cpu.stat").write_text(f"usage_usec {microseconds}\n")
        else:
            usage = self.mounted / "cpuacct" / folder / "cpuacct.usage"
            usage.write_text(f"{microseconds * 1000}\n")

    def sandbox(self, pod: Pod, pid: int, quality: str = "") -> None:
        """The pause process, which the API does not list."""
        name = "cri-containerd-sandbox.scope" if self.systemd else "5a4d0b0e"
        folder = self._hierarchies()[0] / self._pod(pod, quality) / name
        folder.mkdir(parents=True)
        (folder / "cgroup.procs").write_text(f"{pid}\n")

    def _quota(self, level: Path, microseconds: int, throttled: int) -> None:
        folder = self._hierarchies()[-1] / level
        if self.unified:
            limit = "max" if microseconds < 0 else str(microseconds)
            (folder / "cpu.max").write_text(f"{limit} 100000\n")
        else:
            (folder / "cpu.cfs_quota_us").write_text(f"{microseconds}\n")
            (folder / "cpu.cfs_period_us").write_text("100000\n")
        (folder / "cpu.stat").write_text(f"nr_periods 9\nnr_throttled {throttled}\n")

    def _pod(self, pod: Pod, quality: str) -> Path:
        if not self.systemd:
            return Path(self.root, "kubepods", quality, f"pod{pod.uid}")
        uid = pod.uid.replace("-", "_")
        slices = ["kubepods", *([quality] if quality else [])]
        nested = ["-".join(slices[: count + 1]) + ".slice" for count in range(len(slices))]
        return Path(self.root, *nested, "-".join([*slices, f"pod{uid}"]) + ".slice")


@dataclass(frozen=True)
class Machine:
    """A simulated /proc and /sys."""

    root: Path

    def process(
        self, pid: int, *threads: str, name: str = "server", files: str = "1048576"
    ) -> None:
        folder = self.root / "proc" / str(pid)
        for number, cpus in enumerate(threads):
            task = folder / "task" / str(pid + number)
            task.mkdir(parents=True, exist_ok=True)
            (task / "status").write_text(f"Name:\t{name}\nCpus_allowed_list:\t{cpus}\n")
        (folder / "comm").write_text(f"{name}\n")
        (folder / "limits").write_text(
            "Limit                     Soft Limit           Hard Limit           Units     \n"
            f"Max open files            {files:<20} {files:<20} files     \n"
        )

    def cpus(self, siblings: dict[int, str]) -> None:
        """Maps each CPU to its siblings."""
        for cpu, each in siblings.items():
            folder = self.root / f"sys/devices/system/cpu/cpu{cpu}/topology"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "thread_siblings_list").write_text(f"{each}\n")

    def device(self, name: str, interrupts: dict[int, str]) -> None:
        """A virtio device and the interrupts of its transport, with their CPUs."""
        carrier = self.root / "sys/devices/pci0/0000:00:03.0"
        (carrier / "virtio0").mkdir(parents=True, exist_ok=True)
        (carrier / "msi_irqs").mkdir(exist_ok=True)
        bus = self.root / "sys/bus/virtio"
        bus.mkdir(parents=True, exist_ok=True)
        if not (carrier / "virtio0/subsystem").is_symlink():
            (carrier / "virtio0/subsystem").symlink_to("../../../../bus/virtio")
        interface = self.root / "sys/class/net" / name
        interface.mkdir(parents=True, exist_ok=True)
        if not (interface / "device").is_symlink():
            (interface / "device").symlink_to("../../../devices/pci0/0000:00:03.0/virtio0")
        for number, cpus in interrupts.items():
            (carrier / "msi_irqs" / str(number)).write_text("msix\n")
            self.interrupt(number, cpus)

    def interrupt(self, number: int, cpus: str) -> None:
        folder = self.root / "proc/irq" / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "effective_affinity_list").write_text(f"{cpus}\n")
        (folder / "smp_affinity_list").write_text("0-63\n")
