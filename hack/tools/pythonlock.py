"""Installs Python tools: one virtual environment per lock file."""

import importlib.util
import json
import shutil
import sys
import tempfile
import tomllib
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from tools import cache, command, debian, progress
from tools.errors import ToolError
from tools.table import FOLDER, Tool

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def installed(tool: Tool) -> Path | None:
    environment = _environment(tool.python.lock)
    return _program(environment, tool) if _complete(environment) else None


def install(tool: Tool) -> Path:
    lock = tool.python.lock
    environment = _environment(lock)
    with cache.lock(f"python-{lock}"):
        if not _complete(environment):
            _make(environment, lock, tool.name)
    return _program(environment, tool)


def _environment(lock: str) -> Path:
    # The interpreter in a virtual environment, such as pytest's, belongs to its base.
    key = cache.key((FOLDER / "python" / f"{lock}.txt").read_bytes(), sys.base_prefix, PYTHON)
    return cache.root() / "python" / f"{lock}-{key}"


def _complete(environment: Path) -> bool:
    # An environment cannot be renamed, because its scripts contain the path of their interpreter. A
    # file therefore marks it as complete.
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
    """Debian's python3 comes without python3-venv."""
    if importlib.util.find_spec("ensurepip"):
        return
    package = f"python{PYTHON}-venv"
    if not debian.usable():
        raise ToolError(
            f"{name}: {sys.executable} cannot make virtual environments. "
            f"As root: apt-get install {package}; then try again"
        )
    debian.install(name, package)


PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
GLIBC = (36, 34, 31, 28, 27, 26, 24, 17)
"""Minor glibc versions that wheels name, up to Debian 12's."""

HEAD = "# Written by `python3 hack/tools lock {name}`, for Python {pythons} on {machines}.\n"


def requirements() -> dict[str, list[str]]:
    return tomllib.loads((FOLDER / "python/requirements.toml").read_text())


def write(name: str) -> None:
    """Resolves an environment for every Python and machine, and writes its lock file."""
    targets = list(product(MACHINES, PYTHONS))
    with ThreadPoolExecutor(len(MACHINES)) as pool:
        reports = dict(zip(targets, pool.map(lambda target: _resolved(name, *target), targets)))
    reports = {target: report for target, report in reports.items() if report}
    if not reports:
        raise ToolError(f"{name}: no Python and machine has wheels of all its packages")
    machines, pythons = (" and ".join(dict.fromkeys(part)) for part in zip(*reports))
    lines = [
        HEAD.format(
            name=name, pythons=pythons.replace(" and", ",", len(PYTHONS) - 2), machines=machines
        )
    ]
    versions: dict[str, set[str]] = defaultdict(set)
    hashes: dict[str, set[str]] = defaultdict(set)
    for item in (item for report in reports.values() for item in report["install"]):
        package = item["metadata"]["name"].lower().replace("_", "-")
        versions[package].add(item["metadata"]["version"])
        hashes[package].add(item["download_info"]["archive_info"]["hashes"]["sha256"])
    for package, found in sorted(versions.items()):
        if len(found) > 1:
            raise ToolError(f"{name}: {package} differs by target: {', '.join(sorted(found))}")
        digests = (f"--hash=sha256:{digest}" for digest in sorted(hashes[package]))
        lines.append(" \\\n    ".join([f"{package}=={found.pop()}", *digests]) + "\n")
    (FOLDER / "python" / f"{name}.txt").write_text("".join(lines))


def _resolved(name: str, machine: str, python: str) -> dict | None:
    """The packages that pip would install, from its installation report; None if a package has no
    wheel for this target.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        argv = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--dry-run",
            "--ignore-installed",
            "--quiet",
        ]
        argv += ["--disable-pip-version-check", "--only-binary", ":all:", "--target", folder]
        argv += ["--python-version", python, "--report", report]
        for minor in GLIBC:
            argv += ["--platform", f"manylinux_2_{minor}_{machine}"]
        argv += ["--platform", f"manylinux2014_{machine}", "--platform", f"linux_{machine}"]
        try:
            command.output([*argv, *requirements()[name]])
        except ToolError as error:
            reason = str(error).splitlines()[-1].strip()
            progress.say(name, f"left out: Python {python} on {machine}: {reason}")
            return None
        return json.loads(report.read_text())
