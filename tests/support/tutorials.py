"""A reader who types the commands of the documentation."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from local.settings import VARIABLES
from stack import REPOSITORY
from stack.ports import free_ports


def blocks(page: str, heading: str = "") -> list[str]:
    text = (REPOSITORY / page).read_text()
    if heading:
        _, text = text.split(f"\n{heading}\n", 1)
        text = re.split(r"^## ", text, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def answered(output: str) -> tuple[set[str], int]:
    """Replicas and request count in the output of docs/own-service.md, section 2."""
    rows = [line.split() for line in output.splitlines()]
    assert all(row[1] == "corelane-replica:" for row in rows), output
    return {row[2] for row in rows}, sum(int(row[0]) for row in rows)


def two_replicas() -> dict[str, str]:
    """Environment for a platform with two replicas and its own ports."""
    first = free_ports(9)
    names = [*VARIABLES][:-2]
    return {
        **{name: str(first + index) for index, name in enumerate(names)},
        "REPLICA_PORT": str(first + 5),
        "REPLICA_ADMIN_PORT": str(first + 7),
        "REPLICAS": "2",
    }


@dataclass
class Reader:
    """Types one block at a time, in one or more shells."""

    home: Path
    blocks: list[str]
    environment: dict[str, str]
    instead: dict[str, str] = field(default_factory=dict)

    @property
    def gateway(self) -> str:
        return f"http://localhost:{self.environment['GATEWAY_PORT']}"

    def _next(self) -> str:
        block = self.blocks.pop(0)
        for name, other in {"localhost:8080": self.gateway[7:], **self.instead}.items():
            block = block.replace(name, other)
        return block

    def types(self) -> str:
        """Runs the next block without errors; returns its output."""
        state = self.home / "state"
        script = f"{self._next()}\nenv -0 >{state}"
        done = self._bash(script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        output, _ = done.communicate()
        assert done.returncode == 0, output
        self.environment = dict(
            each.split("=", 1) for each in state.read_text().split("\0") if each
        )
        return output

    @contextmanager
    def elsewhere(self) -> Iterator[tuple[Path, subprocess.Popen]]:
        """Runs the next block in another terminal; returns output file and shell."""
        file = self.home / f"{len(self.blocks)}.log"
        with file.open("wb") as output:
            shell = self._bash(
                self._next(), stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            yield file, shell
        finally:
            # Background jobs ignore SIGINT, and so would their children.
            os.killpg(shell.pid, signal.SIGTERM)
            shell.wait()

    def _bash(self, script: str, **options: object) -> subprocess.Popen:
        argv = ["bash", "-euo", "pipefail", "-c", script]
        return subprocess.Popen(argv, cwd=self.environment["PWD"], env=self.environment, **options)
