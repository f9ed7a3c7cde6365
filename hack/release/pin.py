"""Makes the values of charts name the images that were pushed."""

import re
from pathlib import Path

from release.artefacts import INDEX, Artefact
from tools.errors import ToolError


def pin(charts: list[Path], pushed: list[Artefact]) -> None:
    """Sets the registry of all charts, and the digest in the chart of each image."""
    images = {image.repository.rsplit("/", 1)[1]: image for image in pushed if image.kind == INDEX}
    taken = set()
    for chart in charts:
        file = chart / "values.yaml"
        text = file.read_text()
        name = value(text, "image", "repository")
        if name in images:
            taken.add(name)
            text = changed(text, "image", "digest", images[name].digest)
        # Not image.registry: who mirrors the images has one value to set, for all charts.
        (registry,) = {image.repository.rsplit("/", 1)[0] for image in images.values()}
        file.write_text(changed(text, "global", "imageRegistry", registry))
    if missing := images.keys() - taken:
        raise ToolError(f"no chart takes the image {', '.join(sorted(missing))}")


def value(values: str, block: str, key: str) -> str | None:
    """The value of a key in a block of the top level."""
    line = _line(values, block, key)
    return line["value"].strip("\"'") if line else None


def changed(values: str, block: str, key: str, new: str) -> str:
    """The values with another value of that key, and all else as it is."""
    line = _line(values, block, key)
    if not line:
        raise ToolError(f"values.yaml has no {block}.{key}")
    return values[: line.start("value")] + new + values[line.end("value") :]


def _line(values: str, block: str, key: str) -> re.Match | None:
    """The line of a key; up to it there are only lines of the block, and comments."""
    inside = rf"^{block}:\n(?:(?:[ #].*)?\n)*?  {key}: *(?P<value>\S*)"
    return re.search(inside, values, re.MULTILINE)
