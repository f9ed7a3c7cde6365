"""Sets the pushed images in the values of charts."""

import re
from pathlib import Path

from release.artefacts import INDEX, Artefact
from tools.errors import ToolError

MORE = r"(?:(?:(?P=indent)  .*|[ #].*)?\n)*?"
"""Lines of a block and comments, as few as possible."""

IMAGE = re.compile(
    r"^(?P<indent> *)image:\n"
    rf"{MORE}(?P=indent)  repository: *(?P<name>\S+)\n"
    rf"{MORE}(?P=indent)  digest: *(?P<digest>\S*)\n",
    re.MULTILINE,
)
"""A block `image` of any depth, which has its keys in this order."""


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
        # Not image.registry: a mirror needs one value for all charts.
        (registry,) = {image.repository.rsplit("/", 1)[0] for image in images.values()}
        file.write_text(changed(text, "global", "imageRegistry", registry))
    if missing := images.keys() - taken:
        raise ToolError(f"no chart uses the image {', '.join(sorted(missing))}")


def changed(values: str, block: str, key: str, new: str) -> str:
    """The values with another value for a key in a top-level block."""
    # Up to the key there are only lines of the block, and comments.
    inside = rf"^{block}:\n(?:(?:[ #].*)?\n)*?  {key}: *(?P<value>\S*)"
    if found := re.search(inside, values, re.MULTILINE):
        return _replaced(values, found, "value", new)
    raise ToolError(f"values.yaml has no {block}.{key}")


def _replaced(text: str, found: re.Match, group: str, new: str) -> str:
    return text[: found.start(group)] + new + text[found.end(group) :]
