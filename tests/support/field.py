"""The contenders of `bench field`, as tests ask them."""

import os
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from loadtests.bench.experiment import builds
from loadtests.bench.field import stand
from loadtests.bench.field.contender import Contender
from loadtests.bench.field.contenders import CONTENDERS
from tools import command
from tools.errors import ToolError

FLOOR, REFERENCE = "floor", "corelane-server"

PEERS = builds.BENCH / "peers"

RUST = ("hyper", "may_minihttp", "actix_web")
"""Programs that cargo builds here."""


class Field:
    """The contenders that tests ask, each started when it is first asked for."""

    def __init__(self, binary: Path, stack: ExitStack) -> None:
        self._binary = binary
        self._stack = stack
        self._urls: dict[str, str] = {}

    def url(self, contender: Contender) -> str:
        """Where it answers."""
        if contender.name not in self._urls:
            start = stand.started(contender, self._program(contender), cpus()[:1])
            process = self._stack.enter_context(start)
            self._urls[contender.name] = f"http://{process.address}"
        return self._urls[contender.name]

    def _program(self, contender: Contender) -> Path:
        if contender.name == REFERENCE:
            return self._binary
        if contender.name == FLOOR:
            return contender.build("dev")
        program = find(contender.name)
        assert isinstance(program, Path)
        return program


@cache
def find(name: str) -> Path | str:
    """The program as it was built from the present sources, or why it is not there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "run", refuse)
        try:
            return newest(CONTENDERS[name])
        except (ToolError, OSError) as error:
            return str(error)


def refuse(argv: list[Any], *_: object, **__: object) -> None:
    """Builds nothing; cargo alone does not say whether it would."""
    if argv[0] != "cargo":
        raise ToolError(f"it takes {Path(argv[0]).name}")


def newest(contender: Contender) -> Path:
    """The program, of the profile of cargo's that was built last."""
    found = [contender.build(profile) for profile in ("release", "local", "dev")]
    there = [path for path in found if path.exists()]
    if not there:
        raise ToolError(f"there is no {found[0].name}")
    program = max(there, key=lambda path: path.stat().st_mtime)
    if program.name in RUST:
        files = [*PEERS.glob("rust/src/*.rs"), *PEERS.glob(f"rust/src/bin/{program.name}.rs")]
        if any(file.stat().st_mtime > program.stat().st_mtime for file in files):
            raise ToolError("its sources are newer than its program")
    return program


def cpus() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def is_there(name: str) -> bool:
    """Whether tests can ask it: what CI builds anyhow, and what was built before."""
    return name in (FLOOR, REFERENCE) or isinstance(find(name), Path)


def who_takes(*parts: str) -> pytest.MarkDecorator:
    """Asks each contender that is there and takes one of these."""
    takers = [name for name, one in CONTENDERS.items() if one.parts & set(parts)]
    return pytest.mark.parametrize("contender", list(filter(is_there, takers)), indirect=True)
