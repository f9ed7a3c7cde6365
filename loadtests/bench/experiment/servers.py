"""The measured servers: the command that starts each, and the running process."""

import http.client
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from loadtests.bench import cpu
from loadtests.bench.experiment.builds import Programs
from stack import HOST, REPOSITORY
from stack.http import ask
from stack.ports import free_ports
from stack.process import Process, describe
from tools.errors import ToolError

CORELANE = "corelane-server"
HELLO = b"Hello, World!"
STATIC = REPOSITORY / "services" / "server" / "static"

PAUSE = 0.0005

AHEAD = -20
"""Nice value of a session with priority over others: the lowest possible."""

CONNECTIONS = 12_000
"""More connections than any part opens, unless the part sets its own number."""

Pem = tuple[Path, Path]

Request = tuple[str, bytes]


class Startable:
    name: str
    pem: Pem | None = None
    patience: float = 15.0
    """Maximum startup time in seconds."""
    environment: ClassVar[Mapping[str, str]] = {}
    """Additional environment variables of the server."""
    probe: Request | None = ("/hello", HELLO)
    """The server is up when it answers this request. None if only its gateway can ask."""

    def argv(self, programs: Any, address: str, folder: Path) -> list[str]:
        """The command runs in the foreground; the folder is for its output."""
        raise NotImplementedError


@dataclass(frozen=True)
class Replica(Startable):
    flags: tuple[str, ...] = ()
    lanes: int | str = 1
    pin: str = "on"
    room: int = CONNECTIONS
    pem: Pem | None = None
    name: str = CORELANE
    probe: Request | None = Startable.probe
    admin_port: int = field(default_factory=free_ports)

    @property
    def admin(self) -> str:
        return f"{HOST}:{self.admin_port}"

    def argv(self, programs: Programs, address: str, _folder: Path) -> list[str]:
        argv = [str(programs.server), "--listen", address, "--admin.listen", self.admin]
        argv += ["--lanes", str(self.lanes), "--pin", self.pin]
        argv += ["--replica", "bench", "--log.level", "warn"]
        argv += ["--limits.connections", str(self.room)]
        if self.pem:
            argv += ["--tls.certificate", str(self.pem[0]), "--tls.key", str(self.pem[1])]
        return [*argv, *self.flags]


def metrics(admin: str) -> str:
    try:
        return ask(f"http://{admin}", "/metrics").body.decode()
    except (OSError, http.client.HTTPException) as error:
        raise ToolError(f"{admin} shows no metrics: {error!r}") from None


def total(text: str, name: str, labels: Sequence[str] = ()) -> float:
    lines = (line for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{")))
    return sum(
        float(line.rpartition(" ")[2]) for line in lines if all(label in line for label in labels)
    )


def first_cpus(count: int) -> tuple[int, ...]:
    return tuple(sorted(os.sched_getaffinity(0))[:count])


@dataclass
class Running:
    process: Process
    address: str
    cpus: list[int]
    start_ms: float = 0.0

    def __post_init__(self) -> None:
        self.cpu_seconds = cpu.Family(lambda: self.pids).seconds

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def pids(self) -> list[int]:
        """Pids of the process and its children (proc_pid_task_children(5))."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [self.process.pid, *map(int, children.read_text().split())]

    def thread_seconds(self, names: tuple[str, ...]) -> float:
        """CPU time of live threads with this name prefix."""
        return sum(cpu.threads(pid, names) for pid in self.pids)

    def resident_kib(self) -> int:
        """Resident memory of all its processes; shared memory is counted once."""
        parts = [_memory(pid) for pid in self.pids]
        return sum(own for own, _ in parts) + max(shared for _, shared in parts)


@contextmanager
def running(
    server: Startable, programs: Any, cpus: list[int], *, session: bool = False
) -> Iterator[Running]:
    """Starts a server on exactly these CPUs and kills it at the end.

    A separate `session` has priority over other sessions on a single CPU, which no part of the
    measurement shares with it.
    """
    address = f"{HOST}:{free_ports()}"
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        argv = server.argv(programs, address, folder)
        options = {"start_new_session": True, "process_group": None} if session else {}
        environment = {**os.environ, **server.environment}
        process = Process(
            "server", argv, folder, environment=environment, cwd=REPOSITORY, **options
        )
        begun = time.monotonic()
        try:
            with placed(cpus):
                process.start(wait=False)
            if session and len(cpus) == 1:
                _go_ahead(process.pid)
            found = Running(process, address, list(cpus))
            try:
                wait_until_right(found, server, server.patience)
            except ToolError as error:
                raise ToolError(
                    describe(f"{server.name} did not start: {error}", [process])
                ) from None
            found.start_ms = (time.monotonic() - begun) * 1e3
            yield found
        finally:
            process.kill()


@contextmanager
def placed(cpus: Sequence[int]) -> Iterator[None]:
    """Processes started inside the context run on these CPUs (sched_setaffinity(2): children
    inherit the mask).
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _go_ahead(leader: int) -> None:
    """Gives the threads of a session priority over other threads, if the system allows it
    (sched(7), autogroup).

    Otherwise, a thread that wakes up has to wait a few milliseconds for another thread's time slice
    to end. Unlike with real-time priority, the threads still share the CPU with one another.
    """
    with suppress(OSError):
        Path(f"/proc/{leader}/autogroup").write_text(f"{AHEAD}\n")


def wait_until_right(found: Running, server: Startable, patience: float) -> None:
    """Raises the last error at the deadline."""
    if not server.probe:
        return None
    deadline = time.monotonic() + patience
    while True:
        try:
            return check(found, *server.probe, tls=server.pem is not None)
        except ToolError as problem:
            if not found.process.running:
                raise ToolError("it ended") from None
            if time.monotonic() > deadline:
                raise problem from None
        time.sleep(PAUSE)


def check(process: Running, target: str, body: bytes, *, tls: bool = False) -> None:
    try:
        found = ask(f"{'https' if tls else 'http'}://{process.address}", target, timeout=15.0)
    except (OSError, http.client.HTTPException) as error:
        raise ToolError(f"no answer to {target}: {error!r}") from None
    if (found.status, found.body) != (200, body):
        raise ToolError(f"{target} is answered {found.status} {found.body[:60]!r}")


def certificate(openssl: Path, folder: Path) -> Pem:
    """Creates a certificate and a key of the most common kind, ECDSA on P-256."""
    files = folder / "certificate.pem", folder / "key.pem"
    argv = [str(openssl), "req", "-x509", "-newkey", "ec", "-pkeyopt"]
    argv += ["ec_paramgen_curve:prime256v1", "-noenc", "-subj", "/CN=bench"]
    # Clients trust only this certificate, and a CA certificate must not identify a server (RFC 5280
    # section 4.2.1.9).
    argv += ["-addext", f"subjectAltName=IP:{HOST},DNS:bench"]
    argv += ["-addext", "basicConstraints=critical,CA:FALSE"]
    argv += ["-out", str(files[0]), "-keyout", str(files[1])]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ToolError(f"{' '.join(argv)} failed: {result.stderr.strip()}")
    return files


def _memory(pid: int) -> tuple[int, int]:
    """A process's private and shared memory in KiB (proc_pid_smaps(5), smaps_rollup)."""
    found: dict[str, int] = {}
    with suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
            name, value = line.split(":", 1)
            found[name] = int(value.split()[0])
    own = found.get("Private_Clean", 0) + found.get("Private_Dirty", 0)
    return own, found.get("Rss", 0) - own
