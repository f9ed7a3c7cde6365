"""The server's own process, alone: the fixtures `binary`, `start` and `server`."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from stack import PATIENCE, REPOSITORY, eventually
from stack.http import ask
from stack.ports import free_ports
from stack.programs import program

STATIC = REPOSITORY / "services/server/static"


@dataclass
class Server:
    """One process and where it listens."""

    process: subprocess.Popen[str]
    url: str
    admin: str
    log: IO[str]
    """What the process logs, in memory: a pipe that nobody reads would hold up its last lines."""

    def ready(self) -> bool:
        """Whether the readiness probe would pass."""
        assert self.process.poll() is None, self._logged()
        try:
            return ask(self.admin, "/readyz").status == 200
        except OSError:
            return False

    def metrics(self) -> dict[str, float]:
        """Every series with its labels, as the admin port shows it.

        One look after a reply of `ask` is enough for the request and for what its handler, its token
        and its faults count: the lane counts all of them before it writes the reply (`Turn::encode`).
        Only afterwards it counts the time of the write and logs the request.
        """
        lines = ask(self.admin, "/metrics").body.decode().splitlines()
        # An exemplar may follow.
        series = (line.partition(" # {")[0] for line in lines if not line.startswith("#"))
        pairs = (line.rsplit(" ", 1) for line in series)
        return {series: float(value) for series, value in pairs}

    def stop(self) -> None:
        """Stops the process until SIGCONT, and waits until none of its threads runs any more."""
        self.process.send_signal(signal.SIGSTOP)
        # proc(5): the state follows the name, which is in brackets.
        eventually(
            lambda: all(") T " in stat for _, stat in self._tasks("stat")), "stopped threads"
        )

    def threads(self) -> dict[str, Path]:
        """The folders of its threads in /proc by their names, which may be shared."""
        return {name.strip(): task for task, name in self._tasks("comm")}

    def end(self) -> tuple[int, str]:
        """Waits for the end: exit code and what was logged."""
        return self.process.wait(PATIENCE), self._logged()

    def _logged(self) -> str:
        self.log.seek(0)
        return self.log.read()

    def _tasks(self, file: str) -> Iterator[tuple[Path, str]]:
        """A file of each thread that has not ended; those for blocking calls end when they are idle."""
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                yield task, (task / file).read_text()


@pytest.fixture(scope="session")
def binary() -> Path:
    """The server's own program."""
    return program("corelane-server")


@pytest.fixture(scope="session")
def command() -> Path:
    """The command `corelane`."""
    return program("corelane")


@pytest.fixture
def start(binary: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers on free ports; what still runs at the end of a test is killed.

    They have two lanes unless flags say otherwise: with more on a larger machine they would need more
    connections to a database than it has.
    """
    started: list[Server] = []

    def run(
        *flags: str,
        replica: str = "test",
        static: Path = STATIC,
        address: str = "127.0.0.1",
        within: Sequence[str] = (),
        log: IO[str] | None = None,
        wait: bool = True,
    ) -> Server:
        """`within` is a command that runs the server's own; `wait` is for readiness.

        `log` takes the place of the usual file.
        """
        first = free_ports(2, address)
        listen = ["--listen", f"{address}:{first}", "--admin.listen", f"{address}:{first + 1}"]
        if not any(str(flag).startswith("--lanes") for flag in flags):
            flags = (*flags, "--lanes", "2")
        argv = [*within, binary, *listen, "--replica", replica, "--static.root", static, *flags]
        log = log or os.fdopen(os.memfd_create("log"), "w+")
        process = subprocess.Popen(argv, stderr=log, text=True)
        urls = (f"http://{address}:{first + index}" for index in range(2))
        server = Server(process, *urls, log)
        started.append(server)
        if wait:
            eventually(server.ready)
        return server

    yield run
    for server in started:
        server.process.kill()
        server.process.wait()
        server.log.close()


@pytest.fixture(scope="module")
def server(binary: Path) -> Iterator[Server]:
    """One server for the tests of a module that leave it as it was."""
    maker = start.__wrapped__(binary)
    run = next(maker)
    yield run()
    next(maker, None)
