"""Single files of npm packages."""

import base64
import hashlib
import shutil
import tarfile
import tempfile
from pathlib import Path

from tools import cache, command, progress
from tools.errors import ToolError
from tools.table import Tool


def installed(tool: Tool) -> Path | None:
    file = _file(tool)
    return file if file.exists() else None


def install(tool: Tool) -> Path:
    file = _file(tool)
    with cache.lock(f"npm-{tool.name}"):
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            with progress.step(tool.name, f"npm pack {tool.npm.package}", cache.log(tool.name)):
                _unpack(tool, file)
    return file


def _file(tool: Tool) -> Path:
    key = cache.key(tool.npm.package, tool.npm.integrity)
    return cache.root() / "npm" / f"{tool.name}-{key}" / Path(tool.npm.file).name


def _unpack(tool: Tool, file: Path) -> None:
    npm = shutil.which("npm")
    if not npm:
        raise ToolError(f"{tool.name}: npm is not on PATH, and has {tool.npm.package}: install it")
    with tempfile.TemporaryDirectory() as folder:
        argv = [npm, "pack", "--ignore-scripts", "--pack-destination", folder, tool.npm.package]
        command.run(argv, cache.log(tool.name), failure=f"{tool.name}: npm pack failed")
        (archive,) = Path(folder).glob("*.tgz")
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if f"sha512-{digest}" != tool.npm.integrity:
            raise ToolError(
                f"{tool.name}: {tool.npm.package} has the hash sha512-{digest}, "
                f"but tools.toml says {tool.npm.integrity}"
            )
        with tarfile.open(archive) as package:
            content = package.extractfile(f"package/{tool.npm.file}")
            assert content, f"{tool.npm.file} is not a file"
            fresh = file.with_suffix(".new")
            fresh.write_bytes(content.read())
            fresh.rename(file)
