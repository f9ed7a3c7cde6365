"""CLUSTER=vm: each node is a QEMU virtual machine with its own kernel, disk and clock.

A virtual machine boots with a read-only view of this machine's file system and starts the node's
programs by itself. Its disk stores only files below the node's folder; all other writes stay in
memory, and a reboot discards them.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from cluster import components, network, records
from cluster.certificates import Certificates
from cluster.components import NodeFiles
from cluster.plan import CONTROL, Node, Plan
from cluster.programs import Programs
from cluster.settings import FOLDER
from machines import qemu
from stack import in_time
from tools.errors import ToolError

CPUS = 2
HARDWARE = qemu.Hardware(str(CPUS), (f"0-{CPUS - 1}",), 3072, host=True)
HOST = Path("/host")
"""Mount point of this machine's current file system in the virtual machines."""

DISK = 8 * 1024**3
"""Size of a node's disk in bytes; the file is sparse."""

SHARING = 60.0
"""Time limit in seconds for sharing a machine's file system."""


def folder(state: Path, name: str) -> Path:
    return state / "machines" / name


def inside(state: Path, name: str) -> list[str]:
    return [
        sys.executable,
        str(FOLDER.parent / "machines"),
        str(folder(state, name) / qemu.COMMANDS),
    ]


class Machines:
    def __init__(
        self, plan: Plan, record: records.Record, programs: Programs, certs: Certificates
    ) -> None:
        self.plan, self.record, self.programs, self.certs = plan, record, programs, certs
        self.state = record.file.parent

    def make(self, node: Node, files: NodeFiles) -> None:
        """Creates a machine's disk, its boot files, and the list of programs to start."""
        place = folder(self.state, node.name)
        place.mkdir(parents=True)
        disk = place / "disk"
        disk.touch()
        os.truncate(disk, DISK)
        subprocess.run(["mkfs.ext4", "-q", disk], check=True)
        (place / "initramfs").write_bytes(qemu.archive(HARDWARE))
        (place / "start").write_text(self._script(node, files))
        (place / "start").chmod(0o755)

    def _script(self, node: Node, files: NodeFiles) -> str:
        variables = {"NODE": node.name, "FOLDER": str(files.folder), "SOCKET": str(files.socket)}
        variables |= self.programs.environment()
        lines = [f"export {key}={shlex.quote(value)}" for key, value in variables.items()]
        link = "; ".join(f"ip {words}" for words in network.of_node(self.plan, node))
        lines.append(f"link() {{ {link}; }}")
        for name, words in components.node_arguments(node, files, self.certs).items():
            argv = shlex.join([str(self.programs[name]), *words])
            lines.append(f"{name}() {{ {argv}; }}")
        return "\n".join(
            ["#!/usr/bin/env bash", *lines, f". {shlex.quote(str(FOLDER / 'machine.sh'))}", ""]
        )

    def start(self, node: Node, control: int) -> None:
        """Starts a machine whose link is in the control plane's namespace."""
        place = folder(self.state, node.name)
        argv, environment = qemu.sharing(place)
        environment = {**self.programs.environment(), **environment}
        self.record.start(f"{node.name}-files", argv, environment)
        if not in_time((place / qemu.FILES).exists, SHARING):
            log = records.log(self.state, f"{node.name}-files")
            raise ToolError(f"{node.name} has no file system: see {log}")
        number = self.plan.nodes.index(node) + 1
        argv = qemu.command(
            qemu.accelerator(),
            place / "initramfs",
            f"{qemu.APPEND} host=1 start={place / 'start'}",
            *qemu.BARE,
            *HARDWARE.flags(),
            *qemu.shared(place),
            *("-drive", f"file={place / 'disk'},format=raw,if=virtio,discard=unmap"),
            *("-netdev", f"tap,id=eth0,ifname={node.name},script=no,downscript=no,queues={CPUS}"),
            *("-device", f"virtio-net-pci,netdev=eth0,mq=on,mac=52:54:00:00:00:0{number},romfile="),
            *("-serial", f"file:{records.log(self.state, f'{node.name}-console')}"),
            *qemu.commands(place, "server=on", "wait=off"),
        )
        self.record.start(node.name, [*network.inside(control), *argv], self.programs.environment())


def restart(plan: Plan, record: records.Record, programs: Programs, name: str) -> None:
    certs = Certificates(record.file.parent, programs["openssl"])
    machines = Machines(plan, record, programs, certs)
    (node,) = (node for node in plan.nodes if node.name == name)
    machines.start(node, record.content["processes"][CONTROL]["pid"])
