"""Files from Debian's packages, at the versions in debian.json.

apt uses separate folders here, one per architecture, so it does not need root and changes neither
the machine's package lists nor its architectures. It uses the mirror in the machine's settings.
"""

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from images.platforms import PLATFORMS, Platform
from tools import cache, command, progress
from tools.errors import ToolError

LOCK = Path(__file__).resolve().parent / "debian.json"


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    file: Path


def obtain(name: str, platform: Platform) -> Package:
    """Downloads the locked version or, with a warning, Debian's current one."""
    locked = json.loads(LOCK.read_text())[name][platform.arch]
    with cache.lock(f"debian-{platform.arch}"):
        file = _folder(platform) / "locked" / f"{name}-{locked['sha256'][:12]}.deb"
        if file.exists():
            return Package(name, locked["version"], file)
        try:
            found = _download(f"{name}={locked['version']}", platform)
        except ToolError:
            return _offered(name, locked["version"], platform)
        _check(found, locked["sha256"])
        file.parent.mkdir(exist_ok=True)
        return Package(name, locked["version"], found.rename(file))


def lock() -> None:
    locked = json.loads(LOCK.read_text())
    for name in locked:
        for arch, platform in PLATFORMS.items():
            with cache.lock(f"debian-{arch}"):
                file = _download(name, platform)
            locked[name][arch] = {"version": _version(file), "sha256": _sha256(file)}
    LOCK.write_text(json.dumps(locked, indent=2) + "\n")


def extract(package: Package, paths: Iterable[str], folder: Path) -> dict[str, Path]:
    """Writes the files at these absolute paths into `folder`; returns them by path."""
    argv = ["dpkg-deb", "--fsys-tarfile", str(package.file)]
    content = subprocess.run(argv, capture_output=True, check=False)
    if content.returncode != 0:
        raise ToolError(f"{package.file} cannot be read: {content.stderr.decode().strip()}")
    found = {}
    with tarfile.open(fileobj=io.BytesIO(content.stdout)) as tar:
        for path in paths:
            try:
                member = tar.extractfile(f".{path}")
            except KeyError:
                raise ToolError(f"{package.file.name} has no {path}") from None
            found[path] = folder / path.replace("/", "_")
            found[path].write_bytes(member.read())
    return found


def _offered(name: str, version: str, platform: Platform) -> Package:
    file = _download(name, platform)
    offered = _version(file)
    progress.say(
        name,
        f"WARNING: Debian no longer offers {version} for {platform.arch}; this image gets {offered} "
        "and therefore another digest. To pin that version: python3 hack/images lock",
    )
    return Package(name, offered, file)


def _download(package: str, platform: Platform) -> Path:
    """Uses fresh lists; apt checks the package against the signed lists."""
    if not shutil.which("apt-get"):
        raise ToolError(
            f"the gateway's image needs Debian's {package}, and apt-get is not on PATH: "
            "build that image on Debian 12"
        )
    state, target = _folder(platform), _folder(platform) / "downloads"
    for folder in ("lists/partial", "archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    log = cache.log(f"debian-{platform.arch}")
    log.unlink(missing_ok=True)
    options = _options(platform, state)
    with progress.step("debian", f"downloading {package} for {platform.arch}", log):
        failure = f"apt-get could not update the lists for {platform.arch}"
        command.run(["apt-get", *options, "update"], log, failure=failure)
        failure = f"Debian does not offer {package} for {platform.arch}"
        command.run(["apt-get", *options, "download", package], log, failure=failure, cwd=target)
    (file,) = target.iterdir()
    return file


def _options(platform: Platform, state: Path) -> list[str]:
    settings = {
        "APT::Architecture": platform.arch,
        "APT::Architectures": platform.arch,
        # apt's own user cannot write into this user's cache folder.
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "Acquire::Retries": "1",
        "Acquire::http::Timeout": "20",
        "Dir::State": state,
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state,
    }
    return [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]


def _folder(platform: Platform) -> Path:
    return cache.root() / "images" / f"debian-{platform.arch}"


def _check(file: Path, sha256: str) -> None:
    found = _sha256(file)
    if found != sha256:
        raise ToolError(
            f"{file.name} has the sha256 {found}, but {LOCK.name} expects {sha256}. "
            "If Debian's is the right one: python3 hack/images lock"
        )


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _version(file: Path) -> str:
    return command.output(["dpkg-deb", "--field", file, "Version"]).strip()
