"""The catalogue of series is sound, and its page is written from it."""

import subprocess
import sys

from dashboards.metrics import catalogue, cost
from support import REPOSITORY

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
        # Envoy's names are its own.
        if series.name.startswith("envoy_"):
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
            assert not set(series.labels) & {"job", "instance"}, series.name
