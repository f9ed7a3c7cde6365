"""Platform instances with real processes and their own ports.

Fixtures: `platform` is shared by the run; `new_platform` creates additional platforms.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from local import processes, settings, supervisor, topology
from stack import REPOSITORY
from stack.ports import free_ports


@dataclass(frozen=True)
class Replica:
    name: str
    cpu: int
    url: str
    admin: str


@dataclass
class Platform:
    instance: str
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def run(self) -> Path:
        """Contains logs and rendered configurations."""
        return REPOSITORY / ".run" / self.instance

    @property
    def gateway(self) -> str:
        return self._url("GATEWAY_PORT")

    @property
    def stats(self) -> str:
        return self._url("GATEWAY_STATS_PORT")

    @property
    def dashboard(self) -> str:
        return self._url("DASHBOARD_PORT")

    @property
    def envoy_admin(self) -> str:
        return self._url("ENVOY_ADMIN_PORT")

    @property
    def prometheus(self) -> str:
        return self._url("PROMETHEUS_PORT")

    @property
    def replicas(self) -> list[Replica]:
        running = topology.read(self.run)
        assert running, f"instance {self.instance} is not up"
        return [
            Replica(
                name=replica.name,
                cpu=replica.cpu,
                url=f"http://127.0.0.1:{replica.port}",
                admin=f"http://127.0.0.1:{replica.admin_port}",
            )
            for replica in running.replicas
        ]

    def pid(self, name: str) -> int:
        """Returns the pid that supervisord reports, or 0 if the process is not running."""
        return supervisor.states(self.run).get(name, {}).get("pid", 0)

    def pids(self) -> list[int]:
        """supervisord and everything it started."""
        return processes.find(self.run)

    def command(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        with self.begin(*arguments, **variables) as process:
            output, errors = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def begin(
        self, *arguments: str, stdout: int = subprocess.PIPE, **variables: str
    ) -> subprocess.Popen[str]:
        """Starts `hack/local` without waiting."""
        return subprocess.Popen(
            [sys.executable, "hack/local", *arguments],
            cwd=REPOSITORY,
            env={
                **os.environ,
                "INSTANCE": self.instance,
                "PROFILE": "dev",
                **self.variables,
                **variables,
            },
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )

    def up(self) -> None:
        """Runs `up`, and raises an error with its output if it fails."""
        result = self.command("up")
        assert result.returncode == 0, result.stdout + result.stderr

    def _url(self, variable: str) -> str:
        return f"http://127.0.0.1:{self.variables[variable]}"


@pytest.fixture(scope="session")
def new_platform() -> Iterator[Callable[[int], Platform]]:
    """Creates stopped instances. All instances are taken down at the end."""
    made: list[Platform] = []

    def make(replicas: int) -> Platform:
        names = [*settings.VARIABLES][:-2]
        first = free_ports(len(names) + 2 * replicas + 1)
        variables = {name: str(first + index) for index, name in enumerate(names)}
        first += len(names)
        variables["REPLICA_PORT"] = str(first)
        variables["REPLICA_ADMIN_PORT"] = str(first + replicas)
        variables["POSTGRES_PORT"] = str(first + 2 * replicas)
        variables["REPLICAS"] = str(replicas)
        made.append(Platform(f"test-{os.getpid()}-{len(made)}", variables))
        return made[-1]

    yield make
    for process in [platform.begin("remove") for platform in made]:
        process.communicate()


@pytest.fixture(scope="session")
def platform(new_platform: Callable[[int], Platform]) -> Platform:
    """Two replicas, gateway and Prometheus, running for the whole test run."""
    instance = new_platform(2)
    instance.up()
    return instance
