"""Building blocks of `make check-dashboards`, against a real Prometheus."""

from collections.abc import Iterator

import pytest

from dashboards.live import boards, check
from dashboards.live.boards import Dashboard, Query
from dashboards.live.check import Judge, wrong
from stack.prometheus import Prometheus, lately
from stack.prometheus import prometheus as running

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    # Duplicate series only fail at evaluation.
    (folder / "rules.yaml").write_text(
        "groups: [{name: one, interval: 200ms, rules: [{record: fine, expr: vector(1)}, "
        "{record: broken, expr: 'up * on () group_left () (vector(1) or label_replace(vector(1), "
        '"a", "b", "", ""))\'}]}]\n'
    )
    with running(folder, {}, rule_files=["rules.yaml"]) as found:
        yield found


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("up", ""),
        ("vector(0)", ""),
        ("scalar(up)", ""),
        ("no_such_series", "empty"),
        ("vector(0) / vector(0)", "only NaN"),
        # A single number suffices.
        ('label_replace(vector(1), "a", "b", "", "") or vector(0) / vector(0)', ""),
    ],
)
@pytest.mark.parametrize("instant", [True, False])
def test_a_result_needs_a_number(
    prometheus: Prometheus, expression: str, words: str, instant: bool
) -> None:
    query = prometheus.instant if instant else prometheus.range
    assert wrong(query(expression, lately())) == words


def test_an_error_of_prometheus_is_reported(prometheus: Prometheus) -> None:
    said = wrong(prometheus.instant("sum by (", lately()))
    assert said.startswith("400: ")
    assert "parse error" in said


def board(*panels: dict, templating: list[dict] | None = None) -> Dashboard:
    return boards.read(
        {
            "uid": "one",
            "title": "One",
            "panels": list(panels),
            "templating": {"list": templating or []},
        }
    )


def panel(title: str, *expressions: str) -> dict:
    targets = [
        {"refId": chr(ord("A") + index), "expr": expression, "instant": True}
        for index, expression in enumerate(expressions)
    ]
    return {"type": "stat", "title": title, "targets": targets, "gridPos": {}}


def judged(
    prometheus: Prometheus, dashboard: Dashboard, empty: dict[tuple[str, str, str], str]
) -> Judge:
    judge = Judge(dashboard, empty)
    for each in dashboard.panels:
        for query in each.queries:
            result = prometheus.instant(query.expression, lately())
            judge.panel(each, query, query.expression, result)
    judge.end()
    return judge


def test_an_empty_query_fails_unless_it_is_listed(prometheus: Prometheus) -> None:
    dashboard = board(
        panel("Full", "up"),
        {"type": "row", "title": "Folded", "panels": [panel("Half", "up", "nothing")]},
        panel("Empty", "nothing", "nothing"),
    )
    found = judged(prometheus, dashboard, {})
    assert [failure.where for failure in found.failures] == [
        "One | Half | B",
        "One | Empty | A",
        "One | Empty | B",
    ]
    assert {failure.reason for failure in found.failures} == {"empty"}
    listed = {("one", "Half", "B"): "rare", ("one", "Empty", ""): "rare"}
    found = judged(prometheus, dashboard, listed)
    assert (found.failures, found.notes, found.queries, found.idle) == ([], [], 5, 3)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("count(up) or vector(0)", ""),
        ("(sum(up) or vector(0)) / count(up)", ""),
        # Always 0, because the label does not exist.
        ('count(up{pot="one"}) or vector(0)', "empty"),
        ('(sum(up{pot="one"}) or vector(0)) / count(up)', "empty"),
        ("sum( or vector(0)", "400"),
    ],
)
@pytest.mark.parametrize("instant", [True, False])
def test_a_zero_that_is_always_there_proves_nothing(
    prometheus: Prometheus, expression: str, words: str, instant: bool
) -> None:
    query = Query("A", expression, instant)
    assert wrong(check.evidence(prometheus, query, {}, lately())[1])[:5].strip(": ") == words
