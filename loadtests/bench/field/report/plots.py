"""The pictures of a record, by file name."""

from loadtests.bench.field.report import bars, curves, growth, measures
from loadtests.bench.field.report.picture import charted, document
from loadtests.bench.field.report.rows import (
    C10K,
    IDLE,
    MIXED,
    PROXIES,
    SIZE,
    TITLES,
    US,
    WORKLOADS,
    Row,
    of_workload,
    samples,
)

WIDTH = 470
COLUMNS = 2

CURVES = ("hello", "file-4k", "projects")
"""The workloads whose percentiles are drawn; the tables have all."""


def pictures(record: dict) -> dict[str, str]:
    """Those that the record has figures for."""
    found = {
        "bench-field-cpu.svg": cpu(record),
        **{f"bench-field-latency-{name}.svg": latency(record, name) for name in CURVES},
        "bench-field-mixed.svg": mixed(record),
        "bench-field-footprint.svg": footprint(record),
        "bench-field-c10k.svg": c10k(record),
        "bench-field-proxies.svg": proxies(record),
        **{
            f"bench-field-scaling-{name}.svg": scaling(name, part)
            for name, part in growth.parts(record).items()
        },
    }
    return {name: picture for name, picture in found.items() if picture}


def cpu(record: dict) -> str:
    """CPU time per request, a panel for each workload."""
    panels = [
        bars.bars(row, plain(TITLES[name]), _families(record), WIDTH)
        for name in WORKLOADS
        for row in of_workload(record, name)
        if row.measure is measures.CPU
    ]
    about = (
        "Median of the rounds with the lowest and the highest. The dashed line is the floor: the kernel's part alone. "
        "Slanted cuts: bars that would be longer."
    )
    return _document("CPU time per request, µs", about, panels)


def latency(record: dict, workload: str) -> str:
    """Percentile curves of one workload's open loop."""
    found, requests = curves.opened(samples(record, workload))
    panels = curves.panels(found, _families(record), requests, WIDTH) if found else []
    about = "Latency counts from when a request was due. Each nine more is ten times fewer requests; medians of the rounds."
    return _document(f"Latency at a fixed rate: {plain(TITLES[workload])}", about, panels)


def c10k(record: dict) -> str:
    """Percentile curves of 10,000 connections at once, with those that were published."""
    published = {
        name: [{**one, "requests": 13_000}]
        for name, one in record.get("published", {}).get(C10K, {}).items()
    }
    taken = record.get(C10K, {})
    found, requests = curves.of({**taken, **published})
    panels = curves.panels(found, _families(record), requests, WIDTH) if taken else []
    about = "ab -n 13000 -c 10000 of a page of 10,831 bytes. The published ones were taken on another machine."
    return _document("10,000 connections at once", about, panels)


def mixed(record: dict) -> str:
    """Brief and dear requests on one CPU."""
    found = {row.measure.key: row for row in of_workload(record, MIXED)}
    panels = []
    for before, title in (
        ("fast_", "the brief ones, 90%"),
        ("slow_", "the dear ones of 7 ms, 10%"),
    ):
        kinds: dict[str, Row] = {
            row.measure.title.split()[-1]: row
            for key, row in found.items()
            if key.startswith(before)
        }
        if "p99" in kinds:
            panels.append(bars.quantiles(kinds, title, _families(record), WIDTH))
    about = "Open loop on one CPU, latency in ms on an axis of equal factors. The figure is the p99; medians of the rounds."
    return _document("Brief requests among dear ones", about, panels)


def footprint(record: dict) -> str:
    """Memory, start and size."""
    titles = {
        "connection": "memory of an idle connection, KiB",
        "resident": "resident memory when idle, MiB",
        "start": "from start to the first reply, ms",
        "installed": "on disk, with what it runs on, MB",
    }
    found = {row.measure.key: row for part in (IDLE, SIZE) for row in of_workload(record, part)}
    panels = [
        bars.dots(found[key], title, _families(record), WIDTH)
        for key, title in titles.items()
        if key in found
    ]
    about = "Axes of equal factors. Median of the rounds with the lowest and the highest."
    return _document("Memory, start and size", about, panels)


def proxies(record: dict) -> str:
    """CPU time and latency of what stands in front."""
    found = {row.measure.key: row for row in of_workload(record, PROXIES)}
    families = dict.fromkeys(record.get(PROXIES, {}), "proxy")
    panels = []
    if "cpu" in found:
        panels.append(bars.bars(found["cpu"], "CPU per request, µs", families, WIDTH))
    kinds = {
        row.measure.title: row for key, row in found.items() if row.measure.kind == measures.LATENCY
    }
    if "p99" in kinds:
        panels.append(bars.quantiles(kinds, "latency at a fixed rate, ms", families, WIDTH))
    return _document("Proxies in front of the same two replicas", "Medians of the rounds.", panels)


def scaling(name: str, part: dict) -> str:
    """How cost grows with one thing."""
    panels = [charted(chart) for chart in growth.charts(part)]
    about = "Medians of the rounds. Dashed: the law that was fitted, and what it says beyond what was measured."
    return _document(f"How cost grows: {growth.TITLES[name].lower()}", about, panels)


def plain(title: str) -> str:
    """Without Markdown."""
    return title.replace("`", "")


def _families(record: dict) -> dict[str, str]:
    """Those that share a panel; another build of Corelane is beside its nearest kin."""
    return {
        name: "Rust" if name.startswith(US) else one.get("family", "")
        for name, one in record.get("contenders", {}).items()
    }


def _document(title: str, about: str, panels: list) -> str:
    return document(title, about, panels, COLUMNS, WIDTH) if panels else ""
