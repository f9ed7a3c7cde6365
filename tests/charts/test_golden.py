"""The cases of cases.yaml: all are linted, and some are compared with the kept render."""

import pytest

from charts import compare, golden
from support import REPOSITORY
from support.rendering import CHARTS, helm

pytestmark = pytest.mark.fast

CASES = golden.cases()
KEPT = [case for case in CASES if case.golden]


@pytest.mark.parametrize("case", KEPT, ids=lambda case: case.name)
def test_render_is_as_before(case: golden.Case) -> None:
    files = {case.file: golden.canonical(golden.render(case))}
    assert compare.report(files, "make charts, and look at what changed") == 0


def test_every_golden_file_has_a_case() -> None:
    assert golden.strays() == []


def test_values_files_that_come_with_the_charts_are_cases() -> None:
    shipped = {str(file.relative_to(REPOSITORY)) for file in CHARTS.glob("*/values-*.yaml")}
    assert shipped <= {file for case in CASES for file in case.files}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lint_is_strict_and_clean(case: golden.Case) -> None:
    chart, *values = case.arguments()
    result = helm("lint", "--strict", "--with-subcharts", chart, *values)
    assert result.returncode == 0, result.stdout + result.stderr
