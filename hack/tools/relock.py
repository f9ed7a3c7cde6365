"""Writes the lock files of the Python tools: the versions, and the hashes of the wheels that pip would install."""

import json
import sys
import tempfile
import tomllib
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from tools import command, progress
from tools.errors import ToolError
from tools.table import FOLDER

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
GLIBC = (36, 34, 31, 28, 27, 26, 24, 17)
"""Minor versions of the C libraries that wheels name, up to that of Debian 12."""

HEAD = "# Written by `python3 hack/tools lock {name}`, for Python {pythons} on {machines}.\n"


def requirements() -> dict[str, list[str]]:
    """What each environment has, by the name of its lock file."""
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
    """What pip would install (its installation report); None if a package has no wheel for this target."""
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
