"""The architectures of images, and their names elsewhere."""

import platform
from dataclasses import dataclass

from tools.errors import ToolError


@dataclass(frozen=True)
class Platform:
    """One architecture. `arch` is its name in OCI images, Go and Debian."""

    arch: str
    machine: str
    """As in `uname -m`."""
    rust: str
    gcc: str
    cross_packages: tuple[str, ...]
    """Debian's packages that bring `gcc` on a machine of another architecture."""
    wheel: str
    library_folder: str
    """Debian's multiarch folder."""
    loader: str
    """The interpreter that dynamic programs name."""


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
    """The platform of that name."""
    if arch not in PLATFORMS:
        raise ToolError(f"unknown architecture {arch!r}: choose from {', '.join(PLATFORMS)}")
    return PLATFORMS[arch]


def native() -> Platform:
    """The platform of this machine."""
    machine = platform.machine()
    for each in PLATFORMS.values():
        if each.machine == machine:
            return each
    raise ToolError(f"unsupported machine {machine}: use --arch with one of {', '.join(PLATFORMS)}")
