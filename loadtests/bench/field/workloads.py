"""What contenders are asked: the target, its right reply, and the rate of the open loop."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.experiment import servers
from loadtests.bench.field.contender import DIV, FILE_4K, FILE_10K, HELLO, WORK, Contender
from local.settings import REPOSITORY

STATIC = REPOSITORY / "services" / "server" / "static"

OPS = 20_000
"""Iterations of `work`: some 30 µs, as much as a small handler computes."""


@dataclass(frozen=True)
class Workload:
    """One request, over and over."""

    name: str
    target: str
    body: bytes
    rate: float
    """Requests per second of the open loop: what every contender carries on one CPU, so that
    latencies are those of servers that are not overloaded."""
    ops: int | None = None

    def options(self, folder: Path) -> Mapping[str, object]:
        """Of the load generator, which compares every reply; the folder is for what it reads."""
        if self.name == HELLO:
            return {}
        if self.ops is not None:
            return {"ops": self.ops}
        file = folder / self.name
        if not file.exists():
            file.write_bytes(self.body)
        return {"page": self.target, "file": file}


def work_reply(ops: int) -> bytes:
    """The reply of `/work`, as the reference service computes it."""
    state = 1
    for _ in range(ops):
        state = (state * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64
    return f"{state:016x}\n".encode()


REQUESTS = {
    workload.name: workload
    for workload in (
        Workload(HELLO, "/hello", servers.HELLO, rate=5000),
        Workload(DIV, "/div/4", b"2", rate=5000),
        Workload(FILE_4K, "/static/4k.txt", (STATIC / "4k.txt").read_bytes(), rate=2000),
        Workload(FILE_10K, "/static/index.html", (STATIC / "index.html").read_bytes(), rate=2000),
        Workload(WORK, f"/work?ops={OPS}", work_reply(OPS), rate=2000, ops=OPS),
    )
}
"""Workloads of a single request, by name, in the order of the report."""


def first_of(contender: Contender) -> Workload:
    """What tells whether it is up."""
    return next((one for name, one in REQUESTS.items() if name in contender.parts), REQUESTS[HELLO])
