"""What a proxy executes for a request, by callgrind: for a machine that is never quiet."""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.plan import Row
from loadtests.bench.experiment.servers import HELLO, Running, Startable, running
from loadtests.bench.gateway.proxies import Proxy
from loadtests.bench.instructions.exchange import Http1, Lane
from tools.errors import ToolError

REQUEST = b"GET /hello HTTP/1.1\r\nHost: bench.test\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"
REQUESTS = 60
CACHE = "32768,8,64"
"""The first-level cache of code that is simulated: its bytes, ways and bytes of a line."""

WORKER = "wrk:worker_0"


@dataclass(frozen=True)
class UnderCallgrind(Startable):
    """A proxy that callgrind runs."""

    proxy: Proxy
    valgrind: Path
    out: Path
    """Each dump is a file for each thread, whose name begins like this."""
    patience: float = 300.0

    @property
    def name(self) -> str:
        """That of the proxy."""
        return self.proxy.name

    def argv(self, programs: Programs, address: str, folder: Path) -> list[str]:
        """How it is started."""
        argv = [str(self.valgrind), "--tool=callgrind", "--separate-threads=yes", "--quiet"]
        argv += ["--cache-sim=yes", f"--I1={CACHE}", f"--callgrind-out-file={self.out}"]
        return [*argv, *self.proxy.argv(programs, address, folder)]


def counted(proxy: Proxy, programs: Programs, cpus: list[int]) -> Row:
    """Instructions and misses of the first-level cache for a request of one connection, in the worker."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        running(
            under := UnderCallgrind(proxy, programs.tools["valgrind"], Path(name) / "out"),
            programs,
            cpus,
        ) as process,
    ):
        client = Http1(process.port, _worker(process))
        for _ in range(2):
            # The first part also has what happens once.
            for _ in range(REQUESTS):
                (reply,) = client.ask(REQUEST)
                if (reply.status, reply.body) != (200, HELLO):
                    raise ToolError(f"{proxy.name} replied {reply}")
            _dump(under.valgrind, process)
        # It is the thread that does the most.
        found = max(map(_totals, Path(name).glob("out.2-*")), key=lambda each: each["Ir"])
    return {
        "requests": REQUESTS,
        "wrong": 0,
        "instructions": found["Ir"] / REQUESTS,
        "misses": found["I1mr"] / REQUESTS,
    }


def _worker(process: Running) -> Lane:
    for task in Path(f"/proc/{process.process.pid}/task").iterdir():
        if (task / "comm").read_text().strip() == WORKER:
            return Lane(process.process.pid, int(task.name))
    raise ToolError(f"the proxy has no thread {WORKER}")


def _dump(valgrind: Path, process: Running) -> None:
    """Writes what was counted since the last dump."""
    argv = [valgrind.with_name("vgdb"), f"--pid={process.process.pid}", "dump"]
    subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def _totals(file: Path) -> dict[str, int]:
    """The sums in a file of callgrind, by event; it leaves zeros at the end out."""
    text = file.read_text()
    lines = dict(re.findall(r"^(events|totals): (.*)$", text, re.MULTILINE))
    events, totals = lines["events"].split(), [int(each) for each in lines["totals"].split()]
    return dict.fromkeys(events, 0) | dict(zip(events, totals, strict=False))
