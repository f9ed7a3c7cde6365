"""The page of a dashboard: its panels where the grid has them, folded rows open."""

import io
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from PIL import Image

from dashboards.live.boards import Dashboard, places
from dashboards.live.draw import theme

WIDTH, MARGIN, GAP, UNIT = 1920, 10, 8, 36
HEADER = 44
COLOURS = 96
"""Of the palette of the picture: fewer make a smaller file, and lines stay smooth."""


@dataclass(frozen=True)
class Box:
    """A part of the page, in pixels from its upper left corner."""

    figure: Figure
    x: float
    y: float
    width: float
    height: float

    def inner(self, left: float, top: float, right: float, bottom: float) -> "Box":
        """The box without these edges."""
        wide, high = self.width - left - right, self.height - top - bottom
        return Box(self.figure, self.x + left, self.y + top, max(1, wide), max(1, high))

    def axes(self) -> Axes:
        """Axes that fill it."""
        wide, high = self.figure.get_size_inches() * self.figure.dpi
        area = (self.x / wide, 1 - (self.y + self.height) / high, self.width / wide)
        return self.figure.add_axes((*area, self.height / high))

    def plain(self) -> Axes:
        """Axes without lines whose unit is a pixel, from the upper left corner."""
        axes = self.axes()
        axes.set_axis_off()
        axes.set_xlim(0, self.width)
        axes.set_ylim(self.height, 0)
        return axes


class Page:
    """A picture under way."""

    def __init__(self, dashboard: Dashboard, words: str) -> None:
        last = max(line + raw["gridPos"]["h"] for raw, line in places(dashboard))
        self.height = HEADER + last * UNIT + MARGIN
        self.figure = Figure(
            figsize=(WIDTH / 100, self.height / 100), dpi=100, facecolor=theme.PAGE
        )
        top = Box(self.figure, MARGIN, 0, WIDTH - 2 * MARGIN, HEADER).plain()
        middle = HEADER / 2
        top.text(4, middle, dashboard.title, color=theme.TEXT, size=15, weight="bold", va="center")
        right = WIDTH - 2 * MARGIN - 4
        top.text(
            right, middle, words, color=theme.FAINT, size=theme.NORMAL, va="center", ha="right"
        )

    def place(self, raw: dict, line: int) -> Box:
        """Where a panel is."""
        grid = raw["gridPos"]
        column = (WIDTH - 2 * MARGIN + GAP) / 24
        return Box(
            self.figure,
            MARGIN + grid["x"] * column,
            HEADER + line * UNIT,
            grid["w"] * column - GAP,
            grid["h"] * UNIT - GAP,
        )

    def row(self, raw: dict, line: int) -> None:
        """The head of a row."""
        axes = self.place(raw, line).plain()
        axes.text(4, UNIT / 2, f"▾  {raw['title']}", color=theme.TEXT, size=11.5, va="center")

    def frame(self, raw: dict, line: int) -> Box:
        """The frame of a panel with its title; what is left is for its content."""
        box = self.place(raw, line)
        axes = box.plain()
        edge = FancyBboxPatch(
            (0.5, 0.5),
            box.width - 1,
            box.height - 1,
            boxstyle="round,pad=0,rounding_size=3",
            facecolor=theme.PANEL,
            edgecolor=theme.EDGE,
        )
        axes.add_patch(edge)
        title, room = raw.get("title", ""), box.width - 14
        size = max(
            theme.SMALL, min(theme.TITLE, theme.TITLE * room / theme.width(title, theme.TITLE))
        )
        axes.text(9, 14, theme.cut(title, room, size), color=theme.TEXT, size=size, va="center")
        return box.inner(8, 27, 8, 7)

    def save(self, file: Path) -> None:
        """Writes the picture, with as few colours as it needs."""
        drawn = io.BytesIO()
        self.figure.savefig(drawn, format="png", facecolor=theme.PAGE)
        picture = Image.open(drawn).convert("RGB")
        small = picture.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        small.save(file, optimize=True)


def rectangle(axes: Axes, x: float, y: float, width: float, height: float, colour: str) -> None:
    """A filled rectangle."""
    axes.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor="none"))
