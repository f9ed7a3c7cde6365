"""Every alert has a drill, and drills are judged correctly."""

import pytest

from dashboards.drill import factor
from dashboards.drill.causes import TABLE
from dashboards.drill.verdict import OK, Firing, Track
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


def track() -> Track:
    """Returns a track in its state before the fault."""
    return Track("CorelaneStall", fires=90, resolves=60)


def test_an_alert_that_fires_is_told_and_is_resolved_is_ok() -> None:
    one = track()
    assert not one.look([], [], LABELS, 1)
    assert not one.look([FIRING], [], LABELS, 2)
    assert one.look([FIRING], [FIRING.labels], LABELS, 5)
    assert not one.gone([FIRING], LABELS, 1)
    assert one.gone([], LABELS, 3)
    # Only the first time counts.
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
