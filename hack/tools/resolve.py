"""Finds a tool, or obtains it: from PATH, Debian, a Go module, a Python lock file or npm."""

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from tools import debian, gomodule, npm, progress, pythonlock, table, versions
from tools.errors import ToolError
from tools.table import Tool


def ensure(names: Iterable[str]) -> dict[str, Path]:
    """Obtains missing tools, from several sources at once."""
    tools = [table.find(name) for name in dict.fromkeys(names)]
    programs = {tool.name: locate(tool) for tool in tools}
    missing = [tool for tool in tools if programs[tool.name] is None]
    groups: dict[str, list[Tool]] = {}
    for tool in missing:
        groups.setdefault(_source(tool), []).append(tool)
    if groups:
        with ThreadPoolExecutor(len(groups)) as pool:
            for found in pool.map(_obtain_all, groups.values()):
                programs.update(found)
    return programs


@cache
def tool(name: str) -> Path:
    return ensure([name])[name]


def locate(tool: Tool) -> Path | None:
    for program in _installed(tool):
        if tool.suits and versions.suits(versions.remembered(program, tool), tool.suits):
            return program
    if tool.debian and tool.debian.unpack and (program := debian.unpacked(tool)):
        return program
    if tool.go and (program := gomodule.built(tool)):
        return program
    if tool.python and (program := pythonlock.installed(tool)):
        return program
    if tool.npm and (program := npm.installed(tool)):
        return program
    return None


def _installed(tool: Tool) -> Iterator[Path]:
    """Programs on PATH, then those in the other folders of Debian's packages, newest first."""
    patterns = tool.debian.folders if tool.debian else ()
    off_path = [folder for pattern in patterns for folder in glob.glob(pattern)]
    for folder in [*os.get_exec_path(), *sorted(off_path, reverse=True)]:
        program = Path(folder) / tool.name
        # os.path.isfile is also False in a folder that this user may not enter; Path.is_file would
        # raise.
        if os.path.isfile(program) and os.access(program, os.X_OK):
            yield program


def _source(tool: Tool) -> str:
    """Tools of one source are obtained one at a time.

    The first tool may provide the others as well. A Go build uses every CPU, and the next build
    reuses its compiled packages, which concurrent builds would compile twice.
    """
    if tool.debian and debian.usable():
        return tool.debian.unpack[0] if tool.debian.unpack else "apt"
    if tool.go:
        return "go"
    return tool.python.lock if tool.python else tool.name


def _obtain_all(tools: list[Tool]) -> dict[str, Path]:
    return {tool.name: _obtain(tool) for tool in tools}


def _obtain(tool: Tool) -> Path:
    places = list(_places(tool))
    if not places:
        raise ToolError(_nowhere(tool))
    for place in places[:-1]:
        try:
            return _checked(tool, place(tool))
        except ToolError as error:
            progress.say(tool.name, f"{error}\n  {tool.name:<12} trying the next source")
    return _checked(tool, places[-1](tool))


def _places(tool: Tool) -> Iterator[Callable[[Tool], Path]]:
    if tool.debian and debian.usable():
        yield debian.unpack if tool.debian.unpack else _install_package
    if tool.go:
        yield gomodule.build
    if tool.python:
        yield pythonlock.install
    if tool.npm:
        yield npm.install


def _install_package(tool: Tool) -> Path:
    debian.install(tool.name, tool.debian.package)
    program = locate(tool)
    if program is None:
        raise ToolError(
            f"{tool.name}: Debian's {tool.debian.package} is installed, "
            f"but no {tool.name} {tool.suits} is on PATH"
        )
    return program


def _checked(tool: Tool, program: Path) -> Path:
    """The obtained program must run and have an accepted version."""
    if not tool.version:
        return program
    version = versions.ask(program, tool)
    if not version or (tool.suits and not versions.suits(version, tool.suits)):
        raise ToolError(
            f"{tool.name}: {program} prints the version {version or '(none)'}, "
            f"but {tool.suits or 'a version'} is needed"
        )
    return program


def _nowhere(tool: Tool) -> str:
    unsuited = [
        f"{program} is {versions.remembered(program, tool) or 'of no known version'}"
        for program in _installed(tool)
    ]
    seen = f" ({'; '.join(unsuited)})" if unsuited else ""
    package = tool.debian.package or tool.debian.unpack[0] if tool.debian else ""
    return (
        f"{tool.name} {tool.suits} is not on PATH{seen} and only root can install it here: "
        f"install Debian's {package}, or put {tool.name} on PATH"
    )
