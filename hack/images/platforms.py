"""Image architectures, their names elsewhere, and the loader and libraries of programs."""

import platform
import re
from dataclasses import dataclass
from pathlib import Path

from tools import command
from tools.errors import ToolError


@dataclass(frozen=True)
class Platform:
    arch: str
    machine: str
    rust: str
    gcc: str
    cross_packages: tuple[str, ...]
    wheel: str
    library_folder: str
    loader: str


PLATFORMS = {
    each.arch: each
    for each in (
        Platform(
            arch="amd64",
            machine="x86_64",
            rust="x86_64-unknown-linux-gnu",
            gcc="x86_64-linux-gnu-gcc",
            cross_packages=("gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross"),
            wheel="x86_64",
            library_folder="x86_64-linux-gnu",
            loader="/lib64/ld-linux-x86-64.so.2",
        ),
        Platform(
            arch="arm64",
            machine="aarch64",
            rust="aarch64-unknown-linux-gnu",
            gcc="aarch64-linux-gnu-gcc",
            cross_packages=("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"),
            wheel="aarch64",
            library_folder="aarch64-linux-gnu",
            loader="/lib/ld-linux-aarch64.so.1",
        ),
    )
}


def find(arch: str) -> Platform:
    if arch not in PLATFORMS:
        raise ToolError(f"unknown architecture {arch!r}: choose from {', '.join(PLATFORMS)}")
    return PLATFORMS[arch]


def native() -> Platform:
    machine = platform.machine()
    for each in PLATFORMS.values():
        if each.machine == machine:
            return each
    raise ToolError(f"unsupported machine {machine}: use --arch with one of {', '.join(PLATFORMS)}")


MACHINES = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}


@dataclass(frozen=True)
class Program:
    machine: str
    interpreter: str
    needed: tuple[str, ...]


def read(file: Path) -> Program:
    """Reads a program's headers with readelf, from the C compiler's binutils."""
    argv = ["readelf", "--wide", "--file-header", "--program-headers", "--dynamic", file]
    headers = command.output(argv, env={"LC_ALL": "C"})
    machine = re.search(r"^ *Machine: *(.+)$", headers, re.MULTILINE)[1]
    interpreter = re.search(r"Requesting program interpreter: (\S+)]", headers)
    needed = re.findall(r"\(NEEDED\) .*\[(.+)]$", headers, re.MULTILINE)
    return Program(
        MACHINES.get(machine, machine), interpreter[1] if interpreter else "", tuple(needed)
    )
