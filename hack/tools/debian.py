"""Installs Debian's packages with apt, or unpacks them into the cache."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tools import cache, command, progress
from tools.errors import ToolError
from tools.table import Debian, Tool

APT = {"DEBIAN_FRONTEND": "noninteractive"}
WAIT = ["-o", "DPkg::Lock::Timeout=300"]
# A mirror that does not respond fails soon, and the command is retried once.
WAIT += ["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20"]


def usable() -> bool:
    """Whether this process can install packages: as root on a system with apt."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(name: str, package: str) -> None:
    log = cache.log(f"apt-{package}")
    log.unlink(missing_ok=True)
    argv = ["apt-get", "install", "-y", "--no-install-recommends", *WAIT, package]
    with cache.lock("apt"), progress.step(name, f"installing Debian's {package}", log):
        _with_fresh_lists(argv, log, f"{name}: apt-get could not install {package}")


def unpacked(tool: Tool) -> Path | None:
    program = _folder(tool.debian) / "bin" / tool.name
    return program if program.exists() else None


def unpack(tool: Tool) -> Path:
    """Unpacks the packages of a tool and returns its program."""
    folder = _folder(tool.debian)
    with cache.lock("apt"):
        if not folder.exists():
            _fill(folder, tool)
        _write_launcher(folder, tool)
    return folder / "bin" / tool.name


def libraries(folder: Path) -> str:
    places = [*folder.glob("usr/lib/*-linux-gnu"), *folder.glob("lib/*-linux-gnu")]
    return ":".join(map(str, sorted(places)))


def _folder(debian: Debian) -> Path:
    key = cache.key(*debian.unpack, *debian.newest)
    return cache.root() / "debian" / f"{debian.unpack[0]}-{key}"


def _fill(folder: Path, tool: Tool) -> None:
    packages = [*tool.debian.unpack, *tool.debian.newest]
    fresh = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    (fresh / "packages").mkdir(parents=True)
    log = cache.log(f"apt-{packages[0]}")
    log.unlink(missing_ok=True)
    with progress.step(tool.name, f"unpacking Debian's {packages[0]} into {folder}", log):
        # apt's own user cannot write into root's cache folder.
        argv = ["apt-get", "download", *WAIT, "-o", "APT::Sandbox::User=root", *packages]
        failure = f"{tool.name}: apt-get could not download {packages[0]}"
        _with_fresh_lists(argv, log, failure, cwd=fresh / "packages")
        if named := _dependencies(fresh / "packages", tool.debian.newest):
            argv[-len(packages) :] = named
            command.run(argv, log, failure=failure, cwd=fresh / "packages", env=APT)
        for package in sorted((fresh / "packages").iterdir()):
            failure = f"{tool.name}: dpkg-deb could not unpack {package.name}"
            command.run(["dpkg-deb", "-x", package, fresh], log, failure=failure)
        shutil.rmtree(fresh / "packages")
        os.rename(fresh, folder)


def _dependencies(folder: Path, packages: Iterable[str]) -> list[str]:
    found = []
    for package in packages:
        (file,) = folder.glob(f"{package}_*.deb")
        argv = ["dpkg-deb", "--field", file, "Depends"]
        field = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        found += [word.split()[0] for word in field.split(",")]
    return found


def _with_fresh_lists(argv: list[str], log: Path, failure: str, cwd: Path | None = None) -> None:
    """If apt fails, retries with new lists, because the old ones may be missing or outdated."""
    try:
        command.run(argv, log, failure=failure, cwd=cwd, env=APT)
    except ToolError:
        command.run(["apt-get", "update", *WAIT], log, failure=failure, env=APT)
        command.run(argv, log, failure=failure, cwd=cwd, env=APT)


def _write_launcher(folder: Path, tool: Tool) -> None:
    """The script starts the unpacked program so that it finds its files."""
    launcher = folder / "bin" / tool.name
    if launcher == folder / tool.debian.program:
        return  # The program needs no script.
    program = shlex.quote(str(folder / tool.debian.program))
    arguments = [
        shlex.quote(argument.format(unpacked=folder)) for argument in tool.debian.arguments
    ]
    export = f"export LD_LIBRARY_PATH={shlex.quote(libraries(folder))}\n"
    launcher.parent.mkdir(exist_ok=True)
    fresh = launcher.with_suffix(".new")
    command_line = f'exec {" ".join([program, *arguments])} "$@"\n'
    fresh.write_text(f"#!/bin/sh\n{export if tool.debian.libraries else ''}{command_line}")
    fresh.chmod(0o755)
    os.replace(fresh, launcher)
