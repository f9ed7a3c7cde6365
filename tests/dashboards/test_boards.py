"""Dashboards as loaded by Grafana: grid, variables, links and panel conventions."""

import itertools
import json
import re
import tomllib

import pytest
import yaml

from stack import REPOSITORY

pytestmark = pytest.mark.fast

CODE = REPOSITORY / "dashboards" / "grafana"
FILES = sorted((REPOSITORY / "dashboards" / "json").glob("*.json"))
BOARDS = {file.stem: json.loads(file.read_text()) for file in FILES}

COMMON = ["datasource", "cluster", "namespace", "service", "gateway", "pod", "route"]
SCREEN = 22
"""Grid rows visible at 1080 lines."""


def panels(board: dict) -> list[dict]:
    """Skips the headers of collapsed rows."""
    inner = [panel.get("panels", []) for panel in board["panels"]]
    found = [*board["panels"], *itertools.chain.from_iterable(inner)]
    return [panel for panel in found if panel["type"] != "row"]


NAMES = {
    *(panel["title"] for board in BOARDS.values() for panel in panels(board)),
    *(row["title"] for board in BOARDS.values() for row in board["panels"] if row["type"] == "row"),
    *(board["title"].removeprefix("Corelane / ") for board in BOARDS.values()),
}


def expressions(board: dict) -> list[str]:
    targets = [target["expr"] for panel in panels(board) for target in panel["targets"]]
    return targets + [mark["expr"] for mark in board["annotations"]["list"]]


def name(board: dict, panel: dict) -> str:
    return f"{board['uid']}: {panel['title']}"


every_board = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
every_panel = pytest.mark.parametrize(
    ("board", "panel"),
    [
        pytest.param(board, panel, id=name(board, panel))
        for board in BOARDS.values()
        for panel in panels(board)
    ],
)


@every_board
def test_address_and_links_are_stable(board: dict) -> None:
    assert BOARDS[board["uid"]] is board
    assert board["title"].startswith("Corelane / ")
    assert board["description"]
    assert board["tags"] == ["corelane"]
    (link,) = board["links"]
    assert link["type"] == "dashboards"
    assert link["tags"] == ["corelane"]
    assert link["keepTime"]
    assert link["includeVars"]


@every_board
def test_variables_go_along_and_are_explained(board: dict) -> None:
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    assert list(variables)[: len(COMMON)] == COMMON
    assert all(it["label"] and it["description"] for it in variables.values())
    assert variables["datasource"]["type"] == "datasource"
    for it in list(variables.values())[1:]:
        assert it["type"] == "query"
        assert it["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    for it in (variables["cluster"], variables["pod"], variables["route"]):
        assert it["multi"] and it["includeAll"] and it["allValue"] == ".*"


@every_board
def test_what_changes_nothing_is_hidden(board: dict) -> None:
    shown = [it for it in board["templating"]["list"] if not it.get("hide")]
    values = " ".join(str(it.get("query", "")) for it in shown)
    changed = set(re.findall(r"\$\{?(\w+)", values + " ".join(expressions(board))))
    assert {it["name"] for it in shown if it["type"] == "query"} <= changed
    on = [mark["name"] for mark in board["annotations"]["list"] if mark["enable"]]
    assert on == ["Versions", "Configuration", "Alerts"]


@every_board
def test_queries_name_only_variables_that_there_are(board: dict) -> None:
    known = {variable["name"] for variable in board["templating"]["list"]}
    known |= {"__rate_interval", "__rate_interval_ms"}
    used = set(re.findall(r"\$\{?(\w+)", " ".join(expressions(board))))
    assert used <= known


@every_board
def test_panels_fit_the_grid(board: dict) -> None:
    folded = [panel["panels"] for panel in board["panels"] if panel["type"] == "row"]
    for group in (board["panels"], *folded):
        taken: dict[tuple[int, int], str] = {}
        for panel in group:
            at = panel["gridPos"]
            assert at["x"] + at["w"] <= 24, name(board, panel)
            for cell in itertools.product(
                range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])
            ):
                other = taken.setdefault(cell, panel["title"])
                assert other == panel["title"], f"{name(board, panel)} lies over {other}"


@every_board
def test_the_first_screen_holds_what_is_not_folded(board: dict) -> None:
    shown = [panel["gridPos"] for panel in board["panels"] if panel["type"] != "row"]
    assert max(at["y"] + at["h"] for at in shown) <= SCREEN
    rows = [panel for panel in board["panels"] if panel["type"] == "row"]
    assert all(row["collapsed"] and row["panels"] for row in rows)
    assert all(row["gridPos"]["y"] >= max(at["y"] for at in shown) for row in rows)


@every_board
def test_the_top_row_answers_in_numbers_with_limits(board: dict) -> None:
    top = [panel for panel in board["panels"] if panel["gridPos"]["y"] == 0]
    assert {panel["type"] for panel in top} == {"stat"}
    coloured = [p for p in top if len(p["fieldConfig"]["defaults"]["thresholds"]["steps"]) > 1]
    assert len(coloured) >= len(top) / 2


@every_board
def test_numbers_and_titles_of_panels_are_unique(board: dict) -> None:
    rows = [panel for panel in board["panels"] if panel["type"] == "row"]
    ids = [panel["id"] for panel in [*panels(board), *rows]]
    assert len(ids) == len(set(ids))
    titles = [panel["title"] for panel in panels(board)]
    assert len(titles) == len(set(titles))


@every_panel
def test_a_panel_has_a_title_that_fits_a_description_and_a_unit(board: dict, panel: dict) -> None:
    assert "?" not in panel["title"], "the question is in the description"
    # At a width of 1920 pixels, a column is 80 pixels wide and a character needs about 9.
    assert len(panel["title"]) <= 9 * panel["gridPos"]["w"]
    assert re.match(r"\w.+\? \w.+", panel["description"], re.DOTALL)
    assert panel["fieldConfig"]["defaults"]["unit"]


@every_panel
def test_panels_that_a_description_names_exist(board: dict, panel: dict) -> None:
    """*Name* refers to a panel, row or dashboard."""
    assert set(re.findall(r"\*([^*]+)\*", panel["description"])) <= NAMES


@every_panel
def test_a_panel_asks_the_chosen_data_source(board: dict, panel: dict) -> None:
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert panel["targets"]
    assert not any("datasource" in target for target in panel["targets"])
    letters = [target["refId"] for target in panel["targets"]]
    assert len(letters) == len(set(letters))


@every_panel
def test_links_lead_to_a_dashboard_that_takes_the_choice(board: dict, panel: dict) -> None:
    overrides = panel["fieldConfig"]["overrides"]
    values = [it["value"] for rule in overrides for it in rule["properties"] if it["id"] == "links"]
    links = [*panel["fieldConfig"]["defaults"].get("links", []), *itertools.chain(*values)]
    for link in links:
        if "/dashboards/runbooks/" in link["url"]:
            continue
        uid = re.match(r"/d/([\w-]+)\?", link["url"])[1]
        chosen = set(re.findall(r"var-(\w+)=", link["url"]))
        kept = set(re.findall(r"\$\{(\w+):queryparam\}", link["url"]))
        assert chosen <= {variable["name"] for variable in BOARDS[uid]["templating"]["list"]}
        assert set(COMMON) - chosen <= kept and not chosen & kept
        assert "${__url_time_range}" in link["url"]


def test_panels_of_chosen_servers_ask_for_these_alone() -> None:
    # Applies to the total across all servers.
    whole = ["Error budget left (3 d)"]
    board = BOARDS["corelane-service"]
    asked = {p["title"]: [it["expr"] for it in p["targets"]] for p in panels(board)}
    blind = [title for title, queries in asked.items() if not all("$pod" in it for it in queries)]
    assert blind == whole


@every_panel
def test_a_panel_tells_platforms_apart(board: dict, panel: dict) -> None:
    """Platforms and clusters that share a Prometheus may use the same service names."""
    # Nodes, load tests and Prometheus itself have no namespace.
    shared = r"corelane_node_|k6_|prometheus_rule_"
    for target in panel["targets"]:
        assert 'namespace="$namespace"' in target["expr"] or re.search(shared, target["expr"])
        assert 'cluster=~"$cluster"' in target["expr"] or "k6_" in target["expr"]


def test_an_alert_leads_to_its_runbook_and_says_since_when() -> None:
    (table,) = [it for it in panels(BOARDS["corelane-overview"]) if it["title"] == "Firing alerts"]
    columns = {
        it["matcher"]["options"]: it["properties"] for it in table["fieldConfig"]["overrides"]
    }
    shown = {it["id"]: it["value"] for it in columns["Runbook"]}
    (texts,) = shown["mappings"]
    assert {alert: it["text"] for alert, it in texts["options"].items()} == {
        rule["alert"]: rule["annotations"]["runbook"].removeprefix("dashboards/runbooks/")
        for file in (REPOSITORY / "dashboards" / "rules").glob("*.rules.yaml")
        for group in yaml.safe_load(file.read_text())["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    (link,) = shown["links"]
    assert link["url"].endswith("/dashboards/runbooks/${__value.text}")
    assert {"id": "unit", "value": "dateTimeFromNow"} in columns["Since"]


def test_what_may_be_empty_is_there_and_explained() -> None:
    rows = tomllib.loads((CODE / "empty_by_nature.toml").read_text()).get("panel", [])
    for row in rows:
        (panel,) = [it for it in panels(BOARDS[row["dashboard"]]) if it["title"] == row["panel"]]
        if "query" in row:
            assert row["query"] in [target["refId"] for target in panel["targets"]]
        assert row["why"]
    assert len(rows) <= 13, "the others are checked on live data"
