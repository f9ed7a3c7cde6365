"""One picture: what moving gains, with and without Envoy, and what the hotter lane serves."""

from collections.abc import Sequence
from statistics import median

from loadtests.bench.field.report.bars import MARKS, NAMES, Frame
from loadtests.bench.field.report.picture import Drawn, document, text
from loadtests.bench.moving import hot, reading
from loadtests.bench.moving.reading import Figure, Results
from loadtests.report.scale import Axis, Linear, Log, number

WIDTH = 470
COLOURS = {"off": "c5", "parked-only": "c4", "active": "c0"}
ABOUT = "Medians of the rounds with the lowest and the highest."


def draw(record: dict) -> str:
    """An SVG with a panel for each figure that the record has."""
    panels: list[Drawn] = []
    results = record["results"]
    if "hot" in results:
        closed, opened, many = (_of(results["hot"], f"{name}: ") for name in hot.LOADS)
        panels.append(
            _panel(closed, f"{hot.LOADS['closed'].title}: requests/s", reading.rate, zero=True)
        )
        panels.append(_panel(opened, f"{hot.LOADS['open'].title}: p99, ms", reading.p99))
        panels.append(_panel(many, f"{hot.LOADS['many'].title}: p50, ms", reading.p50))
    if "gateway" in results:
        gateway = results["gateway"]
        panels.append(
            _panel(
                gateway,
                "through Envoy: % of the requests on the hotter lane",
                lambda sample: 100 * sample["hotter_share"],
                zero=True,
            )
        )
        panels.append(_panel(gateway, "through Envoy: p99, ms", reading.p99))
    return document("Connections that move between two lanes", ABOUT, panels, 2, WIDTH)


def _of(results: Results, loop: str) -> Results:
    return {
        name.removeprefix(loop): samples
        for name, samples in results.items()
        if name.startswith(loop)
    }


def _panel(results: Results, title: str, figure: Figure, *, zero: bool = False) -> Drawn:
    """A line for each arm; the axis begins at 0, or has equal factors."""
    values = {name: [figure(sample) for sample in samples] for name, samples in results.items()}
    every = [value for samples in values.values() for value in samples]
    axis: Axis = Linear("", 0, 1.04 * max(every)) if zero else Log.around("", every)
    frame = Frame(title, list(values), axis, WIDTH)
    parts = [part for name in values for part in _line(frame, name, values[name])]
    return frame.drawn(parts)


def _line(frame: Frame, name: str, values: Sequence[float]) -> list[str]:
    y, colour = frame.y(name), COLOURS[name.rpartition(", ")[2]]
    middle, low, high = (frame.x(value) for value in (median(values), min(values), max(values)))
    parts = [f'<path class="guide" d="M{NAMES} {y}H{middle}"/>']
    if high > low:
        parts.append(
            f'<path class="spread" d="M{low} {y - 3}v6M{low} {y}H{high}M{high} {y - 3}v6"/>'
        )
    parts.append(
        f'<path d="{MARKS["p50"]}" transform="translate({middle} {y})" style="fill:var(--{colour})"/>'
    )
    return [*parts, text(max(middle, high) + 9, y + 4, number(median(values)))]
