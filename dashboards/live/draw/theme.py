"""Colours and sizes."""

from functools import cache

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

PAGE, PANEL, EDGE = "#111217", "#181b1f", "#2c3036"
TEXT, FAINT, GRID = "#d8d9dd", "#9a9ca3", "#2f333a"

NAMED = {
    "green": "#56a64b",
    "red": "#d9303e",
    "orange": "#f2811d",
    "yellow": "#e0b400",
    "blue": "#3274d9",
    "light-blue": "#8ab8ff",
    "purple": "#8f5cc4",
    "gray": "#6d7078",
    "dark-orange": "#a8440a",
    "transparent": PANEL,
    "text": TEXT,
}
"""Colours that panels name."""

PALETTE = (
    "#73bf69", "#f2cc0c", "#8ab8ff", "#ff9830", "#b877d9", "#5794f2", "#37872d", "#c0a3e0",
    "#fade2a", "#447ebc", "#c15c17", "#96d98d", "#1f78c1", "#ba43a9", "#cca300", "#70dbed",
)  # fmt: skip
"""For series without a colour of their own; red is for what is bad."""

SMALL, NORMAL, TITLE = 8.2, 9.0, 10.0
"""Sizes of type in points, at 100 dots per inch."""

DOTS = 100 / 72
"""Pixels of a point."""


def colour(name: str | None, fallback: str = TEXT) -> str:
    """A colour that matplotlib knows."""
    if not name:
        return fallback
    return name if name.startswith("#") else NAMED.get(name, fallback)


def ink(background: str | None) -> str:
    """The colour of text on a background."""
    return "white" if background else TEXT


@cache
def width(text: str, size: float) -> float:
    """How many pixels wide a text is."""
    font = FontProperties(size=size)
    return text_to_path.get_text_width_height_descent(text, font, ismath=False)[0] * DOTS


def cut(text: str, pixels: float, size: float) -> str:
    """The text, cut where it would be wider than that."""
    if width(text, size) <= pixels:
        return text
    letters = len(text) - 1
    while letters > 1 and width(f"{text[:letters]}…", size) > pixels:
        letters -= 1
    return f"{text[:letters]}…"
