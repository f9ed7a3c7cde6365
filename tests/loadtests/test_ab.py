"""ab's output is read rightly; `data` holds what real runs printed."""

from pathlib import Path

import pytest

from loadtests.bench import ab
from tools.errors import ToolError

pytestmark = pytest.mark.nightly

DATA = Path(__file__).resolve().parent / "data"


def parse(name: str) -> ab.Result:
    return ab.parse((DATA / f"{name}.txt").read_text(), (DATA / f"{name}.csv").read_text())


def test_every_figure_is_read() -> None:
    assert parse("keep-alive") == ab.Result(
        seconds=0.861,
        requests_per_second=23222.95,
        complete=20000,
        failed=0,
        write_errors=0,
        non_2xx=0,
        kept_alive=20000,
        percentiles={
            "50": 4.130,
            "66": 4.574,
            "75": 4.990,
            "80": 5.275,
            "90": 6.379,
            "95": 7.520,
            "98": 8.902,
            "99": 10.299,
            "100": 19.914,
        },
    )


def test_replies_other_than_2xx_are_wrong() -> None:
    result = parse("not-found")
    assert result.failed == 0
    assert result.non_2xx == 200
    assert result.kept_alive == 0
    assert result.wrong == 200


def test_output_without_a_figure_is_an_error() -> None:
    with pytest.raises(ToolError, match="Time taken for tests"):
        ab.parse("This is ApacheBench, Version 2.3", "")
