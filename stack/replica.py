"""A replica: `corelane-server` as a process, its addresses, and the data on its admin port."""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stack import HOST, PATIENCE, REPOSITORY
from stack.http import ask, replies
from stack.ports import free_ports
from stack.process import Process
from tools.errors import ToolError

STATIC = REPOSITORY / "services/server/static"


class Server(Process):
    """The command line contains flags in pairs, as `command` writes them."""

    def __init__(
        self,
        name: str,
        argv: Sequence[object],
        folder: Path,
        ports: tuple[int, int],
        *,
        address: str = HOST,
        scheme: str = "http",
        **more: object,
    ) -> None:
        self.port, self.admin_port = ports
        self.url = f"{scheme}://{address}:{self.port}"
        self.admin = f"http://{HOST if scheme == 'https' else address}:{self.admin_port}"
        super().__init__(name, argv, folder, lambda: replies(self.admin, "/readyz"), **more)

    def start(self, *more: object, wait: bool = True) -> "Server":
        usual = self.argv
        self.argv = with_flags(usual, more)
        try:
            return super().start(wait=wait)
        finally:
            self.argv = usual

    def metrics(self) -> dict[str, float]:
        """Every series with its labels, from the admin port.

        One read after a response to `ask` includes the request and the counts of its handler, token
        and faults. The lane updates all of these counters before it writes the response. It then
        counts the time of the write and logs the request.
        """
        lines = ask(self.admin, "/metrics").body.decode().splitlines()
        # An exemplar may follow.
        series = (line.partition(" # {")[0] for line in lines if not line.startswith("#"))
        pairs = (line.rsplit(" ", 1) for line in series)
        return {series: float(value) for series, value in pairs}

    def faults(self, *faults: dict) -> None:
        """Replaces all injected faults (docs/faults.md); without arguments, clears them."""
        if not faults:
            reply = ask(self.admin, "/faults", "DELETE")
        else:
            body = json.dumps({"seed": 7, "faults": faults}).encode()
            reply = ask(self.admin, "/faults", "PUT", body=body)
        if reply.status not in (200, 204):
            raise ToolError(f"{self.name} rejects faults: {reply.status} {reply.body.decode()}")

    def end(self) -> tuple[int, str]:
        """Waits until the replica has exited; returns the exit code and the log."""
        return self.wait(PATIENCE), self.log.read_text()


def with_flags(argv: Sequence[object], more: Sequence[object]) -> list[str]:
    """Additional flags each have a value; the server rejects duplicates."""
    words = [str(word) for word in argv]
    for flag, value in zip(more[::2], more[1::2], strict=True):
        if flag in words:
            words[words.index(flag) + 1] = str(value)
        else:
            words += [str(flag), str(value)]
    return words


def command(
    program: Path,
    name: str,
    ports: tuple[int, int],
    *flags: object,
    address: str = HOST,
    static: Path = STATIC,
) -> list[object]:
    listen = ["--listen", f"{address}:{ports[0]}", "--admin.listen", f"{address}:{ports[1]}"]
    return [program, "--replica", name, *listen, "--static.root", static, *flags]


@contextmanager
def servers(program: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers on free ports; kills those still running at the end.

    Each server has two lanes unless flags set a different number: on a larger machine, more lanes
    would need more database connections than the database allows.
    """
    started: list[Server] = []

    def start(
        *flags: object,
        replica: str = "test",
        static: Path = STATIC,
        address: str = HOST,
        within: Sequence[str] = (),
        wait: bool = True,
        **more: object,
    ) -> Server:
        """Starts a server. `within` is a command that runs it; with `wait`, it is ready on return."""
        first = free_ports(2, address)
        ports = first, first + 1
        if not any(str(flag).startswith("--lanes") for flag in flags):
            flags = (*flags, "--lanes", "2")
        argv = command(program, replica, ports, *flags, address=address, static=static)
        folder = Path(tempfile.mkdtemp(dir=logs))
        server = Server(replica, [*within, *argv], folder, ports, address=address, **more)
        started.append(server)
        return server.start(wait=wait)

    with tempfile.TemporaryDirectory(prefix="servers-") as logs:
        try:
            yield start
        finally:
            for server in started:
                server.kill()
