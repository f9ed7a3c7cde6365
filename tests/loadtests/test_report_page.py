"""The report page: a single self-contained, accessible file."""

import random
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from loadtests import record, report
from loadtests.record import ALL, Figure, Route, Run, Server, Target
from loadtests.report import html, overview, tables
from loadtests.report.collect import Collector
from loadtests.report.tables import number
from stack import REPOSITORY
from tools.errors import ToolError

HOSTILE = '<script>alert("&$^$")</script>'
SVG = "{http://www.w3.org/2000/svg}"
VOID = {"meta", "br"}


def a_run(*, seed: int = 1, slower: float = 1.0, parts: tuple[str, ...] = (ALL,)) -> Run:
    """Two routes with lognormal latencies over a few seconds."""
    collector, chance = Collector(), random.Random(seed)
    for index, part in enumerate(parts):
        for sent in range(1500):
            route = ("hello", HOSTILE)[sent % 2]
            ms = slower * chance.lognormvariate(0, 1)
            collector.request(part, route, index * 3 + sent / 500, ms, sent % 500 == 0)
        collector.check(part, HOSTILE, passed=False)
    run = Run(
        name="load",
        tool="k6",
        tool_version="1.8.1",
        passed=False,
        exit_code=99,
        failed_thresholds=[f"checks: {HOSTILE}"],
        started="2026-01-02T03:04:05+00:00",
        seconds=3.0 * len(parts),
        target=Target(f"http://gateway/{HOSTILE}", "gateway", ["server-0"]),
        settings={"rate": 500},
        machine={"cpu": "a CPU", "cores": 2, "kernel": "Linux", "sources": "abc"},
        load_average_before=[0.1, 0.2, 0.3],
        parts=collector.parts(),
        notes=[HOSTILE],
    )
    run.parts[0].figures["knee_requests_per_second"] = Figure(900, "1/s")
    return run


def seen_by_the_servers() -> Server:
    series = [[1.0, 0.5], [2.0, 0.7]]
    phases = ("accept", "queue", "handler", "write")
    return Server(
        phases={phase: {"p50_ms": series, "p99_ms": series} for phase in phases},
        lanes_busy=series,
        gateway_p99_ms=series,
        requests_per_second=[[1.0, 480.0]],
        whole_run={
            "queue": {"p50_ms": 0.099, "p99_ms": 0.7, "finest_ms": 0.1},
            "gateway": {"p99_ms": 2.0},
        },
    )


class Reader(HTMLParser):
    """Checks that elements are closed, and collects external resources."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        # Part of the page: markers and chart pixels.
        named = [
            value for name, value in attributes if name in ("src", "href", "srcset", "xlink:href")
        ]
        self.loaded += [value for value in named if not value.startswith(("#", "data:image/png;"))]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader


def charts(text: str) -> list[ElementTree.Element]:
    return [
        ElementTree.fromstring(svg)
        for svg in re.findall(r"<svg [^>]*role=.*?</svg>", text, flags=re.DOTALL)
    ]


@pytest.fixture(params=["one part", "two parts", "many parts", "beside a base"], scope="module")
def page(request: pytest.FixtureRequest) -> str:
    parts = {"two parts": ("direct", "gateway"), "many parts": tuple("abcde")}
    run = a_run(parts=parts.get(request.param, (ALL,)))
    run.server = seen_by_the_servers()
    base = a_run(seed=2, slower=0.5) if request.param == "beside a base" else None
    return report.page(run, base)


def test_it_loads_and_runs_nothing(page: str) -> None:
    reader = parsed(page)
    assert reader.loaded == []
    assert "script" not in reader.names
    assert not re.search(r"url\((?!#)|@import", page)


def test_every_chart_has_words_and_its_figures(page: str) -> None:
    found = charts(page)
    assert len(found) >= 5
    for svg in found:
        assert svg.get("role") == "img"
        assert svg.findtext(f"{SVG}title") == svg.get("aria-label")
    assert page.count("The same figures as a table") == page.count("<figure") == len(found)


def test_a_pointer_shows_the_figures_of_a_place() -> None:
    text = report.page(a_run())
    by_name = {svg.get("aria-label"): svg for svg in charts(text)}
    strips = by_name["Latency over time"].findall(f".//{SVG}g[@class='hover']/{SVG}g")
    shown = [[span.text for span in strip.iter(f"{SVG}tspan")] for strip in strips]
    over = a_run().parts[0].over_time[ALL]
    assert len(shown) == len(over.t)
    assert shown[0][0] == "0.5 seconds since the start"
    assert f"p99: {over.p99_ms[0]:,.4g}" in shown[0]
    # The strips touch but do not overlap, so the pointer is always over exactly one strip.
    edges = [
        (float(rect.get("x", 0)), float(rect.get("width", 0)))
        for strip in strips
        for rect in strip.iter(f"{SVG}rect")
    ]
    for (x, width), (following, _) in pairwise(edges):
        assert abs(x + width - following) < 0.2


def test_thresholds_show_what_was_measured() -> None:
    run = a_run()
    values = {"p(99)": 12.5, "max": 20}
    held = {"p(99)<250": {"ok": True}, "max>=0": {"ok": True}}
    failed = {"rate<=0.001": {"ok": False}}
    run.k6 = {
        "metrics": {
            "http_req_duration": {"contains": "time", "values": values, "thresholds": held},
            "http_req_failed": {"values": {"rate": 0.25}, "thresholds": failed},
        }
    }
    found = tables.thresholds(run)
    assert found.rows == [
        ["http_req_failed", "rate<=0.001", "25%", "FAILED"],
        ["http_req_duration", "p(99)<250", "12.5 ms", "holds"],
    ]
    text = report.page(run)
    assert "12.5 ms" in text
    assert "threshold of the p99" in text
    assert "threshold of the p99" not in report.page(a_run())


def test_names_within_a_page_are_unique(page: str) -> None:
    names = re.findall(r' id="([^"]+)"', page)
    assert len(names) == len(set(names))
    assert set(re.findall(r"url\(#([^)]+)\)", page)) <= set(names)


def test_without_matplotlib_the_tables_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_plots: object) -> None:
        raise ToolError("no <matplotlib>")

    monkeypatch.setattr(html, "inline", missing)
    text = report.page(a_run())
    assert "Not drawn: no &lt;matplotlib&gt;" in text
    assert "The same figures as a table" in text


def test_the_figures_are_those_of_the_record() -> None:
    run = a_run()
    text = report.page(run)
    latency = run.parts[0].routes[ALL].latency_ms
    assert "1,500" in text
    for key in ("p50", "p99", "max"):
        assert f"<dd>{latency[key]:.{1 if latency[key] >= 10 else 2}f}</dd>" in text
    assert "failed, 1 threshold does not hold" in text
    assert "900 1/s" in text
    summary = report.markdown(run)
    assert summary.startswith("# load: failed")
    assert f"{latency['p99']:.2f}" in summary or f"{latency['p99']:.1f}" in summary


def test_a_base_run_gives_ratios() -> None:
    run, base = a_run(slower=2.0), a_run()
    summary = report.markdown(run, base)
    rows = [line for line in summary.splitlines() if line.startswith("| hello ")]
    assert len(rows) == 2
    assert rows[1].count("× 2.00") == 2
    assert "<td>× 2.00</td>" in report.page(run, base)


def test_a_record_with_figures_alone_has_a_page() -> None:
    run = a_run()
    part = run.parts[0]
    part.percentiles, part.over_time, part.scatter, part.checks = {}, {}, {}, None
    part.routes = {ALL: Route(10, 0, {"p50": 1.0})}
    parsed(report.page(run, run))
    run.parts = []
    parsed(report.page(run))


def test_parts_of_one_route_and_without_times_have_curves() -> None:
    run = a_run(parts=("base", "head"))
    for part in run.parts:
        part.over_time, part.scatter = {}, {}
        part.routes = {"hello": part.routes["hello"]}
        part.percentiles = {"hello": part.percentiles["hello"]}
    titles = [svg.findtext(f"{SVG}title") for svg in charts(report.page(run))]
    assert titles == ["Latency percentiles by part"]
    p99 = run.parts[1].routes["hello"].latency_ms["p99"]
    assert f"<td>{number(p99)}</td>" in report.page(run)


def test_a_suite_leads_to_its_runs(tmp_path: Path) -> None:
    folder = tmp_path / "load-1"
    folder.mkdir()
    overview.write(tmp_path, {"load": (a_run(), folder), "soak": f"k6 ended {HOSTILE}"})
    reader = parsed((tmp_path / "index.html").read_text())
    assert reader.loaded == ["load-1/report.html"]
    assert "script" not in reader.names
    assert "0 of 2 passed" in (tmp_path / "summary.md").read_text()


def test_the_command_writes_it_anew(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("now", "base")]
    for index, folder in enumerate(folders):
        folder.mkdir()
        record.write(a_run(slower=2.0 - index), folder)
    argv = [sys.executable, "loadtests", "report", folders[0], "--base", folders[1]]
    result = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "× 2.00" in (folders[0] / "summary.md").read_text()
    assert "Comparison with the base run" in (folders[0] / "report.html").read_text()
