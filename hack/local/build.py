"""Builds the program of a service, and says from which files."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from local import service
from local.service import REFERENCE, Service
from tools import command, progress
from tools.errors import ToolError

PROGRESS = {"CARGO_TERM_PROGRESS_WHEN": "always", "CARGO_TERM_PROGRESS_WIDTH": "100"}
"""Cargo writes how far it is, although its output is a file."""

LINES = 40
"""Lines of cargo's output in an error."""

FOLDER = "program"
"""In the run folder: replicas run a copy of the program, which no build overwrites."""


@dataclass(frozen=True)
class Built:
    """A program and the files and folders that it is made of."""

    program: Path
    sources: tuple[Path, ...]


def build(wanted: Service, run: Path, profile: str) -> Built:
    """Builds it with a cargo profile, unless it is a program already; the log goes into the run folder."""
    if not wanted.manifest:
        return Built(Path(wanted.program), (Path(wanted.program),))
    if not shutil.which("cargo"):
        raise ToolError("cargo is not on PATH: install Rust (README, section Requirements)")
    manifest = Path(wanted.manifest)
    log = run / "build.log"
    log.unlink(missing_ok=True)
    argv = ["cargo", "build", "--profile", profile, *_selection(wanted, profile)]
    with progress.step(wanted.name, " ".join(argv), log):
        messages = command.run(
            [*argv, "--message-format", "json-render-diagnostics"],
            log,
            failure=f"{wanted.program} does not build",
            cwd=manifest.parent,
            env=PROGRESS,
            lines=LINES,
        )
    program = _executable(messages, wanted.program)
    return Built(program, (*_manifests(manifest), *_inputs(program)))


def _selection(wanted: Service, profile: str) -> list[str]:
    if wanted != REFERENCE:
        return ["--bin", wanted.program]
    # As tests build all programs: alone it would take fewer features of what it depends on, and that would be built
    # once more.
    return ["--locked", "--bins"] if profile == "dev" else ["--locked", "-p", "corelane-server"]


def _executable(messages: str, name: str) -> Path:
    """The program that cargo built or found up to date."""
    lines = (json.loads(line) for line in messages.splitlines() if line.startswith("{"))
    for each in lines:
        if each["reason"] == "compiler-artifact" and each["executable"]:
            target = each["target"]
            if target["name"] == name and "bin" in target["kind"]:
                return Path(each["executable"])
    raise ToolError(f"cargo built no binary {name}")


def _manifests(manifest: Path) -> list[Path]:
    """Files that decide about dependencies: cargo does not list them among the inputs."""
    found = service.metadata(manifest)
    root = Path(found["workspace_root"])
    own = [Path(each["manifest_path"]) for each in found["packages"]]
    return [root / "Cargo.toml", root / "Cargo.lock", *own]


def _inputs(program: Path) -> list[Path]:
    """Sources of the package and of its path dependencies, from the rule for make that cargo writes."""
    file = program.with_suffix(".d")
    _, _, names = file.read_text().partition(": ") if file.exists() else ("", "", "")
    return [
        Path(name.replace("\\ ", " ")) for name in re.findall(r"(?:\\ |\S)+", names.split("\n")[0])
    ]


def install(built: Path, run: Path) -> Path:
    """Copies a program to where replicas start it; those that run keep the one they have."""
    folder = run / FOLDER
    folder.mkdir(exist_ok=True)
    fresh = folder / f".{built.name}.new"
    shutil.copy2(built, fresh)
    return fresh.rename(folder / built.name)
