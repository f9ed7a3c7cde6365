"""Draws the plots described on standard input (plots.py) as SVG, with the Python that contains
matplotlib.
"""

import json
import re
import sys
from html import escape
from itertools import cycle, pairwise
from pathlib import Path
from statistics import median

import matplotlib

matplotlib.use("svg")
# Reproducible output with selectable text.
matplotlib.rcParams.update(
    {
        "svg.fonttype": "none",
        # A name may contain a $.
        "text.parse_math": False,
        "font.size": 9,
        "axes.grid": True,
        "grid.color": "#dddddd",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
    }
)

import numpy
from matplotlib import pyplot
from matplotlib.ticker import (
    AutoLocator,
    LogLocator,
    NullFormatter,
    NullLocator,
    StrMethodFormatter,
)

COLOURS = ("#1b6e3c", "#b3331d", "#2d5f9a", "#c98a1b", "#8c6bb1", "#3f9c9c", "#7f7f7f", "#7fb069")
MARKERS = "osD^vPX*"
WIDTH, ROW, LINES = 8.0, 0.24, 3.2

MARKED = 40
"""Maximum points of a line for marking each one."""


def main() -> None:
    for file, plot in json.load(sys.stdin).items():
        # IDs inside the file must be unique on a page with several plots.
        matplotlib.rcParams["svg.hashsalt"] = f"corelane {file.rpartition('/')[2]}"
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure = _plot(plot)
        figure.savefig(file, metadata=metadata, transparent=plot["transparent"], dpi=144)
        _one_line(Path(file))
        if plot["hover"]:
            _add_values(Path(file), figure, plot["panels"])
        pyplot.close()


def _one_line(file: Path) -> None:
    """Removes the line breaks between points, which have no meaning."""
    text = re.sub(r"([>,]?)\s*\n\s*", lambda found: found[1] or " ", file.read_text())
    file.write_text(f"{text.rstrip()}\n")


PLACES = 120

LINE = 12.0


def _add_values(file: Path, figure: pyplot.Figure, panels: list[dict]) -> None:
    """Adds a strip for each place, with the values that style sheets show under the pointer."""
    width, height = (72 * inches for inches in figure.get_size_inches())
    strips = []
    for axis, panel in zip(figure.axes, panels, strict=False):
        if panel["kind"] == "lines":
            strips += _strips(axis, panel, width, height)
    text = file.read_text()
    end = text.rindex("</svg>")
    file.write_text("".join([text[:end], '<g class="hover">', *strips, "</g>\n", text[end:]]))


def _strips(axis: pyplot.Axes, panel: dict, width: float, height: float) -> list[str]:
    lines = [one for one in panel["series"] if not one["dots"]]
    values = {
        one["name"]: {at: median(found) for at, found in one["points"] if found} for one in lines
    }
    low, high = sorted(axis.get_xlim())
    at = [x for x in sorted(set().union(*values.values())) if low <= x <= high]
    at = at[:: -(-len(at) // PLACES) or 1]
    to_figure = axis.transData + axis.figure.transFigure.inverted()
    middles = [width * to_figure.transform((x, 1.0))[0] for x in at]
    box = axis.get_position()
    left, right = width * box.x0, width * box.x1
    edges = [left, *((a + b) / 2 for a, b in pairwise(middles)), right]
    top, bottom = height * (1 - box.y1), height * (1 - box.y0)
    unit = "%" if panel["nines"] else f" {panel['x']}"
    found = []
    for x, middle, (begin, end) in zip(at, middles, pairwise(edges), strict=True):
        words = [f"{x:.8g}{unit}"]
        words += [f"{name}: {those[x]:,.4g}" for name, those in values.items() if x in those]
        side = ("start", 4) if middle < (left + right) / 2 else ("end", -4)
        spans = "".join(
            f'<tspan x="{middle + side[1]:.1f}" dy="{LINE}">{escape(word)}</tspan>'
            for word in words
        )
        found.append(
            f'<g><rect x="{begin:.1f}" y="{top:.1f}" width="{end - begin:.1f}" height="{bottom - top:.1f}"/>'
            f'<path d="M{middle:.1f} {top:.1f}V{bottom:.1f}"/>'
            f'<text y="{top:.1f}" text-anchor="{side[0]}">{spans}</text></g>\n'
        )
    return found


def _plot(plot: dict) -> pyplot.Figure:
    columns, panels = plot["columns"], plot["panels"]
    rows = [panels[at : at + columns] for at in range(0, len(panels), columns)]
    heights = [max(map(_height, row)) for row in rows]
    figure, axes = pyplot.subplots(
        len(rows),
        columns,
        figsize=(WIDTH, sum(heights) + 0.9),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    names = list(dict.fromkeys(one["name"] for panel in panels for one in panel["series"]))
    styles = dict(zip(names, cycle(zip(COLOURS, MARKERS, strict=True))))
    for axis, panel in zip(axes.flat, panels, strict=False):
        (_lines if panel["kind"] == "lines" else _places)(axis, panel, styles)
        axis.set_title(panel["title"], loc="left", fontsize=9, fontweight="bold")
        axis.set_xlabel(panel["x"])
        axis.set_ylabel(panel["y"])
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_visible(False)
    shown = {}
    for axis in axes.flat:
        shown |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    if len(shown) > 1:
        figure.legend(
            shown.values(), shown.keys(), loc="outside lower center", ncols=4, frameon=False
        )
    if plot["title"]:
        figure.suptitle(plot["title"], x=0.01, ha="left", fontsize=10)
    return figure


def _places_of(panel: dict) -> list[str]:
    return list(dict.fromkeys(str(at) for one in panel["series"] for at, _ in one["points"]))


def _height(panel: dict) -> float:
    if panel["kind"] == "lines":
        return LINES
    return 0.7 + ROW * len(_places_of(panel)) * max(1.0, 0.6 * len(panel["series"]))


def _lines(axis: pyplot.Axes, panel: dict, styles: dict) -> None:
    """Draws y over x with one line per series, interrupted where values are missing."""
    for one in panel["series"]:
        _line(axis, one, styles[one["name"]])
    for name, value in panel["limits"].items():
        axis.axhline(value, color="#999999", linestyle="--", linewidth=1, label=name)
    if panel["nines"]:
        _nines(axis, panel["nines"])
    elif "x" in panel["log"]:
        axis.set_xscale("log")
        _plain(axis.xaxis)
    if "y" in panel["log"]:
        axis.set_yscale("log")
        _plain(axis.yaxis)
    else:
        axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    if panel["zero"]:
        axis.set_ylim(bottom=0)


def _line(axis: pyplot.Axes, one: dict, style: tuple[str, str]) -> None:
    points = one["points"]
    at = [point[0] for point in points]
    middle, low, high = (
        [of(values) if values else numpy.nan for _, values in points] for of in (median, min, max)
    )
    colour, marker = ("#999999", "") if one["reference"] else style
    look = {"color": colour, "marker": marker if len(points) <= MARKED else "", "markersize": 4}
    if one["dots"]:
        # Rasterised, because thousands of elements would dominate the page.
        look |= {"linestyle": "none", "marker": ".", "alpha": 0.35, "rasterized": True}
    look |= one["look"]
    axis.plot(at, middle, label=one["name"], **look)
    if low != high and not one["dots"]:
        axis.fill_between(at, low, high, color=look["color"], alpha=0.15, linewidth=0)


def _nines(axis: pyplot.Axes, requests: int) -> None:
    """Scales an axis like HdrHistogram's plots: the tail has as much room as the rest and ends at
    the slowest request.
    """
    axis.set_xscale(
        "function",
        functions=(
            lambda percent: -numpy.log10(numpy.maximum(1e-12, 1 - percent / 100)),
            lambda nines: 100 * (1 - 10.0**-nines),
        ),
    )
    # Half of the slowest request lies beyond (Hazen's position).
    end = 100 * (1 - 0.5 / requests)
    ticks = [0.0, 50.0, 75.0, *(100 - 10.0 ** (1 - nine) for nine in range(7))]
    ticks = [tick for tick in ticks if tick <= end]
    axis.set_xticks(ticks, [f"{round(tick, 6):g}%" for tick in ticks])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlim(0, end)


def _plain(axis: matplotlib.axis.Axis) -> None:
    """Plain numbers instead of powers of ten."""
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_minor_formatter(NullFormatter())
    low, high = sorted(axis.get_view_interval())
    if high < 4 * low:
        axis.set_major_locator(AutoLocator())
        return
    # Start and end at round numbers.
    few = high < 1000 * low
    steps = numpy.outer(10.0 ** numpy.arange(-12, 12), (1, 2, 5) if few else (1,)).ravel()
    axis.set_view_interval(steps[steps <= low].max(), steps[steps >= high].min(), ignore=True)
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))


def _places(axis: pyplot.Axes, panel: dict, styles: dict) -> None:
    """Draws names down the side, with a mark or a bar and its range for each series."""
    places, series = _places_of(panel), panel["series"]
    bars = panel["kind"] == "bars"
    step = 0.8 / len(series)
    for index, one in enumerate(series):
        colour, marker = styles[one["name"]]
        points = [(places.index(str(at)), values) for at, values in one["points"] if values]
        if not points:
            continue
        y = [at + (index - (len(series) - 1) / 2) * step for at, _ in points]
        x = [median(values) for _, values in points]
        low = [middle - min(values) for middle, (_, values) in zip(x, points, strict=True)]
        high = [max(values) - middle for middle, (_, values) in zip(x, points, strict=True)]
        if bars:
            axis.barh(y, x, height=0.9 * step, color=colour, label=one["name"])
        form = {"linestyle": "none", "ecolor": "#333333" if bars else colour, "elinewidth": 1}
        mark = {} if bars else {"marker": marker, "markersize": 4, "label": one["name"]}
        axis.errorbar(x, y, xerr=[low, high], color=colour, **form, **mark)
    for name, value in panel["limits"].items():
        axis.axvline(value, color="#999999", linestyle="--", linewidth=1, label=name)
    axis.set_yticks(range(len(places)), places)
    axis.set_ylim(len(places) - 0.5, -0.5)
    if "x" in panel["log"]:
        axis.set_xscale("log")
        _plain(axis.xaxis)
    else:
        axis.set_xlim(left=0)


if __name__ == "__main__":
    main()
