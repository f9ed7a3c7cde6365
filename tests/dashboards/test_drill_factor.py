"""The rules that a drill runs with are the real ones, each of their durations divided by one factor."""

import re

import pytest

from dashboards.drill import factor, watch
from support import REPOSITORY

pytestmark = pytest.mark.nightly

RULES = REPOSITORY / "dashboards" / "rules"

BY = 20

REAL = factor.read(RULES)

DURATION = re.compile(r"(?<![\w.])(?:\d+(?:ms|[smhdwy]))+(?!\w)")


def durations(expression: str) -> list[str]:
    """The durations of an expression that are not in a string."""
    return DURATION.findall(re.sub(r'"[^"]*"', '""', expression))


def pairs() -> list[tuple[dict, dict]]:
    """Every real rule, and what becomes of it."""
    return [
        (real, made)
        for document in REAL.values()
        for before, after in zip(
            document["groups"], factor.rules(document, BY)["groups"], strict=True
        )
        for real, made in zip(before["rules"], after["rules"], strict=True)
    ]


@pytest.mark.parametrize(
    ("duration", "made"),
    [("5m", "15000ms"), ("1h30m", "270000ms"), ("1s", "50ms"), ("30d", "129600000ms")],
)
def test_a_duration_is_divided(duration: str, made: str) -> None:
    assert factor.divided(duration, BY) == made


def test_no_duration() -> None:
    with pytest.raises(ValueError, match="not a duration such as 5m"):
        factor.divided("five minutes", BY)


@pytest.mark.parametrize(
    ("expression", "made"),
    [
        ("rate(a[5m])", "rate(a[15000ms])"),
        ("max_over_time(rate(a[5m])[1h:30s])", "max_over_time(rate(a[15000ms])[180000ms:1500ms])"),
        ("up offset 10m", "up offset 30000ms"),
        # Names and strings are no durations, and a number is none.
        ('route:a:rate5m{b="[5m] for 1h"} > 14.4', 'route:a:rate5m{b="[5m] for 1h"} > 14.4'),
        ("time() - a > 15 * 60", "time() - a > 15 * 60 / 20"),
        ("max by (x) (a - time()) < 86400", "max by (x) (a - time()) < 86400 / 20"),
        # What is not compared with the clock stays.
        ("(time() - (a > 0) - b) > 30", "(time() - (a > 0) - b) > 30 / 20"),
        ("b == 0 or time() - a > 60", "b == 0 or time() - a > 60 / 20"),
        ("time() - a > 60 and b > 3", "time() - a > 60 / 20 and b > 3"),
        # The seconds between two samples of a sum become less, so that it still counts requests.
        ("30 * sum_over_time(a[1h]) > 10", "30 / 20 * sum_over_time(a[180000ms]) > 10"),
    ],
)
def test_an_expression_is_divided(expression: str, made: str) -> None:
    assert factor.expression(expression, BY) == made


def test_every_duration_of_every_rule_is_divided() -> None:
    compared = 0
    for real, made in pairs():
        before, after = durations(str(real["expr"])), durations(made["expr"])
        assert after == [factor.divided(each, BY) for each in before], real
        for name in factor.FIELDS:
            assert (name in real) == (name in made)
            if name in real:
                assert made[name] == factor.divided(str(real[name]), BY)
        compared += len(before)
    assert compared > 50


def test_nothing_else_is_changed() -> None:
    for real, made in pairs():
        kept = {name: value for name, value in real.items() if name not in ("expr", *factor.FIELDS)}
        assert kept.items() <= made.items()
        assert made.keys() == real.keys()
        back = re.sub(rf" / {BY}\b", "", made["expr"])
        assert DURATION.sub("", back) == DURATION.sub("", str(real["expr"])), real


def test_every_age_that_is_compared_with_the_clock_is_divided() -> None:
    clocks = [
        (real, made) for real, made in pairs() if "time()" in str(real["expr"]) and "alert" in real
    ]
    assert clocks
    for real, made in clocks:
        assert f"/ {BY}" in made["expr"], real


def test_groups_are_evaluated_as_much_more_often() -> None:
    for document in REAL.values():
        after = factor.rules(document, BY)["groups"]
        for real, made in zip(document["groups"], after, strict=True):
            if "interval" in real:
                assert made["interval"] == factor.divided(real["interval"], BY)


def test_what_alertmanager_waits_for_is_divided_in_every_route() -> None:
    real = {
        "group_wait": "1m",
        "receiver": "a",
        "routes": [{"repeat_interval": "1d", "receiver": "b"}],
    }
    made = {
        "group_wait": "3000ms",
        "receiver": "a",
        "routes": [{"repeat_interval": "4320000ms", "receiver": "b"}],
    }
    assert watch.route(real, BY) == made
