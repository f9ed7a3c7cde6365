"""One policy under measurement: replicas, gateways and generator."""

import http.client
import json
import os
import subprocess
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from loadtests.bench import cpu
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.generator import Generator, Place
from local import render
from stack import HOST, becomes, eventually
from stack.http import ask, replies
from stack.ports import free_ports

CONNECTIONS = 256


@dataclass(frozen=True)
class Shape:
    replicas: int
    gateways: int
    """With 0 gateways, requests go directly to the replicas."""
    lanes_each: int = 1

    def __str__(self) -> str:
        if self.gateways:
            return f"{self.replicas}x{self.gateways}"
        return f"{self.lanes_each} lanes"

    @property
    def lanes(self) -> int:
        return self.replicas * self.lanes_each


class Fleet(ExitStack):
    def __init__(
        self,
        programs: Programs,
        shape: Shape,
        upstream: dict,
        folder: Path,
        *,
        held: bool = False,
    ) -> None:
        super().__init__()
        self.shape = shape
        self._programs = programs
        self._upstream = upstream
        self._folder = folder
        self._held = held
        self._ports = [(free_ports(), free_ports()) for _ in range(shape.replicas)]
        self._replicas: list[subprocess.Popen] = []
        self._gateways: list[tuple[subprocess.Popen, int]] = []

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def _start(self) -> None:
        self._folder.mkdir(parents=True)
        self._replicas = [self._replica(index) for index in range(self.shape.replicas)]
        listeners = [self._gateway(index) for index in range(self.shape.gateways)]
        self.wait_until_healthy(self.shape.replicas)
        if not listeners:
            listeners = [f"{HOST}:{port}" for port, _ in self._ports]
            for address in listeners:
                eventually(lambda url=f"http://{address}": replies(url, "/hello"), "a replica")
        program, place = self._programs.generator, Place(sorted(os.sched_getaffinity(0)))
        generator = Generator(program, place, "turns", ",".join(listeners), connections=CONNECTIONS)
        self.generator = self.enter_context(generator)

    def _run(self, argv: list, name: str) -> subprocess.Popen:
        output = self.enter_context((self._folder / f"{name}.log").open("ab"))
        options = {"stdin": subprocess.PIPE, "stdout": output, "stderr": output}
        process = subprocess.Popen([str(part) for part in argv], text=True, bufsize=1, **options)
        _running.append(process)
        self.callback(_end, process)
        return process

    def _replica(self, index: int) -> subprocess.Popen:
        listen, admin = self._ports[index]
        argv = [self._programs.peers / "virtual-replica", "--name", f"replica-{index}"]
        argv += ["--listen", f"{HOST}:{listen}", "--admin", f"{HOST}:{admin}"]
        argv += ["--lanes", str(self.shape.lanes_each), *(["--held"] if self._held else [])]
        return self._run(argv, f"replica-{index}")

    def _gateway(self, index: int) -> str:
        listener, stats, admin = free_ports(), free_ports(), free_ports()
        endpoints = [{"address": HOST, "port": a, "adminPort": b} for a, b in self._ports]
        values = {
            "listener": {"address": HOST, "port": listener},
            "stats": {"address": HOST, "port": stats},
            "admin": {"port": admin},
            "upstream": {"discovery": "static", "endpoints": endpoints, **self._upstream},
        }
        file = self._folder / f"gateway-{index}"
        file.with_suffix(".json").write_text(json.dumps(values))
        configuration = render.envoy(file.with_suffix(".json"), self._programs.tools)
        file.with_suffix(".yaml").write_text(configuration)
        argv = [self._programs.tools["envoy"], "-c", file.with_suffix(".yaml")]
        argv += ["--concurrency", "1", "--disable-hot-restart", "--log-level", "error"]
        self._gateways.append((self._run(argv, file.name), admin))
        return f"{HOST}:{listener}"

    def wait_until_healthy(self, count: int) -> None:
        """Waits until every gateway considers exactly this many replicas healthy."""
        for _, admin in self._gateways:
            becomes(lambda admin=admin: _healthy(admin), count)

    def tell_all(self, line: str) -> None:
        for replica in self._replicas:
            print(line, file=replica.stdin, flush=True)

    def tell(self, line: str) -> None:
        """Sends a command to the last replica; `stop` and `start` act on its process."""
        if line == "stop":
            _end(self._replicas[-1])
        elif line == "start":
            self._replicas[-1] = self._replica(self.shape.replicas - 1)
        else:
            print(line, file=self._replicas[-1].stdin, flush=True)

    def gateway_seconds(self) -> float:
        """CPU time of the gateways since their start."""
        return sum(cpu.seconds(gateway.pid) for gateway, _ in self._gateways)


def _end(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
    with suppress(OSError):
        process.stdin.close()


def _healthy(admin: int) -> int | None:
    try:
        lines = ask(f"http://{HOST}:{admin}", "/clusters").body.decode().splitlines()
    except (OSError, http.client.HTTPException):
        return None
    flags = [line for line in lines if line.startswith("server::") and "::health_flags::" in line]
    return sum(line.endswith("::healthy") for line in flags)


def end_all() -> None:
    """Kills every process, so that threads waiting for one fail."""
    for process in _running:
        process.kill()


_running: list[subprocess.Popen] = []
