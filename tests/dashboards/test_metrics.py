"""The series catalogue is consistent, its page is current, and rules and dashboards match it."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dashboards.metrics import catalogue
from dashboards.metrics.catalogue import Group, Part, Series
from stack import REPOSITORY
from support.exposition import Matcher, Selector, differences, selectors

pytestmark = pytest.mark.fast

PARTS = catalogue.read()
SERIES = [each for part in PARTS.values() for each in part.series()]


def test_the_page_is_current() -> None:
    argv = [sys.executable, "dashboards/metrics", "--check"]
    check = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (check.returncode, check.stderr) == (0, "")


def test_bad_usage_is_told() -> None:
    argv = [sys.executable, "dashboards/metrics", "--chekc"]
    check = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert check.returncode == 64
    assert "unrecognized arguments: --chekc" in check.stderr


def test_a_name_is_listed_once() -> None:
    names = [name for series in SERIES for name in series.names()]
    assert len(names) == len(set(names))


def test_names_tell_the_type_and_the_unit() -> None:
    for series in SERIES:
        # Envoy chooses its own names, and recording rules end in their function.
        if series.name.startswith("envoy_") or ":" in series.name:
            continue
        assert (series.type == "counter") == series.name.endswith("_total"), series.name
        named = series.name.removesuffix("_total").rsplit("_", 1)[-1]
        assert series.unit == (named if named in ("seconds", "bytes") else ""), series.name


def test_labels_and_figures_are_explained_and_used() -> None:
    for part in PARTS.values():
        labels = {label for series in part.series() for label in series.labels}
        assert labels == set(part.labels), part.title
        figures = {name for series in part.series() for name in catalogue.figures_of(series.cost)}
        assert figures == set(part.figures) == set(part.example), part.title
        for series in part.series():
            assert set(series.values) <= set(series.labels), series.name
            assert not set(series.labels) & {"job", "service", "instance"}, series.name


def test_what_rules_record_is_listed() -> None:
    records = {
        rule["record"]
        for file in (REPOSITORY / "dashboards/rules").glob("*.rules.yaml")
        for group in yaml.safe_load(file.read_text())["groups"]
        for rule in group["rules"]
        if "record" in rule
    }
    assert {series.name for series in PARTS["recorded"].series()} == records


def test_a_record_is_named_by_its_labels() -> None:
    for series in PARTS["recorded"].series():
        level, *_ = series.name.split(":")
        of_level = set(level.split("_")) - {"service", "slo"}
        # Only objective overrides have a `route`.
        more = {"code", "le", "slo"} | ({"route"} if level == "slo" else set())
        assert of_level == set(series.labels) - more, series.name


def part(**series: object) -> Part:
    told = {"type": "gauge", "meaning": "M", "cost": "2 * lanes", "labels": ("lane", "side")}
    one = Series(name="corelane_x", values={"side": ("in", "out")}, **told | series)
    about = {"title": "", "jobs": (), "per": "", "intro": "", "example_is": ""}
    groups = (Group("", (one,)),)
    return Part(**about, labels={}, figures={}, example={"lanes": 1}, groups=groups)


PAGE = """\
# HELP corelane_x M
# TYPE corelane_x gauge
corelane_x{lane="0",side="in"} 1
corelane_x{lane="0",side="out"} 2
# EOF
"""


def test_a_page_that_is_as_listed_passes() -> None:
    assert differences([part()], PAGE) == []
    assert differences([part(cost="3", at_most=True)], PAGE) == []
    assert differences([part(optional="sometimes")], "# EOF\n") == []


@pytest.mark.parametrize(
    ("listed", "old", "new", "words"),
    [
        ({}, "corelane_x", "corelane_y", "corelane_x: in the catalogue, not shown"),
        ({}, "corelane_x", "corelane_y", "corelane_y: shown, not in the catalogue"),
        ({"type": "counter"}, "", "", "type 'counter' in the catalogue, 'gauge' shown"),
        ({}, "HELP corelane_x M", "HELP corelane_x N", "meaning 'M' in the catalogue, 'N' shown"),
        ({"labels": ("lane",)}, "", "", "labels {'lane'} in the catalogue"),
        ({}, 'side="in"', 'side="up"', "side is not listed to be up"),
        ({"cost": "lanes"}, "", "", "2 series shown, lanes = 1 in the catalogue"),
        ({"cost": "3 * lanes"}, "", "", "2 series shown, 3 * lanes = 3 in the catalogue"),
        ({"cost": "lanes", "at_most": True}, "", "", "2 series shown, lanes = 1 in the catalogue"),
    ],
)
def test_a_page_that_is_not_as_listed_is_told(listed: dict, old: str, new: str, words: str) -> None:
    found = differences([part(**listed)], PAGE.replace(old, new))
    assert any(words in each for each in found), found


LISTED = catalogue.by_name(PARTS)
NAMES = {*LISTED, *(series.name for series in LISTED.values())}
LABELS = {label for part in PARTS.values() for label in part.labels}

ADAPTER = REPOSITORY / "charts" / "service" / "prometheus-adapter.yaml"
OTHERS = {"corelane_migrations", *re.findall(r"as: (corelane_\w+)", ADAPTER.read_text())}
"""Names that resemble series: a database table, and metrics from an adapter."""

PAGES = subprocess.run(
    # The changelog mentions removed series.
    ["git", "ls-files", "*.md", ":!CHANGELOG.md"],
    cwd=REPOSITORY,
    capture_output=True,
    text=True,
    check=True,
).stdout.split()


def unknown(text: str) -> list[str]:
    """Words that look like series but are not in the catalogue. A trailing _ marks a prefix."""
    words = re.findall(r"(?<![\w:-])(?:[a-z_]+:)?(?:corelane|envoy)_[\w:]+", text)
    prefixes = tuple(prefix.name for part in PARTS.values() for prefix in part.prefixes)

    def known(word: str) -> bool:
        if word.endswith("_"):
            return any(name.startswith(word) for name in (*NAMES, *prefixes))
        return word in NAMES | LABELS | OTHERS

    return [word for word in words if not known(word.rstrip(":")) and "::" not in word]


@pytest.mark.parametrize("page", PAGES)
def test_series_that_are_named_are_there(page: str) -> None:
    assert unknown((REPOSITORY / page).read_text()) == []


def test_a_wrong_name_is_found() -> None:
    text = "`corelane_requests_total`, `corelane_cpu_`, `service:corelane_capacity_used:ratio`, "
    assert unknown(text + "`corelane_request_total`") == ["corelane_request_total"]
    assert unknown(text + "`service:corelane_capacity:ratio`") == [
        "service:corelane_capacity:ratio"
    ]
    assert unknown(text + "corelane_none_") == ["corelane_none_"]


DASHBOARDS = REPOSITORY / "dashboards"

NOT_OURS = ("up", "ALERTS", "scrape_", "prometheus_", "alertmanager_", "k6_", "container_", "kube_")
"""Series of Prometheus, Alertmanager, k6, the kubelet and kube-state-metrics."""


def of_rules(file: Path) -> Iterator[tuple[str, str]]:
    for group in yaml.safe_load(file.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule.get("record") or rule["alert"], rule["expr"]


def of_dashboard(value: object, title: str) -> Iterator[tuple[str, str]]:
    """Titles and expressions of panels, and variable queries."""
    if isinstance(value, list):
        for each in value:
            yield from of_dashboard(each, title)
    if not isinstance(value, dict):
        return
    title = value.get("title") or value.get("name") or title
    if isinstance(value.get("expr"), str):
        yield title, value["expr"]
    if value.get("type") == "query" and "query" in value:
        query = value["query"]
        yield title, query if isinstance(query, str) else query["query"]
    for each in value.values():
        yield from of_dashboard(each, title)


def of_file(file: Path) -> list[tuple[str, str]]:
    if file.suffix == ".json":
        return list(of_dashboard(json.loads(file.read_text()), ""))
    return list(of_rules(file))


def wrong(selector: Selector) -> Iterator[str]:
    if any("$" in each.value for each in selector.names()):
        return
    if selector.name.startswith(NOT_OURS):
        return
    names = [name for name in LISTED if all(each.takes(name) for each in selector.names())]
    if not names:
        yield f"no series of the catalogue: {selector.name or selector.names()}"
    series = [LISTED[name] for name in names]
    for matcher in selector.matchers:
        # Variables have no fixed value, and names were checked above.
        if "$" in matcher.value or matcher.label == "__name__":
            continue
        if not any(_passes(matcher, name, each) for name, each in zip(names, series, strict=True)):
            yield f"{selector.name}: nothing has {matcher.label}{matcher.operator}{matcher.value}"


def _passes(matcher: Matcher, name: str, series: catalogue.Series) -> bool:
    if matcher.label in catalogue.TARGET_LABELS:
        return True
    if matcher.label == "le":
        return name.endswith("_bucket")
    if matcher.label not in series.labels:
        return False
    values = series.values.get(matcher.label)
    return values is None or any(matcher.takes(value) for value in values)


FILES = sorted(DASHBOARDS.glob("rules/*.yaml")) + sorted(DASHBOARDS.glob("json/*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_what_is_read_is_there(file: Path) -> None:
    found = of_file(file)
    assert found
    assert [
        f"{title}: {words}"
        for title, expression in found
        for selector in selectors(expression)
        for words in wrong(selector)
    ] == []


RATE = re.compile(r"(i?rate|increase|i?delta)\(([\w:]+)(\{[^}]*\})?\[([^\]]+)\]")
"""Matches expressions without white space."""


def unborn(expression: str) -> list[str]:
    """Rates of late series that miss their first increase; see docs/metrics.md."""
    text = re.sub(r"\s+", "", re.sub(r"#[^\n]*", "", expression))

    def counts(rate: re.Match[str]) -> bool:
        function, name, matchers, window = rate.groups("")
        own = ",".join((*LISTED[name].labels, *["le"] * name.endswith("_bucket")))
        of_target = r'\{job="service"[^}]*\}'
        selector, of_window, width = map(re.escape, (name + matchers, f"[{window}]", window))
        births = (
            rf"\(max_over_time\({selector}{of_window}\)unless{selector}offset{width}unlessignoring\({own}\)"
            rf"\(time\(\)-max_over_time\(process_start_time_seconds{of_target}{of_window}\)>{seconds(window)}"
            rf"unlessup{of_target}offset{width}==1\)\)"
        )
        each = rf"/{seconds(window)}" if function == "rate" else ""
        return re.search(births + each + "or$", text[: rate.start()]) is not None

    late = (it for it in RATE.finditer(text) if it[2] in LISTED and LISTED[it[2]].late)
    return [rate[0] for rate in late if not counts(rate)]


def seconds(window: str) -> str:
    if window.startswith("$"):
        return re.escape(f"({window}_ms/1000)")
    return str(int(window[:-1]) * {"s": 1, "m": 60, "h": 3600}[window[-1]])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_late_series_count_from_their_first_event(file: Path) -> None:
    assert [f"{title}: {it}" for title, text in of_file(file) for it in unborn(text)] == []


def test_a_rate_that_misses_the_first_event_is_found() -> None:
    assert unborn('sum(rate(corelane_requests_total{code="500"} [5m]))')
    assert unborn("increase(corelane_stalls_total[5m]) > 0")
    assert unborn("rate(corelane_panics_total[5m])") == []
    text = dict(of_rules(DASHBOARDS / "rules/slo.rules.yaml"))["route:corelane_requests:rate5m"]
    assert unborn(text) == []
    changes = {"offset 5m": "offset 6m", "/ 300": "/ 60", ", code)": ")", "> 300": "> 60"}
    for old, new in changes.items():
        assert unborn(text.replace(old, new)), new


def read(expression: str) -> list[str]:
    return [words for selector in selectors(expression) for words in wrong(selector)]


@pytest.mark.parametrize(
    "expression",
    [
        'sum by (lane) (rate(corelane_requests_total{code=~"5..", pod=~"$pod"}[$__rate_interval]))',
        'up{job="service"} == 0 and on (pod) corelane_phase{phase!="serving"} > time() - 5 * 60',
        'corelane_requests_total{route="/div/{n}"} offset 5m or corelane_ready',
        "histogram_quantile(0.9, corelane_request_duration_seconds_bucket{le!='x'})".replace(
            "'", '"'
        ),
        'max({__name__=~"envoy_overload_envoy_overload_actions_.+_active", job="gateway"})',
        'label_values(corelane_requests_total{service="$service"}, route)',
    ],
)
def test_good_expressions_pass(expression: str) -> None:
    assert read(expression) == []


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("rate(corelane_request_total[5m])", "no series of the catalogue"),
        ("corelane_request_duration_seconds", "no series of the catalogue"),
        ("route:corelane_nothing:rate1m", "no series of the catalogue"),
        ('{__name__=~"envoy_overlord_.+"}', "no series of the catalogue"),
        ('corelane_requests_total{status="500"}', "nothing has status=500"),
        ('corelane_phase{phase="draining"}', "nothing has phase=draining"),
        ('corelane_phase{phase=~"drain.*"}', "nothing has phase=~drain.*"),
        ('corelane_requests_total{le="1"}', "nothing has le=1"),
    ],
)
def test_bad_expressions_are_named(expression: str, words: str) -> None:
    (found,) = read(expression)
    assert words in found
