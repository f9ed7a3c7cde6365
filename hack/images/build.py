"""Builds images: their content, their labels, their archives."""

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from images import archive, definitions, index, platforms, stamp
from images.archive import Archive, Image
from images.definitions import Content, Definition
from images.platforms import Platform
from images.stamp import REPOSITORY, Stamp

FOLDER = REPOSITORY / ".run" / "images"


def build(
    names: Iterable[str] = (),
    *,
    tag: str = "",
    arches: Sequence[str] = (),
    out: Path = FOLDER,
) -> list[Archive]:
    """Builds the named images, by default all, for each architecture, by default this machine's.

    Gives an archive `out/NAME-ARCH.tar` of each; for several architectures also `out/NAME.tar`
    with an index over them.
    """
    wanted = [definitions.find(name) for name in names or definitions.DEFINITIONS]
    targets = [platforms.find(arch) for arch in arches] or [platforms.native()]
    mark = stamp.read()
    out.mkdir(parents=True, exist_ok=True)
    built = []
    for definition in wanted:
        each = [_build(definition, platform, mark, tag, out) for platform in targets]
        built += each
        if len(each) > 1:
            built.append(index.join(each, out / f"{definition.name}.tar"))
    return built


def _build(definition: Definition, platform: Platform, mark: Stamp, tag: str, out: Path) -> Archive:
    with tempfile.TemporaryDirectory(prefix=".content-", dir=out) as folder:
        content = definition.content(platform, Path(folder))
        image = Image(
            name=definition.image,
            tag=tag or mark.version,
            arch=platform.arch,
            created=mark.created,
            entrypoint=(definition.entrypoint,),
            ports=definition.ports,
            labels=_labels(definition, content, mark),
        )
        return archive.write(image, content.layers, out / f"{definition.name}-{platform.arch}.tar")


def _labels(definition: Definition, content: Content, mark: Stamp) -> dict[str, str]:
    """Labels of the image and annotations of its manifest (OCI image-spec, annotations.md)."""
    return {
        "org.opencontainers.image.title": definition.image,
        "org.opencontainers.image.description": definition.description,
        "org.opencontainers.image.version": mark.version,
        "org.opencontainers.image.revision": mark.revision,
        "org.opencontainers.image.created": archive.rfc3339(mark.created),
        "org.opencontainers.image.licenses": definition.licenses,
        **content.labels,
    }
