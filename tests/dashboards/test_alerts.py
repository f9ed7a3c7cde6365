"""Every alert is listed, has a runbook, and has test cases for firing and not firing."""

import re

import pytest
import yaml

from stack import REPOSITORY

pytestmark = pytest.mark.fast

DASHBOARDS = REPOSITORY / "dashboards"
RULES = [
    rule
    for file in sorted((DASHBOARDS / "rules").glob("*.rules.yaml"))
    for group in yaml.safe_load(file.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
]
ALERTS = list(dict.fromkeys(rule["alert"] for rule in RULES))
CASES = [
    case
    for file in sorted((DASHBOARDS / "tests").glob("*.test.yaml"))
    for test in yaml.safe_load(file.read_text())["tests"]
    for case in test.get("alert_rule_test", [])
]
SHOWN = {(case["alertname"], bool(case["exp_alerts"])) for case in CASES}

EVERY_ALERT = pytest.mark.parametrize("alert", ALERTS)


def of(alert: str, part: str, key: str) -> list[str]:
    """Values of one key across an alert's rules, one rule per severity."""
    return list(dict.fromkeys(rule[part][key] for rule in RULES if rule["alert"] == alert))


def test_the_table_of_alerts_is_true() -> None:
    row = r"^\| `(\w+)` \| ([\w, ]+) \| [^|]+ \| \[[\w-]+\]\(([\w/.#-]+)\) \|$"
    listed = re.findall(row, (DASHBOARDS / "alerts.md").read_text(), re.MULTILINE)
    assert listed == [
        (
            alert,
            ", ".join(of(alert, "labels", "severity")),
            ", ".join(of(alert, "annotations", "runbook")).removeprefix("dashboards/"),
        )
        for alert in ALERTS
    ]


@EVERY_ALERT
def test_its_runbook_is_about_it(alert: str) -> None:
    (runbook,) = of(alert, "annotations", "runbook")
    page, _, fragment = runbook.partition("#")
    headings = re.findall(r"^## (.+)", (REPOSITORY / page).read_text(), re.MULTILINE)
    about = {heading.lower().replace(", ", "-"): heading.split(", ") for heading in headings}
    assert alert in about[fragment]


@EVERY_ALERT
def test_a_case_shows_it_firing_and_one_silent(alert: str) -> None:
    assert {(alert, True), (alert, False)} <= SHOWN


@EVERY_ALERT
def test_it_says_whose_it_is_so_that_teams_can_share_a_prometheus(alert: str) -> None:
    # promtool compares exactly these labels.
    found = [
        set(it["exp_labels"])
        for case in CASES
        for it in case["exp_alerts"]
        if case["alertname"] == alert
    ]
    assert found
    assert all({"namespace", "service"} <= labels for labels in found)
