"""Builds images: content, labels and archives."""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from images import archive, definitions, platforms, rust, stamp
from images.archive import Archive, Image
from images.definitions import Content, Definition, Target
from images.stamp import Stamp
from stack import REPOSITORY

FOLDER = REPOSITORY / ".run" / "images"


@dataclass(frozen=True)
class Options:
    tag: str = ""
    """Defaults to the version. The first digits of the digest replace the placeholder `{digest}`.
    """
    arches: Sequence[str] = ()
    profile: str = rust.RELEASE
    out: Path = FOLDER


def build(names: Iterable[str] = (), options: Options = Options()) -> list[Archive]:
    wanted = [definitions.find(name) for name in names or definitions.DEFINITIONS]
    return make(wanted, stamp.read(), options)


def make(wanted: Iterable[Definition], mark: Stamp, options: Options) -> list[Archive]:
    targets = [platforms.find(arch) for arch in options.arches] or [platforms.native()]
    options.out.mkdir(parents=True, exist_ok=True)
    built = []
    for definition in wanted:
        for platform in targets:
            with tempfile.TemporaryDirectory(prefix=".content-", dir=options.out) as folder:
                target = Target(platform, Path(folder), options.profile)
                built.append(_build(definition, target, mark, options))
    return built


def _build(definition: Definition, target: Target, mark: Stamp, options: Options) -> Archive:
    content = definition.content(target)
    arch = target.platform.arch
    image = Image(
        name=definition.image,
        tag=options.tag or mark.version,
        arch=arch,
        created=mark.created,
        entrypoint=(definition.entrypoint, *definition.arguments),
        ports=definition.ports,
        labels=_labels(definition, content, mark),
    )
    return archive.write(image, content.layers, options.out / f"{definition.name}-{arch}.tar")


def _labels(definition: Definition, content: Content, mark: Stamp) -> dict[str, str]:
    labels = {
        "org.opencontainers.image.title": definition.image,
        "org.opencontainers.image.description": definition.description,
        "org.opencontainers.image.version": mark.version,
        "org.opencontainers.image.revision": mark.revision,
        "org.opencontainers.image.created": archive.rfc3339(mark.created),
        "org.opencontainers.image.licenses": definition.licenses,
        **content.labels,
    }
    return {name: value for name, value in labels.items() if value}
