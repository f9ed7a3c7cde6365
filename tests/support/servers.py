"""The server's own process, alone: the fixtures `binary`, `start` and `server`."""

import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import PATIENCE, REPOSITORY, eventually
from support.client import ask
from support.processes import free_ports, program

STATIC = REPOSITORY / "services/server/static"


@dataclass
class Server:
    """One process and where it listens."""

    process: subprocess.Popen[str]
    url: str
    admin: str

    def ready(self) -> bool:
        """Whether the readiness probe would pass."""
        assert self.process.poll() is None, self.process.communicate()
        try:
            return ask(self.admin, "/readyz").status == 200
        except OSError:
            return False

    def metrics(self) -> dict[str, float]:
        """Every series with its labels, as the admin port shows it."""
        lines = ask(self.admin, "/metrics").body.decode().splitlines()
        # An exemplar may follow.
        series = (line.partition(" # {")[0] for line in lines if not line.startswith("#"))
        pairs = (line.rsplit(" ", 1) for line in series)
        return {series: float(value) for series, value in pairs}

    def stop(self) -> None:
        """Stops the process until SIGCONT, and waits until none of its threads runs any more."""
        self.process.send_signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{self.process.pid}/task")

        def stopped() -> bool:
            # proc(5): the state follows the name, which is in brackets.
            states = [
                (task / "stat").read_text().rpartition(") ")[2][0] for task in tasks.iterdir()
            ]
            return set(states) == {"T"}

        eventually(stopped)

    def end(self) -> tuple[int, str]:
        """Waits for the end: exit code and what was logged."""
        _, log = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, log


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
    """Starts servers on free ports; what still runs at the end of a test is killed."""
    started: list[Server] = []

    def run(
        *flags: str,
        replica: str = "test",
        static: Path = STATIC,
        address: str = "127.0.0.1",
        within: Sequence[str] = (),
        wait: bool = True,
    ) -> Server:
        """`within` is a command that runs the server's own; `wait` is for readiness."""
        first = free_ports(2, address)
        listen = ["--listen", f"{address}:{first}", "--admin.listen", f"{address}:{first + 1}"]
        argv = [*within, binary, *listen, "--replica", replica, "--static.root", static, *flags]
        process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        server = Server(process, f"http://{address}:{first}", f"http://{address}:{first + 1}")
        started.append(server)
        if wait:
            eventually(server.ready)
        return server

    yield run
    for server in started:
        server.process.kill()
        server.process.wait()
        server.process.stderr.close()


@pytest.fixture(scope="module")
def server(binary: Path) -> Iterator[Server]:
    """One server for the tests of a module that leave it as it was."""
    maker = start.__wrapped__(binary)
    run = next(maker)
    yield run()
    next(maker, None)
