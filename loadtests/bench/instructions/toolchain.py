"""What the server is built with, and whether this machine can count."""

import platform
import re
import subprocess
from pathlib import Path


def found() -> dict[str, str]:
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
