"""Tools built from their Go modules, each pinned by a go.mod and go.sum of its own."""

import os
import shutil
from pathlib import Path

from tools import cache, command, progress
from tools.errors import ToolError
from tools.table import FOLDER, Go, Tool


def built(tool: Tool) -> Path | None:
    """The program of a tool that was built before."""
    program = _program(tool)
    return program if program.exists() else None


def build(tool: Tool) -> Path:
    """Builds a tool and returns its program."""
    program = _program(tool)
    with cache.lock(tool.name):
        if not program.exists():
            _build(tool, program)
    return program


def _program(tool: Tool) -> Path:
    module = _module(tool.go)
    content = [(module / file).read_bytes() for file in ("go.mod", "go.sum")]
    key = cache.key(tool.go.package, tool.go.tags, tool.go.ldflags, *content)
    return cache.root() / "go" / f"{tool.name}-{key}" / tool.name


def _module(go: Go) -> Path:
    return FOLDER / "go" / go.module


def _build(tool: Tool, program: Path) -> None:
    needed = _go_version(tool.go)
    if not shutil.which("go"):
        raise ToolError(
            f"{tool.name}: go is not on PATH. It is built from {tool.go.package}: "
            f"install Go {needed} or newer, or put {tool.name} {tool.suits} on PATH"
        )
    fresh = program.with_name(f"{tool.name}.new")
    log = cache.log(tool.name)
    log.unlink(missing_ok=True)
    program.parent.mkdir(parents=True, exist_ok=True)
    argv = ["go", "build", "-mod=readonly", "-v", "-trimpath", "-buildvcs=false"]
    argv += ["-tags", tool.go.tags, "-ldflags", f"-s -w {tool.go.ldflags}"]
    argv += ["-o", str(fresh), tool.go.package]
    with progress.step(tool.name, f"building {tool.go.package} with Go", log):
        command.run(
            argv,
            log,
            failure=f"{tool.name}: go build failed (it needs Go {needed} or newer)",
            cwd=_module(tool.go),
            env={"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"},
        )
        os.replace(fresh, program)


def _go_version(go: Go) -> str:
    """The oldest Go that the module accepts: the `go` line of its go.mod."""
    for line in (_module(go) / "go.mod").read_text().splitlines():
        if line.startswith("go "):
            return line.split()[1]
    raise ToolError(f"{_module(go) / 'go.mod'} has no go line")
