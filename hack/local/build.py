"""Builds a service's program and lists its source files."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from local import service, settings
from local.service import REFERENCE, Service
from tools import command, progress
from tools.errors import ToolError

PROGRESS = {"CARGO_TERM_PROGRESS_WHEN": "always", "CARGO_TERM_PROGRESS_WIDTH": "100"}
"""Makes cargo report progress although its output is a file."""

LINES = 40

COMMAND = "corelane"

LOG = "build.log"

FOLDER = "program"
"""Folder in the run folder for the copy of the program that replicas run, so that no build
overwrites it.
"""


@dataclass(frozen=True)
class Built:
    program: Path
    sources: tuple[Path, ...]


def build(wanted: Service, run: Path, profile: str) -> Built:
    """Skipped for a prebuilt program; the log is in the run folder."""
    if not wanted.manifest:
        return Built(Path(wanted.program), (Path(wanted.program),))
    _need_cargo()
    manifest = Path(wanted.manifest)
    (run / LOG).unlink(missing_ok=True)
    program = _cargo(wanted.program, manifest, profile, _selection(wanted, profile), run)
    return Built(program, (*_manifests(manifest), *_inputs(program)))


def command_line(wanted: Service, run: Path, profile: str) -> Path:
    """Builds the `corelane` program, which serves the dashboard, together with the reference
    server.
    """
    _need_cargo()
    manifest = Path(REFERENCE.manifest)
    if wanted == REFERENCE:
        return _cargo(COMMAND, manifest, profile, _selection(wanted, profile), run)
    # The service may have its own profiles.
    known = profile if profile in settings.PROFILES else settings.PROFILES[0]
    return _cargo(COMMAND, manifest, known, ["--locked", "-p", "corelane-cli"], run)


def _need_cargo() -> None:
    if not shutil.which("cargo"):
        raise ToolError("cargo is not on PATH: install Rust (README, section Requirements)")


def _cargo(name: str, manifest: Path, profile: str, selection: list[str], run: Path) -> Path:
    argv = ["cargo", "build", "--profile", profile, *selection]
    with progress.step(name, " ".join(argv), run / LOG):
        messages = command.run(
            [*argv, "--message-format", "json-render-diagnostics"],
            run / LOG,
            failure=f"{name} does not build",
            cwd=manifest.parent,
            env=PROGRESS,
            lines=LINES,
        )
    return _executable(messages, name)


def _selection(wanted: Service, profile: str) -> list[str]:
    if wanted != REFERENCE:
        return ["--bin", wanted.program]
    # Build them together, because a separate build would use fewer features of the dependencies and
    # compile them again. Tests reuse the build of `cargo test`, so examples are built with the
    # features of dev-dependencies.
    packages = (
        ["--bins", "--examples"]
        if profile == "dev"
        else ["-p", "corelane-server", "-p", "corelane-cli"]
    )
    return ["--locked", *packages]


def _executable(messages: str, name: str) -> Path:
    lines = (json.loads(line) for line in messages.splitlines() if line.startswith("{"))
    for each in lines:
        if each["reason"] == "compiler-artifact" and each["executable"]:
            target = each["target"]
            if target["name"] == name and "bin" in target["kind"]:
                return Path(each["executable"])
    raise ToolError(f"cargo built no binary {name}")


def _manifests(manifest: Path) -> list[Path]:
    """Files that determine dependencies; cargo does not list them among the inputs."""
    found = service.metadata(manifest)
    root = Path(found["workspace_root"])
    own = [Path(each["manifest_path"]) for each in found["packages"]]
    return [root / "Cargo.toml", root / "Cargo.lock", *own]


def _inputs(program: Path) -> list[Path]:
    """Sources of the package and its path dependencies, from the make rule that cargo writes."""
    file = program.with_suffix(".d")
    _, _, names = file.read_text().partition(": ") if file.exists() else ("", "", "")
    return [
        Path(name.replace("\\ ", " ")) for name in re.findall(r"(?:\\ |\S)+", names.split("\n")[0])
    ]


def installed(wanted: Service, run: Path) -> Path:
    """The program that replicas run."""
    return run / FOLDER / Path(wanted.program).name


def install(built: Path, run: Path) -> Path:
    """Copies a program to where replicas start it; running replicas keep the previous one."""
    folder = run / FOLDER
    folder.mkdir(exist_ok=True)
    fresh = folder / f".{built.name}.new"
    shutil.copy2(built, fresh)
    return fresh.rename(folder / built.name)
