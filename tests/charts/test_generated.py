"""Generated files: schemas, render diffs and the page about the gateway's configuration."""

import json
import re
import shutil
from pathlib import Path

import pytest

from charts import compare, renders, schema
from stack import REPOSITORY
from stack.rendering import CHARTS, default_values, helm, template
from tools.errors import ToolError

pytestmark = pytest.mark.fast


def generate(folder: Path, values: str, metadata: str = "") -> str:
    folder.mkdir(exist_ok=True)
    (folder / "Chart.yaml").write_text(f"apiVersion: v2\nname: probe\nversion: 1.0.0\n{metadata}")
    (folder / "values.yaml").write_text(values)
    return schema.of_chart(folder)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("# -- Any\nlist: []\n", "values.yaml:2: list: a list needs a block with its items"),
        ("map: {}\n", "map: an empty map needs a block"),
        ("nothing:\n", "nothing: a default of null needs a block with its type"),
        ("# -- Any\n# @schema\n# minimum: 1\n# @schema\na: 1\n", "precede the description"),
        ("# @schema\n# minimum: 1\na: 1\n", "begins and ends with '# @schema'"),
        ("# @schema {minimum: 1}\n# @schema {minimum: 2}\na: 1\n", "a block is a line"),
        ("# @schema\n# - 1\n# @schema\na: 1\n", "is not a map"),
        ("# @schema\n# a: b: c\n# @schema\na: 1\n", "is not YAML"),
        ('# @schema\n# $ref: "#/definitions/nowhere"\n# @schema\na: 1\n', "nowhere: there are"),
        (
            '# @schema\n# $ref: "#/definitions/port"\n# minimum: 9\n# @schema\na: 1\n',
            "draft-07 ignores minimum next to $ref",
        ),
    ],
)
def test_what_cannot_be_told_is_asked_for(tmp_path: Path, values: str, words: str) -> None:
    with pytest.raises(ToolError, match=re.escape(words)):
        generate(tmp_path, values)


def test_what_is_not_up_to_date_is_shown_and_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {tmp_path / name: "old\nnew\n" for name in ("stale", "missing", "fresh")}
    (tmp_path / "stale").write_text("old\n")
    (tmp_path / "fresh").write_text("old\nnew\n")
    assert compare.report(files, "make charts") == 1
    output, errors = capsys.readouterr()
    assert output.count("\n+new\n") == 2
    assert "fresh" not in output + errors
    assert errors.endswith("Regenerate with: make charts\n")
    assert (tmp_path / "stale").read_text() == "old\n"
    assert not (tmp_path / "missing").exists()
    compare.write(files)
    assert compare.report(files, "make charts") == 0


@pytest.mark.parametrize("chart", ["gateway", "service", "node-tuning", "monitoring", "loadtest"])
def test_every_value_says_what_it_is_for(chart: str) -> None:
    comment: list[str] = []
    for line in (CHARTS / chart / "values.yaml").read_text().splitlines():
        if line.lstrip().startswith("#"):
            # The schema block is not part of the description.
            comment = [] if line.lstrip().startswith("# @schema") else [*comment, line.lstrip()]
            continue
        if re.match(r" *[\w.]+: *\S", line):
            assert comment and comment[0].startswith("# -- "), f"{line.strip()!r} has no comment"
        comment.clear()


CASES = renders.cases()


def test_a_diff_shows_what_a_template_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(CHARTS, tmp_path / "charts", symlinks=True)
    (tmp_path / "charts/service/templates/more.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\ndata: {found: {{ .Values.replicas | quote }}}\n"
    )
    monkeypatch.setattr(
        renders, "cases", lambda: [case for case in CASES if case.name == "service-other"]
    )
    renders.diff("HEAD", tmp_path / "charts")
    shown = capsys.readouterr().out
    assert "+  found: '1'\n" in shown
    assert shown.startswith("--- service-other\n")


def test_values_files_that_come_with_the_charts_are_cases() -> None:
    shipped = {str(file.relative_to(REPOSITORY)) for file in CHARTS.glob("*/values-*.yaml")}
    assert shipped <= {file for case in CASES for file in case.files}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lint_is_strict_and_clean(case: renders.Case) -> None:
    chart, *values = case.arguments()
    result = helm("lint", "--strict", "--with-subcharts", chart, *values)
    assert result.returncode == 0, result.stdout + result.stderr


PAGE = (REPOSITORY / "gateway" / "configuration.md").read_text()
VALUES = default_values("gateway")
ROWS = re.findall(r"^\| [^|]+ \| `([^`]+)` \| ([^|]+) \| [^|]*\|$", PAGE, re.MULTILINE)


def value_of(key: str) -> object:
    value = VALUES
    for part in key.split("."):
        value = value[part]
    return value


@pytest.mark.parametrize(("key", "shown"), ROWS)
def test_a_default_is_as_the_page_says(key: str, shown: str) -> None:
    value = value_of(key)
    plain = isinstance(value, str) and value
    assert shown == (value if plain else json.dumps(value, separators=(",", ":")))


def test_every_value_that_faces_clients_or_replicas_is_on_the_page() -> None:
    named = {key for key, _ in ROWS}
    for part in ("listener", "overload", "rateLimit", "upstream.outliers", "upstream.limits"):
        for key in leaves(value_of(part), f"{part}."):
            assert key in named | {"listener.address", "listener.port"}, key


def leaves(values: dict, prefix: str) -> list[str]:
    found = []
    for key, value in values.items():
        nested = isinstance(value, dict)
        found += leaves(value, f"{prefix}{key}.") if nested else [f"{prefix}{key}"]
    return found


def test_the_migration_page_renders_and_names_keys_that_exist(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "from-ingress-nginx.md").read_text()
    _, values = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "values.yaml").write_text(values)
    rendered = template("gateway", values=tmp_path / "values.yaml")
    assert rendered.returncode == 0, rendered.stderr
    schema_of_routes = json.loads((CHARTS / "gateway" / "values.schema.json").read_text())
    keys = schema_of_routes["properties"]["routes"]["items"]["properties"]
    assert set(re.findall(r"route `(\w+)", page)) <= keys.keys()
    named = re.findall(r"(?<!route )`([a-z]\w*(?:\.[a-zA-Z]\w*)+)`", page)
    assert len(named) > 10
    for key in set(named) - {"values.yaml"}:
        value_of(key)


def test_every_key_in_its_words_exists() -> None:
    keys = re.findall(r"`([a-z]\w*(?:\.[a-zA-Z]\w*)+)`", PAGE)
    files = {"values.yaml"}
    for key in set(keys) - files:
        value_of(key)
