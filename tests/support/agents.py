"""The small programs of the images; `gateway-agent drain` as a gateway pod runs it."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from stack import PATIENCE, eventually
from stack.programs import program
from support.envoys import Gateway


def run(package: str, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end; the caller judges the result."""
    return subprocess.run(
        [program(package), *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@dataclass
class Drain:
    """A drain under way."""

    process: subprocess.Popen[bytes]
    log: Path

    def phases(self) -> dict[str, dict]:
        """The log lines so far, by what they say."""
        lines = self.log.read_text().splitlines(keepends=True)
        whole = [json.loads(line) for line in lines if line.endswith("\n")]
        return {line["message"]: line for line in whole}

    def wait_for(self, phase: str) -> dict:
        """The log line of a phase, waited for."""
        return eventually(lambda: self.phases().get(phase), phase)

    def end(self) -> tuple[int, dict]:
        """Waits for the end: the exit code and the last log line."""
        code = self.process.wait(timeout=PATIENCE)
        return code, list(self.phases().values())[-1]


@contextmanager
def drain(gateway: Gateway, log: Path, *flags: str) -> Iterator[Drain]:
    """Drains a gateway; what still runs at the end is killed."""
    admin = f"--admin={urlsplit(gateway.admin).netloc}"
    with command(log, "drain", admin, "--log-format=json", *flags) as running:
        yield running


@contextmanager
def command(log: Path, *arguments: str) -> Iterator[Drain]:
    """Starts the agent with these arguments."""
    with log.open("wb") as output:
        process = subprocess.Popen([program("gateway-agent"), *arguments], stderr=output)
    try:
        yield Drain(process, log)
    finally:
        process.kill()
        process.wait()
