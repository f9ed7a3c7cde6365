"""Describes a report's charts; matplotlib draws them, in the Python that contains it."""

import json
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools import resolve
from tools.errors import ToolError

PYTHON = "plots-python"
SCRIPT = Path(__file__).with_name("draw.py")


@dataclass
class Series:
    """The values of one name; several values at a place are drawn as their median with a range."""

    name: str
    points: list[tuple[float | str, Sequence[float]]] = field(default_factory=list)
    """A place, which is a number on a line and otherwise a name, and the values measured there."""
    reference: bool = False
    """Whether this is the baseline, drawn as a thin grey line."""
    dots: bool = False
    """Whether a panel of lines shows these as points without a line."""
    look: dict[str, Any] = field(default_factory=dict)


@dataclass
class Panel:
    series: list[Series]
    title: str = ""
    x: str = ""
    y: str = ""
    kind: str = "dots"
    """`dots`: names down the side, values to the right. `bars`: like `dots`, but with bars that
    start at 0. `lines`: y over x.
    """
    log: str = ""
    limits: dict[str, float] = field(default_factory=dict)
    zero: bool = False
    """Whether the vertical axis of lines starts at 0."""
    nines: int = 0
    """If not 0, x is in percent of this many requests, and 90 to 99 is as wide as 99 to 99.9."""


@dataclass
class Plot:
    """A picture of one or more panels, with one legend."""

    title: str
    panels: list[Panel]
    name: str = ""
    """File name, which follows the benchmark's name."""
    columns: int = 1
    transparent: bool = False
    hover: bool = False
    """Whether a line's values appear under the pointer; this uses only style sheets."""


def draw(wanted: Mapping[str, Plot], folder: Path) -> list[Path]:
    """Writes each plot as an SVG file into the folder."""
    if not wanted:
        return []
    described = {str(folder / file): asdict(plot) for file, plot in wanted.items()}
    python = resolve.ensure([PYTHON])[PYTHON]
    result = subprocess.run(
        [python, SCRIPT], input=json.dumps(described), capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise ToolError(f"the pictures could not be drawn:\n{result.stderr[-2000:]}")
    return [folder / file for file in wanted]


def inline(wanted: Sequence[Plot]) -> list[str]:
    """Returns each plot as an `svg` element of a page."""
    with tempfile.TemporaryDirectory() as name:
        files = draw({f"{number}.svg": plot for number, plot in enumerate(wanted)}, Path(name))
        texts = [file.read_text() for file in files]
    # A page contains several plots, so their unreferenced IDs would not be unique.
    return [re.sub(r' id="[\w.]+_\d+"', "", text[text.index("<svg") :]) for text in texts]
