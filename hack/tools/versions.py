import json
import operator
import os
import re
import subprocess
from pathlib import Path

from tools import cache
from tools.table import Tool

OPERATORS = {">=": operator.ge, "<": operator.lt}


def suits(version: str, wanted: str) -> bool:
    """Whether `version` meets every condition of `wanted`, as in ">=4.0 <5"."""
    if not version:
        return False
    for condition in wanted.split():
        match = re.fullmatch(r"(>=|<)([\d.]+)", condition)
        if not match:
            raise ValueError(f"{condition!r} is not a condition like >=1.2 or <2")
        if not OPERATORS[match[1]](_numbers(version), _numbers(match[2])):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    numbers = [int(number) for number in version.split(".")]
    return tuple(numbers + [0] * (4 - len(numbers)))


def ask(program: Path, tool: Tool) -> str:
    """ "" if the program prints no version or does not run."""
    try:
        result = subprocess.run(
            [program, *tool.version],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    # Envoy also prints its own path, which can contain a version.
    output = (result.stdout + result.stderr).replace(str(program), "")
    match = re.search(r"\d+\.\d+(\.\d+)?", output)
    return match[0] if match and result.returncode == 0 else ""


def remembered(program: Path, tool: Tool) -> str:
    """Like `ask`, but remembers the versions of unchanged files."""
    stat = program.stat()
    identity = f"{program} {stat.st_mtime_ns} {stat.st_size} {' '.join(tool.version)}"
    file = cache.root() / "versions.json"
    if known := _read(file).get(identity):
        return known
    version = ask(program, tool)
    if version:
        with cache.lock("versions"):
            answers = {**_read(file), identity: version}
            fresh = file.with_suffix(".new")
            fresh.write_text(json.dumps(answers, indent=1))
            os.replace(fresh, file)
    return version


def _read(file: Path) -> dict[str, str]:
    try:
        return json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
