"""The shared libraries of a program, except those of every Linux."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

EVERYWHERE = re.compile(
    r"(libc|libm|libdl|librt|libpthread|libresolv|libcrypt|libgcc_s|ld-linux.*)\.so"
)
"""The C library, and what it depends on itself."""


def libraries(programs: Iterable[Path]) -> list[Path]:
    """Those that the dynamic linker finds for programs and modules (ldd(1))."""
    found = set()
    for program in programs:
        result = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
        found |= {Path(path).resolve() for path in re.findall(r"=> (/\S+)", result.stdout)}
    return sorted(path for path in found if not EVERYWHERE.match(path.name))
