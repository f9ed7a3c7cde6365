"""Pictures of a report. They are described here and drawn by matplotlib, in the Python that has it."""

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
    """The values of one name: several at each place are drawn as their median with a range."""

    name: str
    points: list[tuple[float | str, Sequence[float]]] = field(default_factory=list)
    """Place, which is a number on a line and a name elsewhere, and what was measured there."""
    reference: bool = False
    """Drawn as a thin grey line: what others are compared with."""
    dots: bool = False
    """On a panel of lines: single values, not joined."""
    look: dict[str, Any] = field(default_factory=dict)
    """Keywords of matplotlib's `plot`, for a line that differs."""


@dataclass
class Panel:
    """One pair of axes."""

    series: list[Series]
    title: str = ""
    x: str = ""
    y: str = ""
    kind: str = "dots"
    """`dots`: names down the side, values to the right. `bars`: the same, from 0. `lines`: y over x."""
    log: str = ""
    """`x`, `y` or `xy` are logarithmic."""
    limits: dict[str, float] = field(default_factory=dict)
    """Lines across, by name: the objective, the floor."""
    zero: bool = False
    """The vertical axis of lines begins at 0."""
    nines: int = 0
    """x is in percent of so many requests, and from 90 to 99 is as far as from 99 to 99.9."""


@dataclass
class Plot:
    """A picture of one or more panels, with one legend."""

    title: str
    panels: list[Panel]
    name: str = ""
    """Of the file, after that of the benchmark."""
    columns: int = 1
    transparent: bool = False
    hover: bool = False
    """The values of a line show where the pointer is, by style sheets alone."""


def draw(wanted: Mapping[str, Plot], folder: Path) -> list[Path]:
    """Writes each plot as SVG into its file in the folder."""
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
    """Each plot as an element `svg` of a page."""
    with tempfile.TemporaryDirectory() as name:
        files = draw({f"{number}.svg": plot for number, plot in enumerate(wanted)}, Path(name))
        texts = [file.read_text() for file in files]
    # A page has several, so names that nothing refers to would not be unique.
    return [re.sub(r' id="[\w.]+_\d+"', "", text[text.index("<svg") :]) for text in texts]
