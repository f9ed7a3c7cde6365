"""The service of an instance: the reference server, a cargo package, or any program."""

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from stack import REPOSITORY
from tools import command
from tools.errors import ToolError

RUNTIMES = ("corelane", "other")
"""Whether the service uses the corelane-service crate (the default) or not."""

HEALTH = "/healthz"
"""Default health check path of a replica with the `other` runtime."""


@dataclass(frozen=True)
class Service:
    """The service in each replica. Replica names start with its name."""

    name: str
    program: str
    """Name of the binary target; without a manifest, the path of the program."""
    manifest: str = ""
    runtime: str = RUNTIMES[0]
    health: str = HEALTH
    gateway: dict = field(default_factory=dict)
    """Gateway chart values to add to the local gateway's own values."""

    @property
    def chassis(self) -> bool:
        return self.runtime == "corelane"


REFERENCE = Service("server", "corelane-server", str(REPOSITORY / "services" / "Cargo.toml"))


def package(
    manifest: Path, binary: str, runtime: str = RUNTIMES[0], health: str = HEALTH
) -> Service:
    """A cargo binary. Its package may contain gateway chart values in
    `package.metadata.corelane.gateway`.
    """
    if manifest.is_dir():
        manifest = manifest / "Cargo.toml"
    if not manifest.is_file():
        raise ToolError(f"{manifest}: there is no such file; give the Cargo.toml of the service")
    manifest = manifest.resolve()
    found = metadata(manifest)
    wanted = found["workspace_default_members"]
    packages = [each for each in found["packages"] if each["id"] in wanted]
    if binary:
        packages = found["packages"]
    binaries = _binaries(packages)
    chosen = binary or _default(binaries)
    if chosen not in binaries:
        names = ", ".join(sorted(binaries)) or "none"
        what = f"no binary {binary!r}" if binary else "not exactly one binary"
        raise ToolError(f"{manifest}: {what}; choose one by name. Its binaries: {names}")
    own = (owner(found, chosen)["metadata"] or {}).get("corelane", {}).get("gateway", {})
    return Service(chosen, chosen, str(manifest), runtime, health, own)


def owner(found: dict, binary: str) -> dict:
    return _binaries(found["packages"])[binary]


def _binaries(packages: list[dict]) -> dict[str, dict]:
    return {
        target["name"]: each
        for each in packages
        for target in each["targets"]
        if "bin" in target["kind"]
    }


def _default(binaries: dict[str, dict]) -> str:
    """The only binary, or the one that `cargo run` would choose."""
    named = {each["default_run"] for each in binaries.values() if each["default_run"]}
    choice = list(binaries) if len(binaries) == 1 else list(named)
    return choice[0] if len(choice) == 1 else ""


def named(name: str, manifest: Path | None) -> Service:
    """A folder with a package, or a binary of the workspace."""
    if (Path(name) / "Cargo.toml").is_file():
        return package(Path(name), "")
    if manifest is None:
        raise ToolError(f"{name} is no folder with a Cargo.toml, and there is no Cargo.toml here")
    return package(manifest, name)


def program(path: Path, runtime: str, health: str) -> Service:
    if not os.access(path, os.X_OK) or not path.is_file():
        raise ToolError(f"{path} is not a program: give the path of an executable file")
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem)
    return Service(name, str(path.resolve()), runtime=runtime, health=health)


def require_distinct(services: list[Service]) -> None:
    for index, each in enumerate(services):
        if each.name in {before.name for before in services[:index]}:
            raise ToolError(f"two services are called {each.name}: rename one of the binaries")


def metadata(manifest: Path) -> dict:
    """A workspace's packages without their dependencies, as described by cargo."""
    argv = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--manifest-path", manifest]
    return json.loads(command.output(argv, cwd=manifest.parent))
