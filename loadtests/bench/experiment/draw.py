"""Draws the plots that standard input describes (plots.py) as SVG; runs with the Python that has matplotlib."""

import json
import sys
from itertools import cycle
from statistics import median

import matplotlib

matplotlib.use("svg")
# The same record gives the same bytes; text stays text.
matplotlib.rcParams.update(
    {
        "svg.hashsalt": "corelane",
        "svg.fonttype": "none",
        "font.size": 9,
        "axes.grid": True,
        "grid.color": "#dddddd",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
    }
)

from matplotlib import pyplot

COLOURS = ("#1b6e3c", "#b3331d", "#2d5f9a", "#c98a1b", "#8c6bb1", "#3f9c9c", "#7f7f7f", "#7fb069")
MARKERS = "osD^vPX*"
WIDTH, ROW, LINES = 8.0, 0.24, 3.2


def main() -> None:
    """Draws all."""
    for file, plot in json.load(sys.stdin).items():
        _plot(plot).savefig(file, metadata={"Date": None, "Creator": None})
        pyplot.close()


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
    figure.suptitle(plot["title"], x=0.01, ha="left", fontsize=10)
    return figure


def _places_of(panel: dict) -> list[str]:
    return list(dict.fromkeys(str(at) for one in panel["series"] for at, _ in one["points"]))


def _height(panel: dict) -> float:
    if panel["kind"] == "lines":
        return LINES
    return 0.7 + ROW * len(_places_of(panel)) * max(1.0, 0.6 * len(panel["series"]))


def _lines(axis: pyplot.Axes, panel: dict, styles: dict) -> None:
    """y over x, a line for each series."""
    for one in panel["series"]:
        points = [(at, values) for at, values in one["points"] if values]
        if not points:
            continue
        at = [point[0] for point in points]
        middle = [median(values) for _, values in points]
        colour, marker = ("#999999", "") if one["reference"] else styles[one["name"]]
        axis.plot(at, middle, color=colour, marker=marker, markersize=4, label=one["name"])
        low, high = zip(*((min(values), max(values)) for _, values in points), strict=True)
        axis.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
    for name, value in panel["limits"].items():
        axis.axhline(value, color="#999999", linestyle="--", linewidth=1, label=name)
    if "x" in panel["log"]:
        axis.set_xscale("log")
    if "y" in panel["log"]:
        axis.set_yscale("log")


def _places(axis: pyplot.Axes, panel: dict, styles: dict) -> None:
    """Names down the side, a mark or a bar with its range for each series."""
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
    else:
        axis.set_xlim(left=0)


if __name__ == "__main__":
    main()
