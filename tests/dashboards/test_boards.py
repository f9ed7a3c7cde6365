"""The dashboards: that their files are current, and that each panel can be read by who has never seen it."""

import itertools
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tools import resolve

REPOSITORY = Path(__file__).resolve().parent.parent.parent
CODE = REPOSITORY / "dashboards" / "grafana"
FILES = sorted((REPOSITORY / "dashboards" / "json").glob("*.json"))
BOARDS = {file.stem: json.loads(file.read_text()) for file in FILES}

COMMON = ["datasource", "namespace", "job", "gateway", "pod"]
FREE_OF_LIMITS = ("nothing here is bad by itself", "the limit is a line of its own")
SCREEN = 22
"""Rows of the grid that 1080 lines show."""


def panels(board: dict) -> list[dict]:
    """All panels but the heads of folded rows."""
    inner = [panel.get("panels", []) for panel in board["panels"]]
    found = [*board["panels"], *itertools.chain.from_iterable(inner)]
    return [panel for panel in found if panel["type"] != "row"]


def expressions(board: dict) -> list[str]:
    """All queries, of panels and of marks."""
    targets = [target["expr"] for panel in panels(board) for target in panel["targets"]]
    return targets + [mark["expr"] for mark in board["annotations"]["list"]]


def name(board: dict, panel: dict) -> str:
    """What a failure calls a panel."""
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


def check(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Runs the code of the dashboards in `folder`."""
    python = resolve.ensure(["dashboards-python"])["dashboards-python"]
    argv = [python, folder / "grafana", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_the_files_are_what_the_code_writes() -> None:
    checked = check(CODE.parent, "--check")
    assert checked.returncode == 0, checked.stderr


def test_a_file_that_was_changed_by_hand_or_is_left_over_is_named(tmp_path: Path) -> None:
    shutil.copytree(CODE, tmp_path / "grafana")
    shutil.copytree(REPOSITORY / "dashboards" / "json", tmp_path / "json")
    changed = tmp_path / "json" / "corelane-lanes.json"
    changed.write_text(changed.read_text().replace("busiest", "laziest"))
    (tmp_path / "json" / "corelane-old.json").write_text("{}")
    checked = check(tmp_path, "--check")
    assert checked.returncode == 1
    assert checked.stderr == (
        "dashboards: not current: corelane-lanes.json, corelane-old.json. Run: make dashboards\n"
    )
    assert check(tmp_path).returncode == 0
    assert check(tmp_path, "--check").returncode == 0
    assert not (tmp_path / "json" / "corelane-old.json").exists()


def test_bad_usage_is_refused() -> None:
    assert check(CODE.parent, "--chek").returncode == 64


def test_there_are_seven() -> None:
    names = ["overview", "lanes", "gateway", "service", "nodes", "load-test", "capacity"]
    assert sorted(BOARDS) == sorted(f"corelane-{it}" for it in names)


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
        assert it["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    pod = variables["pod"]
    assert pod["multi"] and pod["includeAll"] and pod["allValue"] == ".*"


@every_board
def test_queries_name_only_variables_that_there_are(board: dict) -> None:
    known = {variable["name"] for variable in board["templating"]["list"]} | {"__rate_interval"}
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
def test_a_panel_says_what_it_is_and_what_to_do(board: dict, panel: dict) -> None:
    assert panel["title"].endswith("?"), "the title is the question that the panel answers"
    # What 1920 pixels show of it: a column has 80, and a character 8.
    assert len(panel["title"]) <= 9 * panel["gridPos"]["w"]
    what, good, bad, then = re.fullmatch(
        r"(.+)\n\n\*\*Good:\*\* (.+)\n\n\*\*Bad:\*\* (.+)\n\n\*\*Then:\*\* (.+)",
        panel["description"],
        re.DOTALL,
    ).groups()
    assert what.endswith(".")
    assert min(map(len, (good, bad, then))) > 1


@every_panel
def test_a_panel_has_a_unit_and_limits_where_a_value_can_be_bad(board: dict, panel: dict) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    assert defaults["unit"]
    limits = len(defaults["thresholds"]["steps"]) > 1
    coloured = [it["id"] for rule in panel["fieldConfig"]["overrides"] for it in rule["properties"]]
    by_part = {"thresholds", "mappings", "color"} & set(coloured)
    # A heat map's colour is how many, and no number there is bad.
    said = any(words in panel["description"].lower() for words in FREE_OF_LIMITS)
    free = panel["type"] == "heatmap" or said
    assert limits or by_part or "mappings" in defaults or free


@every_panel
def test_a_panel_asks_the_chosen_data_source(board: dict, panel: dict) -> None:
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert panel["datasource"] == source
    assert panel["targets"]
    assert all(target["datasource"] == source for target in panel["targets"])
    letters = [target["refId"] for target in panel["targets"]]
    assert len(letters) == len(set(letters))


@every_panel
def test_links_lead_to_a_dashboard_that_takes_the_choice(board: dict, panel: dict) -> None:
    overrides = panel["fieldConfig"]["overrides"]
    values = [it["value"] for rule in overrides for it in rule["properties"] if it["id"] == "links"]
    links = [*panel["fieldConfig"]["defaults"].get("links", []), *itertools.chain(*values)]
    for link in links:
        uid = re.match(r"/d/([\w-]+)\?", link["url"])[1]
        chosen = set(re.findall(r"var-(\w+)=", link["url"]))
        assert chosen <= {variable["name"] for variable in BOARDS[uid]["templating"]["list"]}
        assert "${__url_time_range}" in link["url"]


@pytest.fixture(scope="module")
def promtool() -> Path:
    """The real one, which is also what checks the rules."""
    return resolve.ensure(["promtool"])["promtool"]


@every_board
def test_prometheus_can_read_every_query(board: dict, promtool: Path, tmp_path: Path) -> None:
    filled = [
        re.sub(r"\$\w+", "x", it.replace("$__rate_interval", "1m")) for it in expressions(board)
    ]
    rules = [{"record": f"query_{index}", "expr": it} for index, it in enumerate(filled)]
    # JSON is YAML (YAML 1.2, section 1.3).
    file = tmp_path / "queries.json"
    file.write_text(json.dumps({"groups": [{"name": board["uid"], "rules": rules}]}))
    argv = [promtool, "check", "rules", file]
    read = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stderr


READ_BACK = """
import json, sys
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

register_default_plugins()
read = [Dashboard.from_json(json.load(open(file))) for file in sys.argv[1:]]
print(json.dumps(read, cls=JSONEncoder))
"""


def test_grafanas_own_types_hold_all_that_the_files_say() -> None:
    python = resolve.ensure(["dashboards-python"])["dashboards-python"]
    argv = [python, "-c", READ_BACK, *FILES]
    reading = subprocess.run(argv, capture_output=True, text=True, check=True)
    for read, file in zip(json.loads(reading.stdout), FILES, strict=True):
        wanted = json.loads(file.read_text())
        for mark in wanted["annotations"]["list"]:
            # Members of the Prometheus data source's annotations, which these types leave out.
            for member in ("titleFormat", "textFormat", "step", "useValueForTime"):
                del mark[member]
        assert lost(wanted, read, file.stem) == []


def lost(wanted: object, read: object, at: str) -> list[str]:
    """What is said in `wanted` and not in `read`, which may have defaults beside it."""
    if isinstance(wanted, dict) and isinstance(read, dict):
        return [it for key in wanted for it in lost(wanted[key], read.get(key), f"{at}.{key}")]
    if isinstance(wanted, list) and isinstance(read, list) and len(wanted) == len(read):
        pairs = enumerate(zip(wanted, read, strict=True))
        return [it for index, (one, two) in pairs for it in lost(one, two, f"{at}[{index}]")]
    return [] if wanted == read else [at]


def test_panels_of_chosen_servers_ask_for_these_alone() -> None:
    # Of what says nothing of single servers, that is the objective's budget.
    whole = ["How much budget is left?"]
    board = BOARDS["corelane-service"]
    asked = {p["title"]: [it["expr"] for it in p["targets"]] for p in panels(board)}
    blind = [title for title, queries in asked.items() if not all("$pod" in it for it in queries)]
    assert blind == whole


@every_panel
def test_a_panel_tells_platforms_apart(board: dict, panel: dict) -> None:
    """Another one in the same Prometheus has the same jobs."""
    # What is of nodes, of a load test, of the objectives or of Prometheus is of no namespace.
    shared = r"corelane_node_|k6_|slo:corelane_slo_latency_threshold|prometheus_rule_"
    for target in panel["targets"]:
        assert 'namespace="$namespace"' in target["expr"] or re.search(shared, target["expr"])


def test_what_may_be_empty_is_there_and_explained() -> None:
    rows = tomllib.loads((CODE / "empty_by_nature.toml").read_text()).get("panel", [])
    for row in rows:
        (panel,) = [it for it in panels(BOARDS[row["dashboard"]]) if it["title"] == row["panel"]]
        if "query" in row:
            assert row["query"] in [target["refId"] for target in panel["targets"]]
        assert row["why"]
    assert len(rows) <= 6, "few panels may be empty: the others are checked on live data"
