"""Packages the charts with the digests of their images, and pushes them."""

import gzip
import os
import re
import shutil
import tarfile
from io import BytesIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from release import artifacthub
from release.artefacts import CHART, INDEX, Artefact, digest_in
from tools import command, resolve
from tools.errors import ToolError


def released(root: Path) -> list[Path]:
    """Returns the charts that users install: all but the library charts."""
    return [
        file.parent
        for file in sorted(root.glob("charts/*/Chart.yaml"))
        if not re.search(r"^type: *library", file.read_text(), re.MULTILINE)
    ]


def keep_released(root: Path, version: str) -> None:
    """Packages the unmodified umbrella chart with its dependencies, unless its archive of `version`
    exists.
    """
    folder = root / "tests" / "charts" / "released"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / f"corelane-{version}.tgz").exists():
        with TemporaryDirectory() as copies:
            package(vendored(root / "charts" / "corelane", Path(copies)), folder)


def package(chart: Path, folder: Path) -> Path:
    output = command.output([_helm(), "package", chart, "--destination", folder])
    # "Successfully packaged chart and saved it to: FILE"
    return Path(output.strip().rsplit(": ", 1)[1])


def vendored(chart: Path, folder: Path) -> Path:
    """Copies a chart and the targets of its links into `folder`, because Helm prints a line for
    each link.
    """
    copy = folder / chart.name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(chart, copy)
    return copy


def package_all(
    root: Path, images: list[Artefact], folder: Path, repository: str | None = None
) -> list[Path]:
    """Packages the charts of `root` so that they use the pushed `images` and name the repository's address."""
    shutil.rmtree(folder, ignore_errors=True)
    # Keep links: a chart has links to its dependencies, and to files in other folders.
    for part in ("charts", "dashboards", "loadtests/scenarios", "loadtests/lib"):
        shutil.copytree(root / part, folder / part, symlinks=True)
    charts = released(folder)
    pin(charts, images)
    if repository:
        for file in folder.glob("charts/*/Chart.yaml"):
            text = file.read_text().replace(OWNERS_ICON, f"{repository}/raw")
            file.write_text(text.replace(OWNERS, repository))
    version = (root / "VERSION").read_text().strip()
    changes = artifacthub.changes_of((root / "CHANGELOG.md").read_text(), version)
    for chart in charts:
        file, used = chart / "Chart.yaml", images_in((chart / "values.yaml").read_text(), version)
        file.write_text(artifacthub.annotated(file.read_text(), used, changes))
    packages = [package(vendored(chart, folder / "vendored"), folder) for chart in charts]
    # The commit's time does not change if a release is packaged again.
    time = int(command.output(["git", "log", "-1", "--format=%ct"], cwd=root))
    for file in packages:
        repack(file, time)
        # `helm push` writes the archive's modification time into the manifest.
        os.utime(file, (time, time))
    return packages


def push(registry: str, version: str, packages: list[Path], options: list[str]) -> list[Artefact]:
    pushed = []
    for file in packages:
        name = file.name.removesuffix(f"-{version}.tgz")
        argv = [_helm(), "push", file, f"oci://{registry}/charts", *options]
        # Helm prints the digest on stderr.
        digest = digest_in(command.said(argv), "helm push")
        pushed.append(Artefact(CHART, name, f"{registry}/charts/{name}", digest, tag=version))
    return pushed


def _helm() -> Path:
    return resolve.tool("helm")


OWNERS = "https://github.com/OWNER/corelane"
OWNERS_ICON = "https://raw.githubusercontent.com/OWNER/corelane"
"""Placeholders for the repository, which is known only to a release."""

MORE = r"(?:(?:(?P=indent)  .*|[ #].*)?\n)*?"

IMAGE = re.compile(
    r"^(?P<indent> *)image:\n"
    rf"{MORE}(?P=indent)  repository: *(?P<name>\S+)\n"
    rf"{MORE}(?P=indent)  digest: *(?P<digest>\S*)\n",
    re.MULTILINE,
)


def pin(charts: list[Path], pushed: list[Artefact]) -> None:
    """Sets the registry in all charts, and the digest of every image that they use."""
    images = {image.repository.rsplit("/", 1)[1]: image for image in pushed if image.kind == INDEX}
    taken = set()
    for chart in charts:
        file = chart / "values.yaml"
        text = file.read_text()
        for found in reversed(list(IMAGE.finditer(text))):
            name = found["name"].strip("\"'")
            if name in images:
                taken.add(name)
                text = _replaced(text, found, "digest", images[name].digest)
        # This does not set image.registry, because a mirror needs one value for all charts.
        (registry,) = {image.repository.rsplit("/", 1)[0] for image in images.values()}
        file.write_text(changed(text, "global", "registry", registry))
    if missing := images.keys() - taken:
        raise ToolError(f"no chart uses the image {', '.join(sorted(missing))}")


def images_in(values: str, version: str) -> dict[str, str]:
    """Returns the references of the images that pinned values name, by name."""
    found = {}
    for match in IMAGE.finditer(values):
        name = match["name"].strip("\"'")
        of = {key: _value(match[0], key) for key in ("registry", "tag", "digest")}
        registry = of["registry"] or _value(values, "registry", r"^global:\n(?:(?:[ #].*)?\n)*?")
        mark = f"@{of['digest']}" if of["digest"] else f":{of['tag'] or version}"
        if name:
            found[name.rsplit("/", 1)[-1]] = f"{registry}/{name}{mark}"
    return found


def _value(text: str, key: str, before: str = "^") -> str:
    match = re.search(rf"{before} +{key}: *(\S*)", text, re.MULTILINE)
    return match[1].strip("\"'") if match else ""


def changed(values: str, block: str, key: str, new: str) -> str:
    """Returns the values with a different value for a key in a top-level block."""
    # Only lines of the block and comments precede the key.
    inside = rf"^{block}:\n(?:(?:[ #].*)?\n)*?  {key}: *(?P<value>\S*)"
    if found := re.search(inside, values, re.MULTILINE):
        return _replaced(values, found, "value", new)
    raise ToolError(f"values.yaml has no {block}.{key}")


def _replaced(text: str, found: re.Match, group: str, new: str) -> str:
    return text[: found.start(group)] + new + text[found.end(group) :]


def repack(file: Path, time: int) -> None:
    """Sorts the files of a .tgz and sets their modification times.

    `helm package` writes subcharts in an order that changes from run to run.
    """
    with tarfile.open(file, "r:gz") as archive:
        contents = {
            member.name: archive.extractfile(member).read() for member in archive if member.isfile()
        }
    packed = BytesIO()
    # gzip's header contains neither a name nor a time.
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as archive,
    ):
        for name in sorted(contents, key=_place):
            member = tarfile.TarInfo(name)
            member.mode, member.mtime, member.size = 0o644, time, len(contents[name])
            archive.addfile(member, BytesIO(contents[name]))
    file.write_bytes(packed.getvalue())


def _place(name: str) -> tuple[bool, str]:
    return len(PurePosixPath(name).parts) != 2 or not name.endswith("/Chart.yaml"), name
