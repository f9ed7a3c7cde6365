"""Instructions of a request: what a longer run has more than a shorter one, so that the start counts in none."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.connections.servers import Pem, certificate
from loadtests.bench.instructions.rows import Row
from loadtests.bench.instructions.server import counted
from tools import resolve
from tools.errors import ToolError

SHORT = 200
"""Requests of the shorter run: what a row's first requests do once has happened in both."""


@dataclass(frozen=True)
class Programs:
    """What counts, what is counted, and a certificate with its key for TLS."""

    valgrind: Path
    server: Path
    pem: Pem


@contextmanager
def with_tools(server: Path) -> Iterator[Programs]:
    """Obtains the tools, and makes the certificate."""
    found = resolve.ensure(["valgrind", "openssl"])
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        yield Programs(found["valgrind"], server, certificate(found["openssl"], Path(name)))


def per_request(shorter: Sequence[int], longer: Sequence[int], requests: int) -> int:
    """Instructions of a request. What disturbs a run adds to it, so the lowest of each length are the truest."""
    return round((min(longer) - min(shorter)) / requests)


def instructions(row: Row, programs: Programs, requests: int) -> int:
    """Instructions of a whole run."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        with counted(
            programs.valgrind, programs.server, row.settings, programs.pem, folder
        ) as server:
            client = row.connect(server.port, server.lane)
            asked = row.ask(client)
            for _ in range(requests // row.together):
                for reply in client.ask(asked, row.together):
                    if not row.is_right(reply):
                        raise ToolError(f"{row.name}: {reply.head!r} {reply.body[:100]!r}")
                if not row.kept:
                    client.close()
            client.close()
    return server.on_lane + (server.beside if row.threads else 0)
