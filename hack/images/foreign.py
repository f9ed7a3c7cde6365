"""Builds images of services outside this repository, from a cargo binary or from any files."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from images import layer, rust, stamp
from images.archive import Layered
from images.definitions import USERS, Content, Definition, Target, base
from images.layer import Entry, File, Folder, Link
from images.rust import Workspace
from images.stamp import Stamp
from local import service
from tools import pythonlock, table
from tools.errors import ToolError

PORTS = (8080, 8081)

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
"""Debian's path, which OpenSSL, rustls and Go search."""

ZONES = "/usr/share/zoneinfo"

NAMES = b"hosts: files dns\n"
"""Content of nsswitch.conf: /etc/hosts before DNS."""

PINNED = 0
"""Modification time of these files, so that images of all services share their layer."""


def machine() -> Layered:
    """Lowest layer of a service's image: certificates and time zones, which programs expect to find
    on their machine.

    Their versions are in the `image` lock file of hack/tools.
    """
    certificates = pythonlock.install(table.find("certificates"))
    zones = pythonlock.install(table.find("timezones"))
    entries: list[Entry] = [
        File(CERTIFICATES, certificates),
        # OpenSSL's default path in other distributions.
        Link("/etc/ssl/cert.pem", "certs/ca-certificates.crt"),
        File("/etc/nsswitch.conf", NAMES),
        # The chart mounts the root read-only: a pod that writes there needs a volume.
        Folder("/tmp", 0o1777),
    ]
    files = sorted(file for file in zones.rglob("*") if file.is_file())
    # The package also contains Python files.
    data = (file for file in files if not file.suffix.startswith(".py"))
    entries += [File(f"{ZONES}/{file.relative_to(zones)}", file) for file in data]
    return Layered(entries, PINNED)


@dataclass(frozen=True)
class Project:
    definition: Definition
    stamp: Stamp


def project(manifest: Path, binary: str, more: Sequence[Entry] = ()) -> Project:
    chosen = service.package(manifest, binary)
    found = service.metadata(Path(chosen.manifest))
    root = Path(found["workspace_root"])
    workspace = Workspace(root, Path(found["target_directory"]) / "corelane", "/project")
    package = service.owner(found, chosen.program)

    def content(target: Target) -> Content:
        options = ["--package", package["name"]]
        built = rust.build_in(workspace, chosen.program, target.platform, target.profile, options)
        own = layer.program(f"/{chosen.program}", built)
        return Content([machine(), Layered([*base(), own, *more])], {})

    definition = Definition(
        name=chosen.program,
        image=chosen.program,
        description=package["description"] or chosen.program,
        licenses=package["license"] or "",
        entrypoint=f"/{chosen.program}",
        ports=PORTS,
        content=content,
    )
    return Project(definition, stamp.read_any(root, package["version"]))


def files(name: str, entrypoint: Sequence[str], entries: Sequence[Entry]) -> Definition:
    if not entrypoint:
        raise ToolError("the entry point is empty: give the path of a program in the image")
    return Definition(
        name=name,
        image=name,
        description=name,
        licenses="",
        entrypoint=entrypoint[0],
        ports=PORTS[:1],
        content=lambda _target: Content([machine(), Layered([*USERS, *entries])], {}),
        arguments=tuple(entrypoint[1:]),
    )


def entries(pairs: Iterable[str]) -> list[Entry]:
    """Files and entire folders from FILE=PATH. Programs remain executable."""
    return [entry for pair in pairs for entry in _entries(pair)]


def _entries(pair: str) -> list[Entry]:
    source, separator, path = pair.rpartition("=")
    if not separator or not path.startswith("/"):
        raise ToolError(f"{pair!r} should be FILE=PATH with an absolute path of the image")
    top = Path(source)
    if not top.exists():
        raise ToolError(f"{source}: there is no such file")
    if top.is_file():
        return [_entry(top, path)]
    below = sorted(file for file in top.rglob("*") if file.is_file())
    return [_entry(file, str(PurePosixPath(path) / file.relative_to(top))) for file in below]


def _entry(file: Path, path: str) -> File:
    return layer.program(path, file) if os.access(file, os.X_OK) else File(path, file)
