"""The report of `bench field`: ratios within a round, who is first, and pictures."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest

from loadtests.bench.field import report
from loadtests.bench.field.report import plots, rows, standing, summary
from loadtests.bench.field.report.measures import CPU, RATE
from loadtests.bench.field.report.rows import COMPARED, US, Row
from loadtests.bench.field.report.standing import Standing
from support import REPOSITORY
from support.bench_field import CPU_US, record
from tools.errors import ToolError

pytestmark = pytest.mark.nightly

PARTS = ("mixed", "idle", "c10k", "proxies", "scaling", "published")
"""What a record may lack, beside workloads."""


@pytest.fixture(scope="module")
def made() -> dict:
    """A record of everything, without side effects between tests: nobody changes it."""
    return record()


def row(measure=CPU, **values: list[float]) -> Row:
    """A row of `hello`, by contender the values of its rounds."""
    named = {name.replace("_", "-"): found for name, found in values.items()}
    return Row("hello", measure, {name: dict(enumerate(found)) for name, found in named.items()})


def test_ratios_are_taken_within_a_round() -> None:
    # The machine was half as fast in one round; medians apart from each other would give 1.5.
    found = row(corelane_server=[3.0, 6.0, 3.0], hyper=[2.0, 4.0, 4.0])
    assert found.ratios(US, "hyper") == [1.5, 1.5, 0.75]
    # A round that only one of them has is left out.
    apart = Row("hello", CPU, {US: {1: 3.0, 2: 8.0}, "hyper": {1: 2.0, 3: 1.0}})
    assert apart.ratios(US, "hyper") == [1.5]


@pytest.mark.parametrize(
    ("ours", "theirs", "measure", "expected"),
    [
        ([3.0, 3.1, 3.0], [3.2, 3.2, 3.3], CPU, Standing.FIRST),
        ([3.0, 3.3, 3.0], [3.2, 3.2, 3.3], CPU, Standing.LEVEL),
        ([3.4, 3.3, 3.5], [3.2, 3.2, 3.3], CPU, Standing.BEHIND),
        ([9.0, 9.1, 9.2], [8.0, 8.1, 8.2], RATE, Standing.FIRST),
        ([7.0, 7.1, 7.2], [8.0, 8.1, 8.2], RATE, Standing.BEHIND),
        ([3.0, 3.2, 3.0], [3.2, 3.2, 3.3], CPU, Standing.LEVEL),
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], CPU, Standing.LEVEL),
    ],
)
def test_a_place_is_told_where_all_rounds_agree(
    ours: list[float], theirs: list[float], measure, expected: Standing
) -> None:
    found = standing.place(row(measure, corelane_server=ours, hyper=theirs))
    assert found.standing is expected
    assert found.best == "hyper"


def test_whoever_is_behind_loses_to_the_best_by_other_rounds_as_well() -> None:
    # By the median of all rounds axum is the best other, and better in each of them. By the second
    # and the third alone ntex would have been, which lost the first.
    values = {"axum": [0.9, 0.65, 0.6], "ntex": [5.0, 0.2, 0.7]}
    found = standing.place(row(corelane_server=[1.0, 1.1, 0.9], **values))
    assert (found.best, found.standing) == ("axum", Standing.LEVEL)
    values["ntex"][0] = 0.8
    assert (
        standing.place(row(corelane_server=[1.0, 1.1, 0.9], **values)).standing is Standing.BEHIND
    )


def test_a_single_round_has_its_own_best() -> None:
    found = standing.place(row(corelane_server=[3.0], axum=[2.0], hyper=[4.0]))
    assert (found.best, found.standing) == ("axum", Standing.BEHIND)


def test_equals_are_told_apart_by_chance_alone() -> None:
    random = Random(1)
    peers = [f"peer-{number}" for number in range(10)]
    found = [
        standing.place(
            row(**{one: [random.lognormvariate(0, 1) for _ in range(3)] for one in (US, *peers)})
        ).standing
        for _ in range(500)
    ]
    # Three rounds agree once in eight. Beside the best of all rounds alone every third is behind.
    assert found.count(Standing.BEHIND) / len(found) < 0.2
    assert found.count(Standing.FIRST) / len(found) < 0.2


def test_floor_and_profiled_build_are_shown_and_not_ranked() -> None:
    values = {"floor": {1: 1.0}, "corelane-server, PGO": {1: 2.0}, US: {1: 3.0}, "axum": {1: 4.0}}
    found = Row("hello", CPU, values)
    assert found.ranked() == [US, "axum"]
    assert standing.place(found).place == 1


def test_tables_have_every_contender_that_took_a_workload(made: dict) -> None:
    text = report.markdown(made)
    for workload, title in rows.TITLES.items():
        section = part_of(text, title[0].upper() + title[1:])
        taken = rows.samples(made, workload)
        assert taken
        for name in CPU_US:
            assert (f"\n| {name} " in section) == (name in taken), f"{name}, {workload}"


def part_of(text: str, title: str) -> str:
    """From one heading to the next."""
    return text.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def test_what_is_first_and_behind_adds_up(made: dict) -> None:
    text = report.markdown(made)
    found = summary.places(made)
    behind = [one for one in found if one.standing is Standing.BEHIND]
    assert len(found) > len(behind) > 0
    assert body_rows(part_of(text, "Who is first")) == len(found)
    assert body_rows(part_of(text, "Where Corelane is behind")) == len(behind)


def body_rows(section: str) -> int:
    """The rows of its one table, without the head."""
    return sum(line.startswith("|") for line in section.splitlines()) - 2


def test_the_target_is_told_by_the_median_ratio_to_the_floor() -> None:
    made = record()
    for name, cost in (("floor", 3.0), (US, 3.27)):
        for sample in made["cells"]["hello"][name]:
            sample["closed"]["cpu_us"] = cost
    assert "1.09 (1.09–1.09) times the floor, which meets the target" in report.markdown(made)
    for sample in made["cells"]["hello"][US]:
        sample["closed"]["cpu_us"] = 3.33
    assert "1.11 (1.11–1.11) times the floor, which misses the target" in report.markdown(made)


@pytest.mark.parametrize("left_out", [*PARTS, *rows.WORKLOADS])
def test_a_part_that_was_not_measured_is_left_out(left_out: str, tmp_path: Path) -> None:
    made = record(rounds=1)
    del (made if left_out in PARTS else made["cells"])[left_out]
    text = report.write(made, tmp_path)
    title = rows.TITLES.get(left_out)
    assert title is None or f"\n## {title[0].upper()}{title[1:]}\n" not in text
    shown = set(re.findall(r"!\[.+?\]\((.+?)\)", text))
    assert shown == {file.name for file in tmp_path.glob("*.svg")}


def test_wrong_answers_are_counted_and_named() -> None:
    made = record()
    assert report.wrong(made) == 0
    assert "requests none got a wrong answer or none." in report.markdown(made)
    made["cells"]["div"]["axum"][1]["open"]["wrong"] = 3
    made["mixed"]["hyper"][0]["wrong"] = 1
    made["scaling"]["pods"]["wrong"] = 1
    assert report.wrong(made) == 5
    found = "5 got a wrong answer or none (hyper 1, axum 3, how cost grows, pods 1)."
    assert found in report.markdown(made)


def test_requests_that_fail_under_ab_are_a_finding() -> None:
    made = record()
    made["c10k"]["nginx"][0]["failed"] = 2
    made["c10k"]["nginx"][2]["failed"] = 5
    assert report.wrong(made) == 0
    text = report.markdown(made)
    assert "10,000 connections at once failed: nginx 7." in text
    (line,) = re.findall(r"\n\| nginx +\|.+", part_of(text, "10,000 connections at once"))
    assert line.split("|")[-3].strip() == "7"


def test_latencies_of_the_few_that_got_in_are_not_ranked() -> None:
    made = record()
    for number, sample in enumerate(made["c10k"]["nginx"]):
        sample["dropped"] = 140 if number == 1 else 0
    found = {one.measure.key: one for one in rows.of_workload(made, rows.C10K)}
    assert "nginx" in found["rate"].ranked()
    for key in ("p50", "p99", "max"):
        assert "nginx" in found[key].values and "nginx" not in found[key].ranked()
    section = part_of(report.markdown(made), "10,000 connections at once")
    assert re.search(r"^\| nginx .*\| 140 +\|$", section, re.MULTILINE)
    # Corelane's own are ranked whatever it dropped: a row that it loses stays.
    made["c10k"][US][0]["dropped"] = 13_000
    found = {one.measure.key: one for one in rows.of_workload(made, rows.C10K)}
    assert US in found["p99"].ranked()


def test_who_did_not_take_part_is_told() -> None:
    made = record()
    made["contenders"]["apache"] = {"family": "web server", "settings": "", "missing": "no package"}
    del made["cells"]["hello"]["apache"]
    made["cells"]["work"]["cpp-pool"][0] = {"round": 1, "error": "it ended"}
    made["idle"]["ntex"] = [{"round": 1, "error": "too few files"}]
    text = report.markdown(made)
    assert "- apache did not take part, or not to the end: no package" in text
    assert "- cpp-pool did not carry work in round 1: it ended" in text
    assert "- ntex did not carry idle in round 1: too few files" in text


ALONE = {"floor", US}


@pytest.mark.parametrize(
    "left", [set(), {"floor"}, {US}, ALONE], ids=["nobody", "floor", US, "two"]
)
def test_a_report_of_few_who_all_failed_at_something_is_written(
    left: set[str], tmp_path: Path
) -> None:
    made = record(rounds=1)
    for part in (*made["cells"].values(), *(made[name] for name in ("mixed", "idle", "c10k"))):
        for name in set(part) - left:
            part[name] = [{"round": 1, "error": "it ended"}]
    for name in left & set(made["mixed"]):
        made["mixed"][name][0] |= {"fast": None, "slow": None}
    for name in left & set(made["cells"]["div"]):
        made["cells"]["div"][name][0]["open"] |= {"latency_ms": None, "percentiles": []}
    made |= {"proxies": {}, "scaling": {}}
    text = report.write(made, tmp_path)
    assert "axum did not carry hello in round 1: it ended" in text


def test_a_report_of_nothing_is_written(tmp_path: Path) -> None:
    made = {name: record()[name] for name in ("plan", "machine", "versions", "contenders")}
    for one in made["contenders"].values():
        one["missing"] = "no compiler"
    assert "axum did not take part, or not to the end: no compiler" in report.write(made, tmp_path)


def test_pictures_are_whole_and_have_both_colour_schemes(made: dict) -> None:
    drawn = plots.pictures(made)
    assert len(drawn) == 12
    for name, picture in drawn.items():
        ElementTree.fromstring(picture)
        assert "prefers-color-scheme: dark" in picture, name
        # Viewers of single files load nothing.
        assert "href" not in picture
        assert "@import" not in picture


def test_bars_are_as_long_as_what_they_show() -> None:
    made = record(rounds=1)
    costs = {"floor": 2.0, US: 4.0, "hyper": 8.0, "axum": 400.0}
    hello = made["cells"]["hello"]
    made["cells"] = {"hello": {name: hello[name] for name in costs}}
    for name, cost in costs.items():
        hello[name][0]["closed"]["cpu_us"] = cost
    bars = re.findall(r'<rect x="160" y="[\d.]+" width="([\d.]+)"', plots.cpu(made))
    ours, hyper, axum = map(float, bars)
    assert hyper == pytest.approx(2 * ours, rel=0.01)
    # One that would make the others invisible is cut, and has its figure.
    assert axum < 5 * ours
    assert ">400</text>" in plots.cpu(made)
    (floor,) = re.findall(r'class="floor" d="M([\d.]+)', plots.cpu(made))
    assert float(floor) - 160 == pytest.approx(ours / 2, rel=0.01)


def test_every_panel_of_percentiles_has_floor_and_corelane(made: dict) -> None:
    picture = plots.latency(made, "hello")
    panels = picture.split('class="panel"')[1:]
    assert len(panels) > 1
    for panel in panels:
        assert "<title>floor</title>" in panel
        assert "<title>corelane-server</title>" in panel
    for name in made["cells"]["hello"]:
        assert f"<title>{name}</title>" in picture


def test_laws_are_drawn_beyond_what_was_measured_and_told(made: dict) -> None:
    part = made["scaling"]["connections"]
    picture = plots.scaling("connections", part)
    measured, law = (
        max(map(float, re.findall(r"[ML]([\d.]+) ", path)))
        for path in (
            re.search(r'd="([^"]+)" class="line"[^>]+><title>nginx<', picture)[1],
            re.search(r'd="([^"]+)" class="line"[^>]+stroke-dasharray', picture)[1],
        )
    )
    assert law > measured
    text = part_of(report.markdown(made), "How cost grows")
    assert "- nginx: a + b log n" in text
    assert "- A note of pods." in text


def test_reasons_are_of_rows_that_there_may_be() -> None:
    reasons = tomllib.loads(summary.REASONS.read_text())
    for workload, found in reasons.items():
        chosen = COMPARED.values() if workload == "any" else [COMPARED[workload]]
        known = {measure.key for some in chosen for measure in some}
        assert set(found) <= known, workload


def test_a_reason_stands_beside_its_row(made: dict, tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "reasons.toml"
    file.write_text('[idle]\nconnection = "Because."\n[any]\ninstalled = "Also because."\n')
    monkeypatch.setattr(summary, "REASONS", file)
    text = summary.losses(made)
    assert "\n- **start and memory, idle connection:** Because.\n" in text
    assert "\n- **size on disk, installed:** Also because." in text
    (rest,) = re.findall(r"- \*\*(.+):\*\* Not explained yet\.", text)
    assert len(rest.split("; ")) == body_rows(text) - 2


def test_the_command_renders_a_record_again(made: dict, tmp_path: Path) -> None:
    (tmp_path / report.RECORD).write_text(json.dumps(made))
    argv = [sys.executable, "loadtests/bench", "field", "--render", str(tmp_path / report.RECORD)]
    result = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "bench.md").read_text() == report.markdown(json.loads(json.dumps(made)))
    with pytest.raises(ToolError, match="give a bench.json"):
        report.render(tmp_path / "none.json")
