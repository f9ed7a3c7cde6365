"""The charts, rendered and linted in every case of golden/cases.toml."""

import pytest

from charts import compare, golden
from support import REPOSITORY
from support.rendering import CHARTS, helm

CASES = golden.cases()
EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    """Whether what the charts render now is to be taken."""
    return request.config.getoption("--update-golden")


@EVERY_CASE
def test_render_is_as_before(case: golden.Case, update: bool) -> None:
    files = {case.file: golden.render(case)}
    if update:
        compare.write(files)
    assert compare.report(files, "make charts, and look at what changed") == 0


def test_every_golden_file_has_a_case() -> None:
    assert golden.strays() == []


def test_values_files_that_come_with_the_charts_are_cases() -> None:
    shipped = {str(file.relative_to(REPOSITORY)) for file in CHARTS.glob("*/values-*.yaml")}
    assert shipped <= {file for case in CASES for file in case.values}


@EVERY_CASE
def test_lint_is_strict_and_clean(case: golden.Case) -> None:
    chart, *values = case.arguments()
    result = helm("lint", "--strict", "--with-subcharts", chart, *values)
    assert result.returncode == 0, result.stdout + result.stderr
