"""Every alert has a drill, and the verdict of a drill is right."""

import re

import pytest

from dashboards.drill import factor, watch
from dashboards.drill.causes import TABLE
from dashboards.drill.verdict import OK, Firing, Track, matches, split
from stack import REPOSITORY

pytestmark = pytest.mark.nightly

RULES = REPOSITORY / "dashboards" / "rules"

LABELS = {"namespace": "drill-stall", "pod": "server-0"}

FIRING = Firing({"alertname": "CorelaneStall", "severity": "warning", "lane": "0", **LABELS})


def test_every_alert_has_a_drill_and_every_drill_an_alert() -> None:
    severities: dict[str, set[str]] = {}
    for rule in factor.alerts(factor.read(RULES)):
        severities.setdefault(rule["alert"], set()).add(rule["labels"]["severity"])
    wanted = {
        f"{name}/{severity}" if len(found) > 1 else name
        for name, found in severities.items()
        for severity in found
    }
    drilled = {alert for drill in TABLE.values() for alert in drill.alerts}
    assert drilled == wanted


@pytest.mark.parametrize(
    ("alert", "labels", "same"),
    [
        ("CorelaneStall", {}, True),
        ("CorelaneStall/warning", LABELS, True),
        ("CorelaneStall/critical", {}, False),
        ("CorelaneStall", {"pod": "server-1"}, False),
        ("CorelaneShedding", {}, False),
    ],
)
def test_an_alert_is_known_by_its_name_severity_and_labels(
    alert: str, labels: dict[str, str], same: bool
) -> None:
    assert matches(FIRING.labels, alert, labels) == same


def test_a_severity_is_part_of_the_name_where_it_is_given() -> None:
    assert split("CorelaneStall") == ("CorelaneStall", {})
    assert split("CorelaneStall/critical") == ("CorelaneStall", {"severity": "critical"})


def track() -> Track:
    """An alert before its cause."""
    return Track("CorelaneStall", fires=90, resolves=60)


def test_an_alert_that_fires_is_told_and_is_resolved_is_ok() -> None:
    one = track()
    assert not one.look([], [], LABELS, 1)
    assert not one.look([FIRING], [], LABELS, 2)
    assert one.look([FIRING], [FIRING.labels], LABELS, 5)
    assert not one.gone([FIRING], LABELS, 1)
    assert one.gone([], LABELS, 3)
    # The first time counts.
    assert one.gone([], LABELS, 9)
    assert (one.fired, one.resolved, one.verdict) == (2, 3, OK)


def test_one_that_does_not_fire() -> None:
    one = track()
    one.look([], [], LABELS, 90)
    assert one.verdict == "did not fire within 90 s"


def test_one_that_fires_with_other_labels() -> None:
    one = track()
    other = Firing({**FIRING.labels, "pod": "server-1"})
    elsewhere = Firing({**FIRING.labels, "namespace": "drill-else"})
    assert not one.look([other, elsewhere], [other.labels], LABELS, 3)
    assert one.verdict == (
        "did not fire within 90 s; it fired with alertname=CorelaneStall, lane=0, "
        "namespace=drill-stall, pod=server-1, severity=warning"
    )


def test_one_of_which_nobody_is_told() -> None:
    one = track()
    one.look([FIRING], [], LABELS, 3)
    one.gone([], LABELS, 3)
    assert one.verdict == "fired without a notification within 90 s"


def test_one_that_is_not_resolved() -> None:
    one = track()
    one.look([FIRING], [FIRING.labels], LABELS, 3)
    assert not one.gone([FIRING], LABELS, 60)
    assert one.verdict == "did not resolve within 60 s"


def test_one_that_fires_before_its_cause() -> None:
    one = track()
    one.early = one.fires_in([FIRING], "drill-stall")
    one.look([FIRING], [FIRING.labels], LABELS, 3)
    one.gone([], LABELS, 3)
    assert one.verdict == "fired before its cause"
    assert not one.fires_in([FIRING], "drill-else")


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
        # What appeared in a window is divided by its length.
        ("a / 300 or rate(a[5m]) / 2", "a / 300 * 20 or rate(a[15000ms]) / 2"),
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
        back = re.sub(rf" [/*] {BY}\b", "", made["expr"])
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
