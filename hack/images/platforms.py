"""The architectures that images are built for, and what each is called elsewhere."""

import platform
from dataclasses import dataclass

from tools.errors import ToolError


@dataclass(frozen=True)
class Platform:
    """One architecture. `arch` is its name in OCI images, Go and Debian."""

    arch: str
    machine: str
    """In the ELF header (e_machine), see elf.py."""
    rust: str
    gcc: str
    cross_packages: tuple[str, ...]
    """Debian's packages that bring `gcc` on a machine of another architecture."""
    wheel: str
    library_folder: str
    """Debian's multiarch folder."""
    loader: str
    """What programs name as their interpreter."""


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
        raise ToolError(f"images are built for {', '.join(PLATFORMS)}, not for {arch!r}")
    return PLATFORMS[arch]


def native() -> Platform:
    """The platform of this machine."""
    machine = platform.machine()
    for each in PLATFORMS.values():
        if each.machine == machine:
            return each
    raise ToolError(f"this machine is {machine}; say --arch: {', '.join(PLATFORMS)}")
