"""Agents of gateways and nodes as processes, with their logs and probes."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from stack import HOST, PATIENCE, eventually
from stack.gateway import Gateway
from stack.http import Reply, ask, replies
from stack.process import Process
from stack.programs import program


class Agent(Process):
    """The log has a JSON object on each line."""

    def __init__(
        self, name: str, argv: Sequence[object], folder: Path, port: int, *, address: str = HOST
    ) -> None:
        """The agent is considered started once it responds; `status` shows whether it reports that
        it is ready.
        """
        self.url = f"http://{address}:{port}"
        super().__init__(name, argv, folder, lambda: replies(self.url, "/healthz"))

    def ask(self, path: str) -> Reply:
        return ask(self.url, path)

    def status(self, path: str) -> int:
        """0 if nothing listens."""
        try:
            return self.ask(path).status
        except OSError:
            return 0

    def is_ready(self) -> bool:
        return self.status("/readyz") == 200

    def wait_until_ready(self) -> None:
        """Waits until the agent reports that it is ready, which it does shortly after its work is
        done.
        """
        eventually(self.is_ready, f"ready, see {self.log}")

    def lines(self) -> list[dict]:
        return lines(self.log)

    def end(self) -> int:
        """The agent writes the rest of its log. Returns the exit status."""
        self.terminate()
        return self.wait(PATIENCE)


def lines(log: Path) -> list[dict]:
    """Complete lines of a log; the last line may be incomplete."""
    return [json.loads(line) for line in log.read_text().rpartition("\n")[0].splitlines()]


class Drain(Process):
    def phases(self) -> dict[str, dict]:
        return {line["message"]: line for line in lines(self.log)}

    def wait_for(self, phase: str) -> dict:
        return eventually(lambda: self.phases().get(phase), phase)

    def end(self) -> tuple[int, dict]:
        """Waits for the end of the drain; returns the exit code and the last log line."""
        code = self.wait(PATIENCE)
        return code, list(self.phases().values())[-1]


@contextmanager
def drain(gateway: Gateway, folder: Path, *flags: str) -> Iterator[Drain]:
    """Runs `gateway-agent drain` as a gateway pod does; kills the drain if it is still running at
    the end.
    """
    admin = f"--admin={urlsplit(gateway.admin).netloc}"
    with command(folder, "drain", admin, "--log-format=json", *flags) as running:
        yield running


@contextmanager
def command(folder: Path, *arguments: str) -> Iterator[Drain]:
    process = Drain("agent", [program("gateway-agent"), *arguments], folder)
    try:
        yield process.start()
    finally:
        process.kill()
