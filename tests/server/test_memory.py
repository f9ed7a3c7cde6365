"""What a server takes that nobody has asked for more than one reply."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.client import ask
from support.servers import Server

THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def memory(server: Server) -> dict[str, int]:
    """KiB by kind (proc_pid_smaps(5), smaps_rollup)."""
    lines = Path(f"/proc/{server.process.pid}/smaps_rollup").read_text().splitlines()[1:]
    fields = (line.split() for line in lines)
    return {field[0].rstrip(":"): int(field[1]) for field in fields}


@pytest.mark.skipif(
    THP.exists() and "[always]" in THP.read_text(),
    reason="huge pages come unasked, and some of them before main",
)
def test_a_server_that_nobody_asks_takes_little(start: Callable[..., Server]) -> None:
    server = start("--lanes", "1")
    assert ask(server.url, "/hello").status == 200
    found = memory(server)
    assert found["AnonHugePages"] == 0
    # A queue of the log with room for all its lines from the start would be more alone.
    assert found["Anonymous"] < 4 * 1024, found
