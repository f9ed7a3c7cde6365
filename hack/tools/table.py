"""Reads tools.toml."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from tools.errors import ToolError

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Debian:
    """A package to install, or packages to unpack; `folders` contain programs that are not on PATH."""

    package: str = ""
    unpack: tuple[str, ...] = ()
    newest: tuple[str, ...] = ()
    """Packages that need one more package with a versioned name."""
    program: str = ""
    arguments: tuple[str, ...] = ()
    libraries: bool = False
    folders: tuple[str, ...] = ()


@dataclass(frozen=True)
class Go:
    """A main package: in a `release` of its module with a hash, or in a `module` of our own.

    `together` builds it with the module's other tools; `cflags` builds it with cgo and these C
    compiler flags.
    """

    package: str
    release: str = ""
    sum: str = ""
    module: str = ""
    tags: str = ""
    ldflags: str = ""
    gcflags: tuple[str, ...] = ()
    cflags: str = ""
    together: bool = False


@dataclass(frozen=True)
class Python:
    """A lock file, and the program's name in bin if it differs from the tool's, or its path in
    site-packages.
    """

    lock: str
    program: str = ""
    package_file: str = ""


@dataclass(frozen=True)
class Npm:
    package: str
    integrity: str
    file: str


@dataclass(frozen=True)
class Tool:
    name: str
    version: tuple[str, ...] = ()
    suits: str = ""
    debian: Debian | None = None
    go: Go | None = None
    python: Python | None = None
    npm: Npm | None = None


def load() -> dict[str, Tool]:
    raw = tomllib.loads((FOLDER / "tools.toml").read_text())
    return {name: _tool(name, entry, raw) for name, entry in raw.items()}


def find(name: str) -> Tool:
    tools = load()
    if name not in tools:
        raise ToolError(f"unknown tool {name!r}: choose from {', '.join(tools)}")
    return tools[name]


def _tool(name: str, entry: dict, raw: dict) -> Tool:
    debian = entry.get("debian")
    return Tool(
        name=name,
        version=tuple(entry.get("version", ())),
        suits=entry.get("suits", ""),
        debian=_debian(debian, raw) if debian else None,
        go=_go(entry["go"], raw) if "go" in entry else None,
        python=Python(**entry["python"]) if "python" in entry else None,
        npm=Npm(**entry["npm"]) if "npm" in entry else None,
    )


def _go(entry: dict, raw: dict) -> Go:
    fields = {field: value for field, value in entry.items() if field != "build_of"}
    if "build_of" in entry:
        fields = {**raw[entry["build_of"]]["go"], **fields}
    return Go(**{**fields, "gcflags": tuple(fields.get("gcflags", ()))})


def _debian(entry: dict, raw: dict) -> Debian:
    fields = {field: value for field, value in entry.items() if field != "unpack_of"}
    if "unpack_of" in entry:
        fields["unpack"] = raw[entry["unpack_of"]]["debian"]["unpack"]
    return Debian(
        **{
            field: tuple(value) if isinstance(value, list) else value
            for field, value in fields.items()
        }
    )
