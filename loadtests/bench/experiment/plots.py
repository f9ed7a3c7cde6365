"""Pictures of a report. They are described here and drawn by matplotlib, in the Python that has it."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

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


@dataclass
class Plot:
    """A picture of one or more panels, with one legend."""

    title: str
    panels: list[Panel]
    name: str = ""
    """Of the file, after that of the benchmark."""
    columns: int = 1


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
