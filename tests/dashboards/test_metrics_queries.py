"""Rules and dashboards read what the catalogue has, by labels and values that are there."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dashboards.metrics import catalogue
from support import REPOSITORY
from support.exposition import Matcher, Selector, selectors

pytestmark = pytest.mark.fast

DASHBOARDS = REPOSITORY / "dashboards"
LISTED = catalogue.by_name(catalogue.read())

NOT_OURS = ("up", "ALERTS", "scrape_", "prometheus_", "alertmanager_", "k6_", "container_", "kube_")
"""What Prometheus, Alertmanager, k6, the kubelet and kube-state-metrics make: their own documentation lists it."""


def of_rules(file: Path) -> Iterator[tuple[str, str]]:
    """Each rule's name and expression."""
    for group in yaml.safe_load(file.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule.get("record") or rule["alert"], rule["expr"]


def of_dashboard(value: object, title: str) -> Iterator[tuple[str, str]]:
    """Each panel's title and expressions, and the queries of variables."""
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
    """All expressions of a dashboard or of a file of rules."""
    if file.suffix == ".json":
        return list(of_dashboard(json.loads(file.read_text()), ""))
    return list(of_rules(file))


def wrong(selector: Selector) -> Iterator[str]:
    """What a selector reads that is not there."""
    if any("$" in each.value for each in selector.names()):
        return
    if selector.name.startswith(NOT_OURS):
        return
    names = [name for name in LISTED if all(each.takes(name) for each in selector.names())]
    if not names:
        yield f"no series of the catalogue: {selector.name or selector.names()}"
    series = [LISTED[name] for name in names]
    for matcher in selector.matchers:
        # What a variable stands for is known only to who looks; a name was looked at above.
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


def read(expression: str) -> list[str]:
    """What is wrong with an expression."""
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
