"""Instructions of a request: what a longer run has more than a shorter one, so that the start counts in none."""

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.instructions.rows import Row
from loadtests.bench.instructions.server import counted
from tools import resolve
from tools.errors import ToolError

CERTIFICATE = (
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:prime256v1",
    "-noenc",
    "-subj",
    "/CN=bench",
)


@dataclass(frozen=True)
class Length:
    """Requests of the two runs; what a row's first requests do once has happened in both."""

    short: int = 200
    long: int = 1_200


@dataclass(frozen=True)
class Programs:
    """What counts, what is counted, and a certificate with its key for TLS."""

    valgrind: Path
    server: Path
    certificate: Path


@contextmanager
def with_tools(server: Path) -> Iterator[Programs]:
    """Obtains the tools, and makes the certificate."""
    found = resolve.ensure(["valgrind", "openssl"])
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        key, certificate = Path(name) / "key.pem", Path(name) / "certificate.pem"
        argv = [str(found["openssl"]), "req", "-x509", *CERTIFICATE]
        argv += ["-keyout", str(key), "-out", str(certificate)]
        result = subprocess.run(argv, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise ToolError(f"{' '.join(argv)} failed: {result.stderr.strip()}")
        both = Path(name) / "both.pem"
        both.write_bytes(certificate.read_bytes() + key.read_bytes())
        yield Programs(found["valgrind"], server, both)


@dataclass(frozen=True)
class Pair:
    """Instructions of the two runs."""

    short: int
    long: int


def pair(row: Row, programs: Programs, length: Length) -> Pair:
    """Counts both."""
    return Pair(*(_run(row, programs, requests) for requests in (length.short, length.long)))


def per_request(pairs: Sequence[Pair], length: Length) -> int:
    """Instructions of a request. What disturbs a run adds to it, so the lowest of each length are the truest."""
    more = min(pair.long for pair in pairs) - min(pair.short for pair in pairs)
    return round(more / (length.long - length.short))


def _run(row: Row, programs: Programs, requests: int) -> int:
    """Instructions of a whole run."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        with counted(
            programs.valgrind, programs.server, row.settings, programs.certificate, folder
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
