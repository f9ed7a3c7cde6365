"""What a program is built for and needs to be loaded with, as readelf prints it."""

import re
from dataclasses import dataclass
from pathlib import Path

from tools import command

MACHINES = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}


@dataclass(frozen=True)
class Program:
    """An ELF file."""

    machine: str
    interpreter: str
    """The loader it names; empty for a static program."""
    needed: tuple[str, ...]
    """The shared libraries it names."""


def read(file: Path) -> Program:
    """Reads the headers of a program. readelf is a part of the C compiler's binutils."""
    argv = ["readelf", "--wide", "--file-header", "--program-headers", "--dynamic", file]
    headers = command.output(argv, env={"LC_ALL": "C"})
    machine = re.search(r"^ *Machine: *(.+)$", headers, re.MULTILINE)[1]
    interpreter = re.search(r"Requesting program interpreter: (\S+)]", headers)
    needed = re.findall(r"\(NEEDED\) .*\[(.+)]$", headers, re.MULTILINE)
    return Program(
        MACHINES.get(machine, machine), interpreter[1] if interpreter else "", tuple(needed)
    )
