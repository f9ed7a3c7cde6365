"""Single numbers, and bars."""

from dashboards.live import frames, units
from dashboards.live.draw import theme
from dashboards.live.draw.page import Box, rectangle
from dashboards.live.frames import Filled

BAR = 26
"""Most pixels from one bar to the next."""


def stat(box: Box, filled: Filled) -> None:
    """The last number, on the colour of its threshold."""
    defaults = filled.panel.defaults
    named = filled.named
    around = box.inner(-3, 0, -3, -2)
    axes = around.plain()
    middle = around.width / 2, around.height / 2
    if not named:
        words = defaults.get("noValue", "no data")
        axes.text(*middle, words, color=theme.FAINT, size=15, ha="center", va="center")
        return
    value = frames.last(named[0][1])
    text, name = _shown(value, defaults)
    ink = theme.TEXT
    if name and filled.panel.options.get("colorMode") == "background":
        rectangle(axes, 0, 0, around.width, around.height, theme.colour(name))
        ink = "white"
    size = min(24.0, 24.0 * (around.width - 12) / max(1, theme.width(text, 24.0)))
    axes.text(*middle, text, color=ink, size=size, ha="center", va="center", weight="bold")


def bars(box: Box, filled: Filled) -> None:
    """A bar for each series, the longest for the greatest value."""
    defaults = filled.panel.defaults
    axes = box.plain()
    found = [(name, frames.last(series)) for name, series in filled.named]
    if not found:
        words = defaults.get("noValue", "no data")
        middle = box.width / 2, box.height / 2
        axes.text(*middle, words, color=theme.FAINT, size=12, ha="center", va="center")
        return
    high = min(BAR, box.height / len(found))
    shown = [_shown(value, defaults) for _, value in found]
    left = min(box.width * 0.5, max(theme.width(name, theme.SMALL) for name, _ in found) + 8)
    right = max(theme.width(text, theme.NORMAL) for text, _ in shown) + 10
    room = max(10, box.width - left - right)
    most = max(defaults.get("max", 0), *(value for _, value in found)) or 1
    for index, ((name, value), (text, named)) in enumerate(zip(found, shown, strict=True)):
        y = index * high
        ink = theme.colour(named, theme.PALETTE[0])
        rectangle(axes, left, y + 3, room, high - 6, "#23262c")
        rectangle(axes, left, y + 3, max(2, room * max(0, value) / most), high - 6, ink)
        label = theme.cut(name, left - 4, theme.SMALL)
        axes.text(0, y + high / 2, label, color=theme.TEXT, size=theme.SMALL, va="center")
        edge = box.width - 2, y + high / 2
        axes.text(*edge, text, color=ink, size=theme.NORMAL, va="center", ha="right")


def _shown(value: float, defaults: dict) -> tuple[str, str | None]:
    """The text of a number, and its colour."""
    mapping = frames.mapped(value, defaults.get("mappings", []))
    if mapping:
        return mapping[0], mapping[1] or frames.colour(value, defaults.get("thresholds"))
    text = units.show(value, defaults.get("unit", "none"), defaults.get("decimals"))
    return text, frames.colour(value, defaults.get("thresholds"))
