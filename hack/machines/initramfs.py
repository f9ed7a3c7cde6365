"""The boot archive: busybox, programs with their libraries, kernel modules, and /init."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

INIT = Path(__file__).parent / "init"
PYTHON = Path(sys.executable).resolve()
HACK = Path(__file__).resolve().parents[1]
FOLDERS = ("bin", "dev", "etc", "lib", "lib/modules", "proc", "root", "run", "sys", "tmp", "var")

# File types (inode(7)).
FOLDER, DEVICE, FILE, LINK = 0o040755, 0o020600, 0o100755, 0o120777
CONSOLE = (5, 1)
"""Device number of /dev/console, without which the first process could not print anything."""


class Archive:
    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._folders: set[str] = set()

    def add(self, path: str, content: bytes, mode: int = FILE, device: tuple = (0, 0)) -> None:
        for folder in reversed(Path(path).parents[:-1]):
            self.folder(str(folder))
        self._entry(path, content, mode, device)

    def folder(self, path: str) -> None:
        """Does nothing if the archive contains the folder."""
        if path not in self._folders:
            self._folders.add(path)
            self._entry(path, b"", FOLDER, (0, 0))

    def content(self) -> bytes:
        self._entry("TRAILER!!!", b"", 0, (0, 0))
        return b"".join(self._parts)

    def _entry(self, path: str, content: bytes, mode: int, device: tuple[int, int]) -> None:
        name = path.encode() + b"\0"
        # Inode, mode, owner, group, links, time, size, device, its own device number, name length,
        # checksum.
        fields = (len(self._parts) + 1, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
        self._parts += [_padded(head), _padded(content)]


def build(
    programs: Iterable[Path],
    files: Iterable[Path] = (),
    available: Mapping[str, Path] | None = None,
    first: Iterable[str] = (),
    later: Iterable[str] = (),
) -> bytes:
    """Puts programs in /bin, and files at the same paths as on this machine. The virtual machine
    loads the `first` modules before the others.
    """
    available = available or {}
    archive = Archive()
    for folder in FOLDERS:
        archive.folder(folder)
    archive.add("dev/console", b"", DEVICE, CONSOLE)
    archive.add("init", INIT.read_bytes())
    archive.add("bin/sh", b"busybox", LINK)
    loaded = in_order(available, first)
    archive.add("etc/modules", "".join(f"{name}\n" for name in loaded).encode())
    for name in dict.fromkeys([*loaded, *in_order(available, later)]):
        archive.add(f"lib/modules/{name}.ko", available[name].read_bytes())
    libraries = {path for each in (*programs, *files) for path in _libraries(each)}
    for each in sorted(libraries.union(files)):
        archive.add(str(each).lstrip("/"), each.read_bytes())
    for each in programs:
        archive.add(f"bin/{each.name}", each.read_bytes())
    return archive.content()


def modules(folder: Path) -> dict[str, Path]:
    return {file.stem.replace("-", "_"): file for file in folder.rglob("*.ko")}


def in_order(files: Mapping[str, Path], names: Iterable[str]) -> list[str]:
    order: dict[str, None] = {}
    for name in names:
        # A module's .modinfo section names its dependencies.
        field = re.search(rb"\0depends=([^\0]*)\0", files[name].read_bytes())
        needs = field[1].decode().replace("-", "_").split(",") if field else []
        order.update(dict.fromkeys(in_order(files, filter(None, needs))))
        order[name] = None
    return list(order)


def python(*names: str) -> list[Path]:
    """This Python and all files that it needs to import these modules of `hack`."""
    script = (
        f"import sys, {', '.join(names)}\n"
        "files = (getattr(each, '__file__', None) for each in [*sys.modules.values()])\n"
        "print(*filter(None, files), sep='\\n')"
    )
    found = subprocess.run(
        [PYTHON, "-S", "-c", script],
        env={**os.environ, "PYTHONPATH": str(HACK), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return [PYTHON, *map(Path, found.stdout.split())]


def _libraries(program: Path) -> list[Path]:
    """Returns the loader and libraries of a program or library, or none for other files."""
    with program.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            return []
    found = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", found.stdout)]


def _padded(data: bytes) -> bytes:
    """Pads to a multiple of four bytes."""
    return data + bytes(-len(data) % 4)
