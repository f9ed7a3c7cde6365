"""The servers in Rust: the floor, and the frameworks."""

from pathlib import Path

from loadtests.bench.field.contender import HELLO, Contender, Start, one_program
from loadtests.bench.lanes import builds


def _argv(program: Path, start: Start) -> list[str]:
    return [str(program), "--listen", start.address, "--threads", str(start.threads)]


CONTENDERS = [
    Contender(
        name="floor",
        family="floor",
        workloads=frozenset({HELLO}),
        settings="one epoll loop that writes a fixed reply: what the kernel alone costs",
        build=lambda profile: builds.build(builds.BENCH, ["floor"], profile) / "floor",
        argv=_argv,
        installed=one_program,
        version=lambda _program: builds.locked(builds.BENCH)["floor"],
        threads=False,
    )
]
