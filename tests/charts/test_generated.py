"""What is made of the charts: schemas, differences of renders, and the page of the gateway's configuration."""

import json
import re
import shutil
from pathlib import Path

import pytest

from charts import compare, renders, schema
from stack import REPOSITORY
from stack.rendering import CHARTS, default_values, helm
from tools.errors import ToolError

pytestmark = pytest.mark.fast


def generate(folder: Path, values: str, metadata: str = "") -> str:
    """The schema of a chart with these values."""
    folder.mkdir(exist_ok=True)
    (folder / "Chart.yaml").write_text(f"apiVersion: v2\nname: probe\nversion: 1.0.0\n{metadata}")
    (folder / "values.yaml").write_text(values)
    return schema.of_chart(folder)


def generated(folder: Path, values: str, metadata: str = "") -> dict:
    return json.loads(generate(folder, values, metadata))


def accepts(folder: Path, *settings: str) -> bool:
    """Whether Helm takes settings for the chart whose schema was made."""
    (folder / "templates").mkdir(exist_ok=True)
    sets = [argument for setting in settings for argument in ("--set-json", setting)]
    return helm("template", "probe", folder, *sets).returncode == 0


def test_types_are_those_of_the_defaults(tmp_path: Path) -> None:
    values = "number: 1\nshare: 0.5\nname: x\nshown: true\nnested:\n  port: 80\n"
    found = generated(tmp_path, values)["properties"]
    types = {key: found[key]["type"] for key in ("number", "share", "name", "shown", "nested")}
    assert types == {
        "number": "integer",
        "share": "number",
        "name": "string",
        "shown": "boolean",
        "nested": "object",
    }
    assert found["nested"]["properties"] == {"port": {"type": "integer"}}


def test_maps_are_closed_unless_a_block_opens_them(tmp_path: Path) -> None:
    values = """
shut:
  key: 1
  # @schema
  # properties: {inner: {type: object, properties: {a: {type: string}}}}
  # @schema
  described: {}
# @schema
# additionalProperties: {type: string}
# @schema
open: {}
"""
    (tmp_path / "values.schema.json").write_text(json.dumps(generated(tmp_path, values)))
    assert accepts(tmp_path, 'open={"any": "text"}', 'shut.described.inner={"a": "b"}')
    for refused in (
        "surprise=1",
        "shut.surprise=1",
        "shut.described.surprise=1",
        "shut.described.inner.surprise=1",
        'open={"any": 1}',
    ):
        assert not accepts(tmp_path, refused), refused


BLOCK = "# @schema\n# type: [integer, string]\n# minimum: 1\n# pattern: ^[0-9]+%$\n# @schema\n"
LINE = "# @schema {type: [integer, string], minimum: 1, pattern: '^[0-9]+%$'}\n"


@pytest.mark.parametrize("block", [BLOCK, LINE], ids=["lines", "line"])
def test_a_block_says_more_than_the_default(tmp_path: Path, block: str) -> None:
    values = f"{block}# -- How many,\n# or which part\nnumber: 2\n"
    assert generated(tmp_path, values)["properties"]["number"] == {
        "description": "How many, or which part",
        "type": ["integer", "string"],
        "minimum": 1,
        "pattern": "^[0-9]+%$",
    }


def test_only_definitions_in_use_are_written(tmp_path: Path) -> None:
    values = """
# @schema.root
# definitions:
#   pair: {type: array, items: {$ref: "#/definitions/port"}}
#   unused: {type: string}
# @schema.root

# @schema
# $ref: "#/definitions/pair"
# @schema
ports: []
"""
    made = generated(tmp_path, values)
    assert made["definitions"].keys() == {"pair", "port"}
    (tmp_path / "values.schema.json").write_text(json.dumps(made))
    assert accepts(tmp_path, "ports=[80, 81]")
    assert not accepts(tmp_path, "ports=[80, 65536]")


def test_values_of_parts_are_left_to_their_schemas(tmp_path: Path) -> None:
    metadata = "dependencies:\n- {name: server, version: 1.0.0}\n- {name: x, alias: front}\n"
    made = generated(tmp_path, "server:\n  replicas: 2\nown: 1\n", metadata)
    assert made["additionalProperties"] is False
    assert made["properties"].keys() == {"server", "front", "global", "own"}
    assert made["properties"]["server"]["type"] == "object"
    assert "additionalProperties" not in made["properties"]["server"]


def test_global_values_are_judged_as_far_as_the_chart_knows_them(tmp_path: Path) -> None:
    values = "global:\n  registry: x\n"
    (tmp_path / "values.schema.json").write_text(json.dumps(generated(tmp_path, values)))
    assert accepts(tmp_path, 'global.registry="y"', "global.of-another-chart=1")
    assert not accepts(tmp_path, "global.registry=1")


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


def test_all_that_is_missing_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ToolError) as found:
        generate(tmp_path, "list: []\nmap: {}\n")
    assert len(str(found.value).splitlines()) == 2


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
            # What the schema says of a key is no description.
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
    """The default of a dotted key."""
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
    """The dotted names of what is no map."""
    found = []
    for key, value in values.items():
        nested = isinstance(value, dict)
        found += leaves(value, f"{prefix}{key}.") if nested else [f"{prefix}{key}"]
    return found


def test_every_key_in_its_words_exists() -> None:
    keys = re.findall(r"`([a-z]\w*(?:\.[a-zA-Z]\w*)+)`", PAGE)
    files = {"values.yaml"}
    for key in set(keys) - files:
        value_of(key)
