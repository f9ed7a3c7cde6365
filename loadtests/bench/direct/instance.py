"""The platform under measurement: the one that is up, or one of our own."""

import dataclasses
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local import ports, processes, settings, supervisor, topology
from local.settings import REPOSITORY
from tools.errors import ToolError

OWN = f"bench-{os.getpid()}"
FIRST_PORTS = range(20000, 30000, 500)
"""Below the ports that clients are given (ip_local_port_range)."""


@contextmanager
def up(profile: str) -> Iterator[Path]:
    """The run folder of a running instance; what is started here is stopped at the end."""
    run = settings.run_folder()
    if topology.read(run) is not None and processes.find(run):
        yield run
        return
    run = REPOSITORY / ".run" / OWN
    environment = {**os.environ, "PROFILE": profile, "INSTANCE": OWN, **_free_ports()}
    try:
        _local("up", environment)
        yield run
    finally:
        _local("down", environment)
        shutil.rmtree(run, ignore_errors=True)


def _local(command: str, environment: dict[str, str]) -> None:
    argv = [sys.executable, str(REPOSITORY / "hack" / "local"), command]
    result = subprocess.run(argv, env=environment, stdout=subprocess.DEVNULL, check=False)
    if result.returncode != 0:
        raise ToolError(f"hack/local {command} of instance {OWN} failed; it says why above")


def _free_ports() -> dict[str, str]:
    """Ports for the instance, as variables of hack/local."""
    chosen = settings.load()
    for first in FIRST_PORTS:
        # 100 apart, as the defaults are: replicas count up from theirs.
        numbers = {name: first + 100 * index for index, name in enumerate(settings.VARIABLES)}
        try:
            ports.require_free(topology.plan(dataclasses.replace(chosen, ports=numbers)))
        except ToolError:
            continue
        return {name: str(number) for name, number in numbers.items()}
    raise ToolError(f"no free ports from {FIRST_PORTS.start} to {FIRST_PORTS.stop}")


def pids(run: Path) -> dict[str, int]:
    """The processes of the instance by name."""
    return {name: info["pid"] for name, info in supervisor.states(run).items()}
