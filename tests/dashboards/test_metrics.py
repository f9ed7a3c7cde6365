"""The catalogue of series is sound and in plain words, and its page is written from it."""

import re
import subprocess
import sys

import pytest
import yaml

from dashboards.metrics import catalogue, cost
from dashboards.metrics.catalogue import Group, Part, Series
from support import REPOSITORY
from support.exposition import differences

pytestmark = pytest.mark.fast

PARTS = catalogue.read()
SERIES = [each for part in PARTS.values() for each in part.series()]


def test_the_page_is_current() -> None:
    argv = [sys.executable, "dashboards/metrics", "--check"]
    check = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (check.returncode, check.stderr) == (0, "")


def test_bad_usage_is_told() -> None:
    argv = [sys.executable, "dashboards/metrics", "--chekc"]
    check = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert check.returncode == 64
    assert "unrecognized arguments: --chekc" in check.stderr


def test_a_name_is_listed_once() -> None:
    names = [name for series in SERIES for name in series.names()]
    assert len(names) == len(set(names))


def test_names_tell_the_type_and_the_unit() -> None:
    for series in SERIES:
        # Envoy's names are its own; those of records end in how they are computed.
        if series.name.startswith("envoy_") or ":" in series.name:
            continue
        assert (series.type == "counter") == series.name.endswith("_total"), series.name
        named = series.name.removesuffix("_total").rsplit("_", 1)[-1]
        assert series.unit == (named if named in ("seconds", "bytes") else ""), series.name


def test_labels_and_figures_are_explained_and_used() -> None:
    for part in PARTS.values():
        labels = {label for series in part.series() for label in series.labels}
        assert labels == set(part.labels), part.title
        figures = {name for series in part.series() for name in cost.names(series.cost)}
        assert figures == set(part.figures) == set(part.example), part.title
        for series in part.series():
            assert set(series.values) <= set(series.labels), series.name
            assert not set(series.labels) & {"job", "service", "instance"}, series.name


def test_what_rules_record_is_listed() -> None:
    records = {
        rule["record"]
        for file in (REPOSITORY / "dashboards/rules").glob("*.rules.yaml")
        for group in yaml.safe_load(file.read_text())["groups"]
        for rule in group["rules"]
        if "record" in rule
    }
    assert {series.name for series in PARTS["recorded"].series()} == records


def test_a_record_is_named_by_its_labels() -> None:
    for series in PARTS["recorded"].series():
        level, *_ = series.name.split(":")
        of_level = set(level.split("_")) - {"service", "slo"}
        # Of the objectives themselves, only overrides have a route.
        more = {"code", "slo"} | ({"route"} if level == "slo" else set())
        assert of_level == set(series.labels) - more, series.name


def part(**series: object) -> Part:
    """A part with one gauge that two lanes show."""
    told = {"type": "gauge", "meaning": "M", "cost": "2 * lanes", "labels": ("lane", "side")}
    one = Series(name="corelane_x", values={"side": ("in", "out")}, **told | series)
    about = {"title": "", "jobs": (), "per": "", "intro": "", "example_is": ""}
    groups = (Group("", (one,)),)
    return Part(**about, labels={}, figures={}, example={"lanes": 1}, groups=groups)


PAGE = """\
# HELP corelane_x M
# TYPE corelane_x gauge
corelane_x{lane="0",side="in"} 1
corelane_x{lane="0",side="out"} 2
# EOF
"""


def test_a_page_that_is_as_listed_passes() -> None:
    assert differences([part()], PAGE) == []
    assert differences([part(cost="3", at_most=True)], PAGE) == []
    assert differences([part(optional="sometimes")], "# EOF\n") == []


@pytest.mark.parametrize(
    ("listed", "old", "new", "words"),
    [
        ({}, "corelane_x", "corelane_y", "corelane_x: in the catalogue, not shown"),
        ({}, "corelane_x", "corelane_y", "corelane_y: shown, not in the catalogue"),
        ({"type": "counter"}, "", "", "type 'counter' in the catalogue, 'gauge' shown"),
        ({}, "HELP corelane_x M", "HELP corelane_x N", "meaning 'M' in the catalogue, 'N' shown"),
        ({"labels": ("lane",)}, "", "", "labels {'lane'} in the catalogue"),
        ({}, 'side="in"', 'side="up"', "side is not listed to be up"),
        ({"cost": "lanes"}, "", "", "2 series shown, lanes = 1 in the catalogue"),
        ({"cost": "3 * lanes"}, "", "", "2 series shown, 3 * lanes = 3 in the catalogue"),
        ({"cost": "lanes", "at_most": True}, "", "", "2 series shown, lanes = 1 in the catalogue"),
    ],
)
def test_a_page_that_is_not_as_listed_is_told(listed: dict, old: str, new: str, words: str) -> None:
    found = differences([part(**listed)], PAGE.replace(old, new))
    assert any(words in each for each in found), found


LISTED = catalogue.by_name(PARTS)
NAMES = {*LISTED, *(series.name for series in LISTED.values())}
LABELS = {label for part in PARTS.values() for label in part.labels}

ADAPTER = REPOSITORY / "charts" / "service" / "prometheus-adapter.yaml"
OTHERS = {"corelane_migrations", *re.findall(r"as: (corelane_\w+)", ADAPTER.read_text())}
"""What has such a name and is no series: a table of the database, and what an adapter makes of series."""

PAGES = subprocess.run(
    # The changelog names what was removed.
    ["git", "ls-files", "*.md", ":!CHANGELOG.md"],
    cwd=REPOSITORY,
    capture_output=True,
    text=True,
    check=True,
).stdout.split()


def unknown(text: str) -> list[str]:
    """The words that look like series and are none; one that ends in _ stands for all that begin so."""
    words = re.findall(r"(?<![\w:-])(?:[a-z_]+:)?(?:corelane|envoy)_[\w:]+", text)
    prefixes = tuple(prefix.name for part in PARTS.values() for prefix in part.prefixes)

    def known(word: str) -> bool:
        if word.endswith("_"):
            return any(name.startswith(word) for name in (*NAMES, *prefixes))
        return word in NAMES | LABELS | OTHERS

    return [word for word in words if not known(word.rstrip(":")) and "::" not in word]


@pytest.mark.parametrize("page", PAGES)
def test_series_that_are_named_are_there(page: str) -> None:
    assert unknown((REPOSITORY / page).read_text()) == []


def test_a_wrong_name_is_found() -> None:
    text = "`corelane_requests_total`, `corelane_cpu_`, `service:corelane_capacity_used:ratio`, "
    assert unknown(text + "`corelane_request_total`") == ["corelane_request_total"]
    assert unknown(text + "`service:corelane_capacity:ratio`") == [
        "service:corelane_capacity:ratio"
    ]
    assert unknown(text + "corelane_none_") == ["corelane_none_"]
