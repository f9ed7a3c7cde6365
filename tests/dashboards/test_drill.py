"""Every alert has a drill, and the verdict of a drill is right."""

import subprocess
import sys
from pathlib import Path

import pytest

from dashboards.drill import factor, report
from dashboards.drill.causes import TABLE
from dashboards.drill.cgroup import Quota
from dashboards.drill.drills import chosen, known
from dashboards.drill.run import Calm, Outcome, failed, jobs, others
from dashboards.drill.verdict import OK, Firing, Track, matches, split
from support import REPOSITORY

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


def test_every_drill_says_how() -> None:
    assert all(drill.how for drill in TABLE.values())
    assert known(TABLE) == {rule["alert"] for rule in factor.alerts(factor.read(RULES))}


def test_the_drills_of_some_alerts() -> None:
    found = chosen(["CorelaneStall", "CorelaneQueueLong"], TABLE)
    alerts = {alert for drill in found.values() for alert in drill.alerts}
    assert {"CorelaneStall", "CorelaneQueueLong"} <= alerts
    assert len(found) == 2
    assert chosen([], TABLE) == TABLE


def test_an_unknown_alert_is_refused() -> None:
    argv = [sys.executable, REPOSITORY / "dashboards" / "drill", "CorelaneNothing"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert result.returncode == 64
    assert result.stderr.startswith("drill: unknown alert CorelaneNothing; known: Corelane")
    assert len(result.stderr.splitlines()) == 1


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


def test_one_that_is_kept_quiet_need_not_be_told() -> None:
    one = track()
    assert one.look([Firing(FIRING.labels, quiet=True)], [], LABELS, 2)
    assert one.gone([], LABELS, 3)
    assert (one.told, one.quiet, one.verdict) == (False, True, OK)


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


def test_a_drill_that_fails_says_why() -> None:
    one = track()
    one.error = "failed: timeout after 60 s: server-0 is ready"
    assert one.verdict == one.error


def outcome(one: Track) -> Outcome:
    """The outcome of a drill of one alert."""
    return Outcome(TABLE["stall"], [one], also=["CorelaneRouteSlow/critical"])


def good() -> Track:
    """An alert that did what it is for."""
    return Track("CorelaneStall", 90, 60, told=True, fired=2.4, resolved=14.2)


def test_a_run_fails_when_one_alert_does() -> None:
    assert not failed([outcome(good())])
    assert failed([outcome(good()), outcome(track())])


@pytest.mark.parametrize(
    ("fired", "replies", "failures", "not_calm"),
    [
        ((), 9, (), False),
        (("CorelaneStall",), 9, (), True),
        ((), 9, ("503",), True),
        ((), 0, (), True),
    ],
)
def test_a_calm_time_has_load_and_neither_alerts_nor_failures(
    fired: tuple[str, ...], replies: int, failures: tuple[str, ...], not_calm: bool
) -> None:
    assert Calm(90, fired, replies, failures).failed is not_calm


def test_the_report_has_a_row_for_each_alert() -> None:
    calm = Calm(90, (), 8000, ())
    text = report.text(calm, [outcome(good()), outcome(track())], 400)
    assert "1 of 2 rows are ok: 1 alerts, 2 causes" in text
    how = TABLE["stall"].how
    assert f"| `CorelaneStall` | {how} | 2 | 14 | yes | `CorelaneRouteSlow` critical | ok |" in text
    assert (
        f"| `CorelaneStall` | {how} |  |  | no | `CorelaneRouteSlow` critical | did not fire within 90 s |"
        in text
    )


def test_what_else_fired_is_not_what_was_drilled() -> None:
    full = TABLE["gateway-full"]
    assert full.alerts == ("CorelaneGatewayConnections/critical",)
    fired = {f"CorelaneGatewayConnections/{severity}" for severity in ("warning", "critical")}
    assert others({*fired, "CorelaneGatewayErrors/critical"}, full) == [
        "CorelaneGatewayConnections/warning",
        "CorelaneGatewayErrors/critical",
    ]
    assert others({"CorelaneStall/warning"}, TABLE["stall"]) == []


def test_drills_that_disturb_each_other_take_turns_and_all_are_run_once() -> None:
    made = jobs(list(TABLE.values()))
    assert sorted(each.name for job in made for each in job) == sorted(TABLE)
    for job in made:
        assert len(job) == 1 or all(each.busy for each in job) or all(each.whole for each in job)


@pytest.mark.parametrize(
    ("file", "limited", "free"),
    [("cpu.cfs_quota_us", "10000", "-1"), ("cpu.max", "10000 100000", "max 100000")],
)
def test_a_quota_is_written_as_each_version_of_cgroups_has_it(
    tmp_path: Path, file: str, limited: str, free: str
) -> None:
    (tmp_path / file).touch()
    quota = Quota(tmp_path)
    quota.limit(10_000)
    assert (tmp_path / file).read_text() == limited
    quota.limit(None)
    assert (tmp_path / file).read_text() == free
    assert [each.name for each in tmp_path.iterdir()] == [file]
