"""Heat maps of histograms, and states over time."""

import numpy
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.ticker import FixedLocator, FuncFormatter

from dashboards.live import frames, units
from dashboards.live.draw import theme
from dashboards.live.draw.lines import time_axis
from dashboards.live.draw.page import Box, rectangle
from dashboards.live.filling import Range
from dashboards.live.frames import Filled
from dashboards.live.prometheus import Series

HEAT = LinearSegmentedColormap.from_list("heat", [theme.PANEL, "#5b2d0b", "#d9661f", "#ffd9a0"])

LINE = 15


def heat(box: Box, filled: Filled, over: Range) -> None:
    """How many requests a second fell into each bucket."""
    times, bounds, counts = buckets([series for _, series in filled.named])
    options = filled.panel.options
    unit = options.get("yAxis", {}).get("unit", "s")
    plot = box.inner(62, 4, 62, 22).axes()
    edges = [*times, times[-1] + over.step] if times else [over.start, over.end]
    if times:
        shown = numpy.ma.masked_less_equal(counts, options.get("filterValues", {}).get("le", 0))
        norm = PowerNorm(options.get("color", {}).get("exponent", 1), 0, max(1e-9, counts.max()))
        mesh = plot.pcolormesh(edges, range(len(bounds) + 1), shown, cmap=HEAT, norm=norm)
        wide = Box(box.figure, box.x + box.width - 54, box.y + 4, 9, box.height - 26).axes()
        bar = box.figure.colorbar(mesh, cax=wide)
        bar.outline.set_visible(False)
        wide.tick_params(colors=theme.FAINT, labelsize=theme.SMALL, length=0)
        cells = options.get("cellValues", {}).get("unit", "none")
        wide.yaxis.set_major_formatter(
            FuncFormatter(lambda value, _: units.show(value, cells).partition(" ")[0])
        )
    time_axis(plot, over)
    plot.grid(False)
    every = max(1, -(-len(bounds) // 7))
    plot.yaxis.set_major_locator(FixedLocator([at + 1 for at in range(0, len(bounds), every)]))
    names = {at + 1: units.show(bound, unit) for at, bound in enumerate(bounds)}
    plot.yaxis.set_major_formatter(FuncFormatter(lambda at, _: names.get(round(at), "")))


def buckets(series: list[Series]) -> tuple[list[float], list[float], numpy.ndarray]:
    """Times, upper bounds, and what is between a bound and the one below it."""
    ordered = sorted(series, key=lambda each: float(each.labels.get("le", "nan")))
    times = sorted({time for each in ordered for time, _ in each.samples})
    bounds = [float(each.labels["le"]) for each in ordered]
    counts = numpy.zeros((len(bounds), len(times)))
    for row, each in enumerate(ordered):
        values = dict(each.samples)
        counts[row] = [values.get(time, 0.0) for time in times]
    below = numpy.vstack([numpy.zeros(len(times)), counts[:-1]]) if bounds else counts
    return times, bounds, numpy.clip(numpy.nan_to_num(counts - below), 0, None)


def states(box: Box, filled: Filled, over: Range) -> None:
    """A band for each series, in the colour of its state."""
    mappings = filled.panel.defaults.get("mappings", [])
    named = sorted(filled.named, key=lambda pair: pair[0])
    left = min(box.width * 0.4, max((theme.width(n, theme.SMALL) for n, _ in named), default=0) + 8)
    plot = box.inner(left, 4, 6, LINE + 22).axes()
    seen: dict[str, str] = {}
    for row, (_, series) in enumerate(named):
        for time, value in series.samples:
            text, name = frames.mapped(value, mappings) or (f"{value:g}", "gray")
            seen[text] = theme.colour(name)
            band = (time, over.step)
            plot.broken_barh([band], (row + 0.1, 0.8), facecolors=seen[text], linewidth=0)
    time_axis(plot, over)
    plot.set_ylim(max(1, len(named)), 0)
    plot.yaxis.set_major_locator(FixedLocator([row + 0.5 for row in range(len(named))]))
    labels = [theme.cut(name, left - 4, theme.SMALL) for name, _ in named]
    plot.yaxis.set_major_formatter(
        FuncFormatter(lambda at, _: labels[int(at)] if int(at) < len(labels) else "")
    )
    legend = Box(box.figure, box.x, box.y + box.height - LINE, box.width, LINE).plain()
    x = 0.0
    for text, ink in seen.items():
        rectangle(legend, x, LINE / 2 - 5, 11, 10, ink)
        legend.text(x + 16, LINE / 2, text, color=theme.TEXT, size=theme.SMALL, va="center")
        x += 34 + theme.width(text, theme.SMALL)
