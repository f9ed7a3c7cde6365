"""What lasts for a run: the programs of all contenders, and those that run."""

import http.client
import math
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from loadtests.bench import cpu
from loadtests.bench.experiment import builds, servers
from loadtests.bench.experiment.generator import CONNECTIONS, Generator, Place, measured
from loadtests.bench.experiment.plan import Plan, Row, Stand
from loadtests.bench.experiment.servers import CORELANE, first_cpus
from loadtests.bench.field.contender import (
    REQUESTS,
    STATIC,
    WORK,
    Contender,
    Start,
    Workload,
    first_of,
)
from loadtests.bench.field.contenders import CONTENDERS
from loadtests.bench.field.contenders.compiled import TRAINED
from local.settings import REPOSITORY
from stack.ports import free_ports
from tools.errors import ToolError

PATIENCE = 60.0
"""Longest start; the slowest is a JVM's on one CPU."""

PAUSE = 0.0005
"""Between two tries to connect: what a start is rounded to."""

AHEAD = -20
"""The nice value of a contender's session: the least there is."""


@dataclass
class Running(servers.Running):
    """A contender that answers."""

    contender: Contender
    cpus: list[int]
    ahead: bool = False
    """Whether its threads have the CPU before those of other sessions."""
    start_ms: float = 0.0
    """From its start to its first right reply."""
    used: dict[int, float] = field(default_factory=dict)
    """CPU time of each of its processes as it was last seen, those that have ended included."""

    def cpu_seconds(self) -> float:
        """CPU time since the start. Servers with a process per so many connections end some."""
        for pid in self.pids:
            with suppress(ToolError):
                self.used[pid] = cpu.seconds(pid)
        return sum(self.used.values())

    def resident_kib(self) -> int:
        """Resident memory of all its processes; what they share counts once."""
        parts = [_memory(pid) for pid in self.pids]
        return sum(own for own, _ in parts) + max(shared for _, shared in parts)


@contextmanager
def started(
    contender: Contender,
    program: Path,
    cpus: Sequence[int],
    *,
    ahead: bool = False,
) -> Iterator[Running]:
    """Starts a contender on these CPUs alone, with a thread for each, and kills it at the end.
    `ahead` where no part of the measurement shares them with it."""
    address = f"{servers.HOST}:{free_ports()}"
    with tempfile.TemporaryDirectory(prefix="bench-field-") as name:
        folder = Path(name)
        start = Start(address, len(cpus), folder, STATIC)
        argv = contender.argv(program, start)
        with open(folder / "output", "wb") as output, placed(cpus):
            begun = time.monotonic()
            process = subprocess.Popen(
                argv,
                cwd=REPOSITORY,
                env={**os.environ, **contender.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            ahead = ahead and go_ahead(process.pid)
            found = Running(process, address, contender, list(cpus), ahead)
            _wait_until_up(contender, found, first_of(contender), folder / "output")
            found.start_ms = (time.monotonic() - begun) * 1e3
            yield found
        finally:
            # The group is its own: the workers of nginx and Apache are in it.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def placed(cpus: Sequence[int]) -> Iterator[None]:
    """What is started meanwhile runs on these CPUs (sched_setaffinity(2): children inherit it)."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def go_ahead(leader: int) -> bool:
    """Gives the threads of a session priority over others, if the system allows it (sched(7), autogroup).
    Otherwise a thread that wakes waits for the end of a neighbour's slice, some milliseconds. Unlike
    with a real-time priority, the threads still share the CPU among each other."""
    try:
        Path(f"/proc/{leader}/autogroup").write_text(f"{AHEAD}\n")
    except OSError:
        return False
    return True


def _wait_until_up(contender: Contender, found: Running, workload: Workload, output: Path) -> None:
    try:
        wait_until_right(found, workload, PATIENCE)
    except ToolError as error:
        raise ToolError(f"{contender.name} did not start: {error}\n{_end_of(output)}") from None


def wait_until_right(found: Running, workload: Workload, patience: float) -> None:
    """Asks until the reply is right; the last problem, where it never is or the server ended."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return check(found, workload)
        except ToolError as problem:
            if found.process.poll() is not None:
                raise ToolError("it ended") from None
            if time.monotonic() > deadline:
                raise problem from None
        time.sleep(PAUSE)


def check(process: Running, workload: Workload) -> None:
    """Sends one request before the measurement. The error shows a wrong reply."""
    try:
        status, body = servers.ask(process.address, workload.target)
    except (OSError, http.client.HTTPException) as error:
        raise ToolError(f"no answer to {workload.target}: {error!r}") from None
    if (status, body) != (200, workload.body):
        raise ToolError(f"{workload.target} is answered {_shown(status, body)}")


def _shown(status: int, body: bytes) -> str:
    return f"{status} {body[:60]!r}"


def _end_of(output: Path) -> str:
    return output.read_text(errors="replace")[-2000:]


def _memory(pid: int) -> tuple[int, int]:
    """KiB of a process of its own, and shared with others (proc_pid_smaps(5), smaps_rollup)."""
    found: dict[str, int] = {}
    with suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
            name, value = line.split(":", 1)
            found[name] = int(value.split()[0])
    own = found.get("Private_Clean", 0) + found.get("Private_Dirty", 0)
    return own, found.get("Rss", 0) - own


RIGHT = 5
"""Right replies, after which it is taken to be awake."""

BETWEEN = 0.005
"""Seconds between two of them."""

AWAKE = 2.0
"""Longest wait for one."""


class Turns:
    """Keeps what a just-in-time compiler has made of a server, which takes it half a minute.

    Between its turns a contender is stopped (SIGSTOP, signal(7)), so that it does not
    disturb the others. `start` is called for its first one; `prepare` warms it up then.
    """

    def __init__(
        self,
        start: Callable[[Contender], AbstractContextManager[Running]],
        prepare: Callable[[Running], None] = lambda _process: None,
    ) -> None:
        self._start, self._prepare = start, prepare
        self._alive: dict[str, tuple[Running, ExitStack]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for _process, stack in self._alive.values():
            stack.close()

    @contextmanager
    def of(self, contender: Contender) -> Iterator[Running]:
        """Its turn: started and warmed up when it is the first, else continued."""
        if contender.name not in self._alive:
            with ExitStack() as stack:
                process = stack.enter_context(self._start(contender))
                self._prepare(process)
                self._alive[contender.name] = process, stack.pop_all()
        process, _ = self._alive[contender.name]
        os.killpg(process.process.pid, signal.SIGCONT)
        self._wake(process, first_of(contender))
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.process.pid, signal.SIGSTOP)

    @staticmethod
    def _wake(process: Running, workload: Workload) -> None:
        """Its clocks stood still, and it may take the pause for a slow client's at first: actix-web did (408)."""
        with suppress(ToolError):
            for _ in range(RIGHT):
                wait_until_right(process, workload, AWAKE)
                time.sleep(BETWEEN)


SHARE = 0.02
"""Of the CPU time of a measurement that may be the compiler's. The kernel counts what its threads take, so the
length of a warm-up need not be guessed."""


def settled(process: Running, longest: float, measure: Callable[[], Row]) -> Row:
    """The first measurement that is nearly free of compiling, or the first after so many seconds;
    `compiling` is the compiler's share."""
    compilers = process.contender.compilers
    if not compilers:
        return measure()
    deadline = time.monotonic() + longest
    while True:
        before, begun = _compiler_seconds(process), process.cpu_seconds()
        row = measure()
        used = process.cpu_seconds() - begun
        share = max(0.0, _compiler_seconds(process) - before) / used
        if share <= SHARE or time.monotonic() > deadline:
            return {**row, "compiling": share}


def _compiler_seconds(process: Running) -> float:
    """CPU time of the threads that compile, by their names (proc_pid_comm(5))."""
    return sum(
        used
        for pid in process.pids
        for thread, used in cpu.threads(pid).items()
        if _name(pid, thread).startswith(process.contender.compilers)
    )


def _name(pid: int, thread: int) -> str:
    try:
        return Path(f"/proc/{pid}/task/{thread}/comm").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""  # it has ended since


@dataclass
class FieldStand(Stand):
    """The contenders."""

    programs: dict[str, Path] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    """Why a contender could not be built."""
    generator: Path = Path()
    folder: Path = Path()
    """For files that the load generator reads."""
    turns: Turns | None = None

    def contender(self, name: str) -> Contender:
        """One that is there."""
        if name in self.absent:
            raise ToolError(self.absent[name])
        return CONTENDERS[name]

    def place(self, process: Running, first: bool = False) -> Place:
        """The generator's: the CPU that the server does not have, or all with it; `first` where it
        takes little, ahead of every other process."""
        others = [cpu for cpu in self.cpus if cpu not in process.cpus]
        return Place(others or list(self.cpus), first)

    def started(self, contender: Contender, cpus: int = 1) -> AbstractContextManager[Running]:
        """Starts a contender on so many CPUs, and ends it."""
        program = self.programs[contender.name]
        return started(contender, program, self.cpus[:cpus], ahead=cpus == 1)

    def ops(self, milliseconds: float) -> int:
        """Iterations of `/work` that take this long alone."""
        return round(self.facts["ops_per_ms"] * milliseconds)

    def warm_up(self, process: Running, most: float = math.inf) -> None:
        """Load after the start, of each kind, for those whose code is compiled while it runs."""
        kinds = [one for name, one in REQUESTS.items() if name in process.contender.parts]
        seconds = self.plan.seconds(min(process.contender.warm_up_first, most))
        for workload in kinds if seconds else []:
            options = {"connections": CONNECTIONS, **workload.options(self.folder)}
            options |= {"seconds": 0.01, "warm_up": seconds / len(kinds)}
            place = self.place(process)
            with Generator(self.generator, place, "closed", process.address, **options):
                pass


@contextmanager
def standing(plan: Plan, names: Iterable[str]) -> Iterator[FieldStand]:
    """Builds the contenders. The run continues without those that cannot be built."""
    facts: dict = {"servers": {}, "connections": plan.options.connections}
    versions = {"rustc": builds.describe()["rustc"]}
    stand = FieldStand(plan, first_cpus(2), facts, versions)
    for contender in map(CONTENDERS.__getitem__, names):
        _build(stand, contender)
    stand.generator = builds.build(["load-generator"], plan.profile) / "load-generator"
    with (
        tempfile.TemporaryDirectory(prefix="bench-field-") as folder,
        Turns(stand.started, stand.warm_up) as turns,
    ):
        stand.folder, stand.turns = Path(folder), turns
        stand.facts["ops_per_ms"] = _ops_per_ms(stand)
        yield stand


def _build(stand: FieldStand, contender: Contender) -> None:
    stand.facts["servers"][contender.name] = about = {
        "family": contender.family,
        "settings": contender.settings,
    }
    ours = contender.name.startswith(CORELANE) and contender.name != TRAINED
    given = stand.plan.server if ours else None
    try:
        program = given or contender.build(stand.plan.profile)
        about["version"] = contender.version(program)
    except ToolError as error:
        stand.absent[contender.name] = str(error)
    else:
        stand.programs[contender.name] = program


def _ops_per_ms(stand: FieldStand) -> float:
    """Found by the first that computes: the loop is the same for all compiled ones."""
    for contender in map(CONTENDERS.__getitem__, stand.programs):
        if WORK in contender.parts:
            # One that does not start is left out later, with its reason.
            with suppress(ToolError):
                return _counted(stand, contender)
    return 0.0


def _counted(stand: FieldStand, contender: Contender) -> float:
    ops = 1_000_000
    options = {"connections": 1, "ops": ops, "seconds": 0.5, "warm_up": 0.1}
    with stand.started(contender) as process:
        row = measured(process, stand.generator, stand.place(process), "closed", **options)
    return ops / row["cpu_us"] * 1e3
