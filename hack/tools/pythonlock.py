"""Python tools: one virtual environment for each lock file."""

import importlib.util
import shutil
import sys
from pathlib import Path

from tools import cache, command, debian, progress
from tools.errors import ToolError
from tools.table import FOLDER, Tool

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def installed(tool: Tool) -> Path | None:
    """The program of a tool whose environment exists."""
    environment = _environment(tool.python.lock)
    return _program(environment, tool) if _complete(environment) else None


def install(tool: Tool) -> Path:
    """Makes the environment of a tool and returns its program."""
    lock = tool.python.lock
    environment = _environment(lock)
    with cache.lock(f"python-{lock}"):
        if not _complete(environment):
            _make(environment, lock, tool.name)
    return _program(environment, tool)


def _environment(lock: str) -> Path:
    # A virtual environment, such as pytest's own, has the interpreter of its base.
    key = cache.key((FOLDER / "python" / f"{lock}.txt").read_bytes(), sys.base_prefix, PYTHON)
    return cache.root() / "python" / f"{lock}-{key}"


def _complete(environment: Path) -> bool:
    # An environment cannot be renamed, because its scripts name their interpreter: a file marks it complete.
    return (environment / ".complete").exists() and (environment / "bin/python").exists()


def _program(environment: Path, tool: Tool) -> Path:
    if tool.python.package_file:
        return environment / f"lib/python{PYTHON}/site-packages" / tool.python.package_file
    return environment / "bin" / (tool.python.program or tool.name)


def _make(environment: Path, lock: str, name: str) -> None:
    _need_venv(name)
    shutil.rmtree(environment, ignore_errors=True)
    log = cache.log(f"python-{lock}")
    log.unlink(missing_ok=True)
    with progress.step(name, f"installing python/{lock}.txt into {environment}", log):
        command.run(
            [sys.executable, "-m", "venv", environment],
            log,
            failure=f"{name}: python3 -m venv failed",
        )
        argv = [environment / "bin/python", "-m", "pip", "install", "--no-input"]
        argv += ["--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:"]
        argv += ["-r", FOLDER / "python" / f"{lock}.txt"]
        command.run(argv, log, failure=f"{name}: pip could not install python/{lock}.txt")
        (environment / ".complete").touch()


def _need_venv(name: str) -> None:
    """Debian's python3 comes without ensurepip; its python3-venv package brings it."""
    if importlib.util.find_spec("ensurepip"):
        return
    package = f"python{PYTHON}-venv"
    if not debian.usable():
        raise ToolError(
            f"{name}: {sys.executable} cannot make virtual environments. "
            f"As root: apt-get install {package}; then try again"
        )
    debian.install(name, package)
