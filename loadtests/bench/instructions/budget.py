"""What a request may take, by row, the toolchain that this is of, and whether this machine can count."""

import platform
import re
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("budget.toml")

LIMIT = 1.03
"""Most instructions of a request, in those of the table."""

HEAD = '# Written by `make bench BENCH="instructions --publish"`; `make check-instructions` compares with it.'


@dataclass(frozen=True)
class Budget:
    """The committed table."""

    toolchain: Mapping[str, str]
    instructions: Mapping[str, int]

    @classmethod
    def read(cls, file: Path) -> "Budget":
        """The one of a file."""
        return cls(**tomllib.loads(file.read_text()))

    def write(self, file: Path) -> None:
        """Writes it, in the order of the rows."""
        versions = [f'{name} = "{version}"' for name, version in self.toolchain.items()]
        rows = [f'"{name}" = {count}' for name, count in self.instructions.items()]
        lines = [HEAD, "[toolchain]", *versions, "", "[instructions]", *rows]
        file.write_text("\n".join(lines) + "\n")

    def fits(self, name: str, count: int) -> bool:
        """Whether a row's count is within the limit; a row that is not there does not fit."""
        known = self.instructions.get(name)
        return known is not None and count <= LIMIT * known

    def other_toolchain(self, versions: Mapping[str, str]) -> list[str]:
        """What differs from that of the table."""
        return [
            f"{name} {versions.get(name)} where the table has {version}"
            for name, version in self.toolchain.items()
            if versions.get(name) != version
        ]


def toolchain() -> dict[str, str]:
    """Its own compiler, that of the allocator and the database, and the C library."""
    return {
        "rustc": _version("rustc", "--version"),
        "cc": _version("cc", "-dumpfullversion"),
        "glibc": platform.libc_ver()[1],
    }


def _version(*argv: str) -> str:
    result = subprocess.run(argv, capture_output=True, text=True, check=True)
    return re.search(r"\d+(\.\d+)+", result.stdout)[0]


def unfit() -> str:
    """Why the table is not of this machine, if so."""
    if platform.machine() != "x86_64":
        return f"the table is of x86-64, this machine is {platform.machine()}"
    if not re.search(r"^flags\b.* avx2\b", Path("/proc/cpuinfo").read_text(), re.MULTILINE):
        return "the table is of CPUs with AVX2, which this one lacks"
    return ""
