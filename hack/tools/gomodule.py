"""Tools built from Go modules.

Most are built in their authors' module, with its go.mod and go.sum; the module's hash in tools.toml
pins everything. The other tools come from our own modules.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tools import cache, command, progress
from tools.errors import ToolError
from tools.table import FOLDER, Go, Tool


def built(tool: Tool) -> Path | None:
    program = _program(tool)
    return program if program.exists() else None


def build(tool: Tool) -> Path:
    program = _program(tool)
    with cache.lock(_name(tool)):
        if not program.exists():
            _build(tool, program)
    return program


def build_for(tool: Tool, arch: str) -> Path:
    """Builds a tool for an image, with exactly this machine's Go."""
    go = _need_go(tool)
    version = subprocess.run([go, "env", "GOVERSION"], capture_output=True, check=True).stdout
    program = _program(tool, arch, version)
    with cache.lock(f"{_name(tool)}-{arch}"):
        if not program.exists():
            _build(tool, program, {"GOARCH": arch, "GOOS": "linux"})
    return program


def _name(tool: Tool) -> str:
    """The tool's name, or the module's name if its tools are built together."""
    return tool.go.module if tool.go.together else tool.name


def source(tool: Tool) -> Path:
    """Returns the folder for building a tool; downloads a foreign module first."""
    if tool.go.module:
        return FOLDER / "go" / tool.go.module
    argv = [_need_go(tool), "mod", "download", "-json", tool.go.release]
    found = json.loads(command.output(argv, cwd=FOLDER, env={"GOFLAGS": "", "GOWORK": "off"}))
    if found["Sum"] != tool.go.sum:
        raise ToolError(
            f"{tool.name}: {tool.go.release} has the hash {found['Sum']}, but tools.toml says {tool.go.sum}"
        )
    return Path(found["Dir"])


def _program(tool: Tool, *target: str | bytes) -> Path:
    content: list[str | bytes] = [tool.go.sum]
    if tool.go.module:
        module = source(tool)
        files = [module / "go.mod", module / "go.sum", *sorted(module.glob("*.go"))]
        content = [file.read_bytes() for file in files]
    package = "tool" if tool.go.together else tool.go.package
    flags = [tool.go.tags, tool.go.ldflags, *tool.go.gcflags]
    flags += [tool.go.cflags] if tool.go.cflags else []
    key = cache.key(package, *flags, *content, *target)
    return cache.root() / "go" / f"{_name(tool)}-{key}" / tool.name


def _need_go(tool: Tool) -> str:
    go = shutil.which("go")
    if not go:
        raise ToolError(
            f"{tool.name}: go is not on PATH. It is built from {tool.go.package}: install "
            f"Go, or put {tool.name} {tool.suits} on PATH"
        )
    return go


def _build(tool: Tool, program: Path, target: Mapping[str, str] | None = None) -> None:
    module = source(tool)
    go = _need_go(tool)
    name = _name(tool)
    # The `tool` pattern matches every tool in go.mod (go help packages).
    packages = "tool" if tool.go.together else tool.go.package
    fresh = program.parent / "new"
    log = cache.log(name)
    log.unlink(missing_ok=True)
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    output = f"{fresh}/" if tool.go.together else str(fresh / tool.name)
    argv = [go, "build", "-mod=readonly", "-v", "-trimpath", "-buildvcs=false"]
    argv += ["-tags", tool.go.tags, "-ldflags", f"-s -w {tool.go.ldflags}"]
    # The linker strips debugging data, so the compiler does not have to write them, which saves a
    # seventh of its CPU time.
    argv += [f"-gcflags={flags}" for flags in ("all=-dwarf=false", *tool.go.gcflags)]
    argv += ["-o", output, packages]
    what = f"the tools of {tool.go.module}" if tool.go.together else tool.go.package
    with progress.step(name, f"building {what} with Go", log):
        command.run(
            argv,
            log,
            failure=f"{name}: go build failed",
            cwd=module,
            env={**_cgo(tool.go), "GOFLAGS": "", "GOWORK": "off", **(target or {})},
        )
        for built_program in fresh.iterdir():
            os.replace(built_program, program.parent / built_program.name)
        fresh.rmdir()


def _cgo(go: Go) -> dict[str, str]:
    return {"CGO_ENABLED": "1", "CGO_CFLAGS": go.cflags} if go.cflags else {"CGO_ENABLED": "0"}
