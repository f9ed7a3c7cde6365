"""How variables come into the queries of dashboards."""

import json
import subprocess
from pathlib import Path

import pytest

from dashboards.live import boards
from dashboards.live.filling import Range, Value, fill
from tools import resolve
from tools.errors import ToolError

HOUR = Range(start=1_000_000, end=1_003_600, scrape=15)


def filled(text: str, **values: Value) -> str:
    """The text, looked at for an hour."""
    return fill(text, values, HOUR)


@pytest.mark.parametrize("form", ["$pod", "${pod}", "[[pod]]", "${pod:regex}"])
def test_a_variable_can_be_written_in_each_way(form: str) -> None:
    assert filled(f'up{{pod=~"{form}"}}', pod=Value(("a",), many=True)) == 'up{pod=~"a"}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Value(("server-0",), many=True), "server-0"),
        (Value(("server-0", "server-1"), many=True), "(server-0|server-1)"),
        # Twice: once for the string of PromQL, once for the expression in it.
        (Value(("/div/{n}", "a.b"), many=True), r"(/div/\\{n\\}|a\\.b)"),
        (Value(("a", "b"), many=True, literal=".*"), ".*"),
        # One that has one value only is for `=`: nothing in it is an expression.
        (Value(("/div/{n}",)), "/div/{n}"),
        (Value(('say "a\\b"',)), r"say \"a\\b\""),
    ],
)
def test_values_are_what_grafana_makes_of_them(value: Value, text: str) -> None:
    assert filled("$it", it=value) == text


def test_other_forms_join_the_values_as_they_are() -> None:
    pods = Value(("a.b", "c"), many=True)
    assert filled("${it:pipe} ${it:csv}", it=pods) == "a.b|c a.b,c"
    with pytest.raises(ToolError, match="form doublequote"):
        filled("${it:doublequote}", it=pods)


def test_a_variable_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(ToolError, match=r"\$job"):
        filled('up{job="$job"}')


@pytest.mark.parametrize(
    ("over", "step", "rate"),
    [
        # 6 s for each pixel, rounded to 10; a rate has four scrapes.
        (Range(0, 3600, 5), "10s", "20s"),
        # Not more often than it is scraped.
        (Range(0, 300, 15), "15s", "60s"),
        (Range(0, 86400, 15), "300s", "315s"),
        (Range(0, 120, 0.5), "1s", "2s"),
    ],
)
def test_intervals_follow_the_range_and_the_scrapes(over: Range, step: str, rate: str) -> None:
    assert fill("$__interval $__rate_interval", {}, over) == f"{step} {rate}"


def test_the_range_is_known_in_every_unit() -> None:
    text = "[$__range] $__range_s $__range_ms $__from $__to"
    assert filled(text) == "[3600s] 3600 3600000 1000000000 1003600000"


def test_every_query_of_every_dashboard_is_promql_when_it_is_filled(tmp_path: Path) -> None:
    everything = boards.load()
    assert everything
    rules = []
    for dashboard in everything:
        values = {
            variable["name"]: Value(("a/{b}", "c"), many=True) for variable in dashboard.variables
        }
        expressions = [query.expression for panel in dashboard.panels for query in panel.queries]
        expressions += [annotation["expr"] for annotation in dashboard.annotations]
        for expression in expressions:
            rules.append({"record": f"r{len(rules)}", "expr": fill(expression, values, HOUR)})
    file = tmp_path / "queries.yaml"
    # JSON is YAML (YAML 1.2, section 1.3).
    file.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    argv = [resolve.ensure(["promtool"])["promtool"], "check", "rules", "--lint=none", file]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert f"{len(rules)} rules found" in result.stdout
