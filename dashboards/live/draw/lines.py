"""Time series: lines, thresholds, what happened meanwhile, and the legend."""

import itertools
import math
from dataclasses import dataclass
from datetime import UTC, datetime

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, MultipleLocator, NullLocator

from dashboards.live import frames, units
from dashboards.live.draw import theme
from dashboards.live.draw.page import Box, rectangle
from dashboards.live.filling import Range
from dashboards.live.frames import Filled

LINE = 15
"""Pixels of a line of the legend."""

TIMES = (2, 5, 10, 30, 60, 300, 600, 1800, 3600, 4 * 3600, 43200, 86400, 5 * 86400, 10 * 86400)
"""Seconds between marks."""

SHARE = 0.34
"""Most of the height that a legend takes."""


@dataclass(frozen=True)
class Event:
    """What an annotation marks."""

    time: float
    colour: str


def draw(box: Box, filled: Filled, over: Range, events: list[Event]) -> None:
    """Draws the panel's series."""
    panel = filled.panel
    named = sorted(filled.named, key=lambda pair: pair[0])
    unit, decimals = panel.defaults.get("unit", "none"), panel.defaults.get("decimals")
    colours = _colours(filled, [name for name, _ in named])
    entries = _entries(filled, named, unit, decimals)
    high = min(max(LINE, box.height * SHARE // LINE * LINE), _lines(entries, box.width) * LINE)
    plot = box.inner(58, 4, 6, high + 24).axes()
    for name, series in named:
        times, values = zip(*series.samples, strict=True)
        plot.plot(times, values, color=colours[name], linewidth=1.3)
        _alone(plot, series.samples, colours[name])
    _scale(plot, filled, unit)
    _thresholds(plot, panel.defaults)
    time_axis(plot, over)
    for event in events:
        plot.axvline(
            event.time, color=event.colour, linewidth=0.9, linestyle=(0, (2, 3)), alpha=0.8
        )
    legend = Box(box.figure, box.x, box.y + box.height - high, box.width, high)
    _legend(legend, entries, colours)


def time_axis(plot: Axes, over: Range) -> None:
    """Hours and minutes below, and what all plots look like."""
    plot.set_facecolor(theme.PANEL)
    plot.set_xlim(over.start, over.end)
    plot.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 1.5, 3, 6]))
    plot.xaxis.set_major_formatter(
        FuncFormatter(lambda at, _: datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S"))
    )
    plot.tick_params(colors=theme.FAINT, labelsize=theme.SMALL, length=0, pad=3)
    plot.grid(True, color=theme.GRID, linewidth=0.6)
    plot.set_axisbelow(True)
    for spine in plot.spines.values():
        spine.set_visible(False)


def _alone(plot: Axes, samples: tuple, colour: str) -> None:
    """A point where a value has no neighbour that a line could go to."""
    step = min((b[0] - a[0] for a, b in itertools.pairwise(samples)), default=0)
    for at, (time, value) in enumerate(samples):
        near = [samples[other][0] for other in (at - 1, at + 1) if 0 <= other < len(samples)]
        if all(abs(time - each) > 1.5 * step for each in near) or step == 0:
            plot.plot([time], [value], ".", color=colour, markersize=4)


def _colours(filled: Filled, names: list[str]) -> dict[str, str]:
    found = {}
    for index, name in enumerate(dict.fromkeys(names)):
        own = frames.settings(filled.panel, name).get("color", {})
        fixed = own.get("fixedColor") if own.get("mode") == "fixed" else None
        found[name] = theme.colour(fixed, theme.PALETTE[index % len(theme.PALETTE)])
    return found


def _scale(plot: Axes, filled: Filled, unit: str) -> None:
    custom = filled.panel.defaults.get("custom", {})
    values = [value for _, series in filled.named for value in series.numbers]
    positive = [value for value in values if value > 0]
    if custom.get("scaleDistribution", {}).get("type") == "log" and positive:
        plot.set_yscale("log")
        plot.set_ylim(min(positive) / 1.3, max(positive) * 1.3)
        plot.yaxis.set_major_locator(LogLocator(numticks=6))
        plot.yaxis.set_minor_locator(NullLocator())
    else:
        low = min([*values, custom.get("axisSoftMin", float("inf"))], default=0)
        high = max([*values, custom.get("axisSoftMax", float("-inf"))], default=1)
        # Where all is 0, the line lies on the axis.
        high = high + (high - low) * 0.06 if high > low else low + 1
        plot.set_ylim(low - (high - low) * 0.01, high)
        plot.yaxis.set_major_locator(MultipleLocator(_tick(high - low, unit)))
    plot.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.show(value, unit)))


def _tick(span: float, unit: str) -> float:
    """What is between two marks of an axis: about five of them, at numbers that read well."""
    raw = span / 5
    if unit == "s" and raw > 1:
        return next((each for each in TIMES if each >= raw), TIMES[-1] * math.ceil(raw / TIMES[-1]))
    if unit == "bytes" and raw > 1:
        return 2.0 ** math.ceil(math.log2(raw))
    power = 10.0 ** math.floor(math.log10(raw))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= raw * 0.999)


def _thresholds(plot: Axes, defaults: dict) -> None:
    """Dashed lines, where the axis reaches."""
    if defaults.get("custom", {}).get("thresholdsStyle", {}).get("mode") in (None, "off"):
        return
    low, high = plot.get_ylim()
    for step in defaults.get("thresholds", {}).get("steps", []):
        value = step["value"]
        if value is not None and low <= value <= high:
            plot.axhline(value, color=theme.colour(step["color"]), linewidth=1.1, linestyle="--")


Entry = tuple[str, str]
"""The name of a series, and its greatest value where the legend shows that."""


def _entries(filled: Filled, named: list, unit: str, decimals: int | None) -> list[Entry]:
    legend = filled.panel.options.get("legend", {})
    if legend.get("displayMode") != "table":
        return [(name, "") for name in dict.fromkeys(name for name, _ in named)]
    most: dict[str, float] = {}
    for name, series in named:
        most[name] = max(most.get(name, float("-inf")), *series.numbers)
    ordered = sorted(most.items(), key=lambda pair: -pair[1])
    return [(name, units.show(value, unit, decimals)) for name, value in ordered]


def _width(entry: Entry) -> float:
    return 34 + theme.width(" ".join(entry).strip(), theme.SMALL)


def _lines(entries: list[Entry], wide: float) -> int:
    """How many lines the legend needs."""
    lines, x = 1, 0.0
    for entry in entries:
        if x and x + _width(entry) > wide:
            lines, x = lines + 1, 0.0
        x += _width(entry)
    return lines


def _legend(box: Box, entries: list[Entry], colours: dict[str, str]) -> None:
    """One entry after the other; what has no room is counted."""
    axes = box.plain()
    x, y = 0.0, LINE / 2
    for index, entry in enumerate(entries):
        if x and x + _width(entry) > box.width:
            x, y = 0.0, y + LINE
        left = len(entries) - index
        on_last = y + LINE > box.height + 1
        if on_last and left > 1 and x + _width(entry) + 70 > box.width:
            axes.text(x, y, f"+ {left} more", color=theme.FAINT, size=theme.SMALL, va="center")
            return
        name, most = entry
        rectangle(axes, x, y - 1.5, 12, 3, colours[name])
        shown = theme.cut(name, box.width - 40, theme.SMALL)
        axes.text(x + 17, y, shown, color=theme.TEXT, size=theme.SMALL, va="center")
        after = x + 23 + theme.width(shown, theme.SMALL)
        axes.text(after, y, most, color=theme.FAINT, size=theme.SMALL, va="center")
        x += _width(entry)
