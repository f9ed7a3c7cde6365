"""The servers under measurement: started, watched, drained."""

import contextlib
import http.client
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.capacity.replica import total
from loadtests.bench.field.running import Running, placed
from loadtests.bench.free_ports import free_ports
from loadtests.bench.idle.arms import CORELANE, LOCAL, Arm, Place, Programs
from tools import resolve
from tools.errors import ToolError

PATIENCE = 30.0

SPARE = 100
"""Connections beside those that wait: the live ones, and room."""

PARKED = "corelane_connections_parked"
WAKES = "corelane_connection_wakes_total"


@dataclass(frozen=True)
class Replicas:
    """Servers of one kind, each a process of its own."""

    running: list[Running]
    places: list[Place]
    arm: Arm

    @property
    def to(self) -> list[str]:
        """Where they listen."""
        return [place.address for place in self.places]

    def resident_kib(self) -> int:
        """Resident memory of all."""
        return sum(one.resident_kib() for one in self.running)

    def cpu_seconds(self) -> float:
        """CPU time of all so far."""
        return sum(one.cpu_seconds() for one in self.running)

    def sum_of(self, name: str) -> float:
        """A metric, summed up over all."""
        return sum(total(_metrics(place.admin), name) for place in self.places)

    def rest(self, connections: int) -> None:
        """Waits until so many are parked, where they are."""
        if not self.arm.parks:
            return
        deadline = time.monotonic() + PATIENCE
        while (parked := self.sum_of(PARKED)) < connections:
            if time.monotonic() > deadline:
                raise ToolError(f"{self.arm.name}: {parked:,.0f} of {connections:,} are parked")
            time.sleep(0.1)

    def drain(self) -> dict:
        """Tells all to end, and waits for them."""
        begun = time.monotonic()
        for one in self.running:
            one.process.send_signal(signal.SIGTERM)
        try:
            codes = [one.process.wait(PATIENCE) for one in self.running]
        except subprocess.TimeoutExpired:
            raise ToolError(f"{self.arm.name}: no end within {PATIENCE:g} s of SIGTERM") from None
        return {"seconds": time.monotonic() - begun, "exit_codes": codes}


@dataclass(frozen=True)
class Setting:
    """What servers are started with."""

    connections: int
    """Each has room for so many."""
    park_after: str
    cpu: int
    pem: tuple[Path, Path]
    """Certificate and key."""


@contextlib.contextmanager
def replicas(programs: Programs, arm: Arm, count: int, setting: Setting) -> Iterator[Replicas]:
    """So many servers on one CPU; killed at the end."""
    with contextlib.ExitStack() as parts:
        running, places = [], []
        for _ in range(count):
            folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="bench-idle-")))
            address, admin = (f"{LOCAL}:{free_ports()}" for _ in range(2))
            room = setting.connections + SPARE
            place = Place(address, admin, folder, room, setting.park_after, *setting.pem)
            argv = arm.argv(programs, place)
            process = parts.enter_context(_started(argv, setting.cpu, place))
            running.append(Running(process, address))
            places.append(place)
        yield Replicas(running, places, arm)


@contextlib.contextmanager
def certificate() -> Iterator[tuple[Path, Path]]:
    """A certificate for the run and its key, as most sites have: ECDSA on P-256."""
    with tempfile.TemporaryDirectory(prefix="bench-idle-") as name:
        files = Path(name) / "certificate.pem", Path(name) / "key.pem"
        argv = [str(resolve.ensure(["openssl"])["openssl"]), "req", "-x509", "-newkey", "ec"]
        argv += ["-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-subj", "/CN=bench"]
        argv += ["-out", str(files[0]), "-keyout", str(files[1])]
        result = subprocess.run(argv, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise ToolError(f"{' '.join(argv)} failed: {result.stderr.strip()}")
        yield files


@contextlib.contextmanager
def _started(argv: list[str], cpu: int, place: Place) -> Iterator[subprocess.Popen]:
    output = place.folder / "output"
    with open(output, "wb") as file, placed([cpu]):
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while not _listens(place.address):
            if process.poll() is not None or time.monotonic() > deadline:
                text = output.read_text(errors="replace")[-2000:]
                raise ToolError(f"{' '.join(argv[:3])} does not start:\n{text}")
            time.sleep(0.01)
        yield process
    finally:
        # The group is its own: nginx's worker is in it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _listens(address: str) -> bool:
    """Whether a socket listens there (proc_net_tcp(5): state 0A). A connection would be one more."""
    port = f":{int(address.rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return any(row[1].endswith(port) and row[3] == "0A" for row in rows)


def _metrics(admin: str) -> str:
    with contextlib.closing(http.client.HTTPConnection(admin, timeout=10)) as connection:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()


def parks(program: Path) -> bool:
    """Whether a build of corelane-server knows parking."""
    argv = [program, "--park-after", "off", "--check"]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


__all__ = ["CORELANE", "PARKED", "WAKES", "Replicas", "Setting", "certificate", "parks", "replicas"]
