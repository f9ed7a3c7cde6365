"""The record of a run, and its folder."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from loadtests import record
from loadtests.record import Checks, Figure, OverTime, Part, Route, Run, Server, Target
from tools.errors import ToolError

pytestmark = pytest.mark.fast

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def a_run(name: str = "load") -> Run:
    """With something in every field."""
    part = Part(
        name="direct",
        seconds=2.0,
        requests=3,
        failed=1,
        requests_per_second=1.5,
        dropped=4,
        checks=Checks(5, 1, ["hello: body (1 of 6)"]),
        routes={"all": Route(3, 1, {"p50": 1.5, "p99.9": 4.0})},
        percentiles={"all": [[0, 1.0], [100, 4.0]]},
        over_time={"all": OverTime([0, 1], [3, 0], [1, 0], [1.5, None], [4.0, None], [4.0, None])},
        scatter={"all": [[0.25, 1.5]]},
        figures={"knee_requests_per_second": Figure(900, "1/s")},
    )
    return Run(
        name=name,
        tool="k6",
        tool_version="1.8.1",
        passed=False,
        exit_code=99,
        failed_thresholds=["checks: rate==1"],
        started=STARTED.isoformat(),
        seconds=2.0,
        target=Target("http://127.0.0.1:1", "direct", ["server-0"]),
        settings={"rate": 2},
        machine={"cores": 2},
        load_average_before=[0.1, 0.2, 0.3],
        parts=[part],
        server=Server({"queue": {"p50_ms": [[0, 0.1]]}}, [[0, 0.5]], [[0, 2.0]], [[0, 90.0]]),
        k6={"metrics": {}},
    )


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = record.create_folder(tmp_path, "load", STARTED)
    assert folder.name == "load-20260102T030405Z"
    record.write(a_run(), folder)
    assert record.read(folder) == record.read(folder / "run.json") == a_run()


def test_the_newest_run_is_linked(tmp_path: Path) -> None:
    for _ in range(2):
        folder = record.create_folder(tmp_path, "load", STARTED)
        record.write(a_run(), folder)
    assert folder.name == "load-20260102T030405Z-2"
    assert (tmp_path / "load-latest").resolve() == folder
    assert sorted(place.name for place in tmp_path.iterdir()) == [
        "load-20260102T030405Z",
        "load-20260102T030405Z-2",
        "load-latest",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no record of a run"),
        ("[]", "is no record of a run"),
        ('{"schema": 2}', "schema 2 of the run; this program reads 1"),
        ('{"schema": 1}', "is no record of a run"),
    ],
    ids=["empty", "a list", "of another schema", "without its fields"],
)
def test_what_is_no_record_is_told(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(ToolError, match=re.escape(words)):
        record.read(tmp_path)


def test_a_missing_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="there is no such run"):
        record.read(tmp_path)
