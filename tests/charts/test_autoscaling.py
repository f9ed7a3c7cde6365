"""`corelane capacity --hpa` writes values of charts/service, which an API server takes."""

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from support import REPOSITORY
from support.apiserver import Api
from support.rendering import render

SHIPPED = REPOSITORY / "charts" / "service" / "values-autoscaling.yaml"
WRITTEN_BY = "# Written by: "
FEW = "--requests=20000"
"""That are simulated: an unoptimised build takes seconds for as many as it takes by default."""


@pytest.fixture
def corelane(command: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command; the caller judges the result."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([command, *arguments], capture_output=True, text=True, check=False)

    return run


def autoscaler(file: Path) -> dict:
    """The HorizontalPodAutoscaler that the chart makes of a values file."""
    return render("service", values=file)["HorizontalPodAutoscaler"]


def test_the_shipped_values_are_what_the_command_writes(corelane: Callable) -> None:
    (line,) = (line for line in SHIPPED.read_text().splitlines() if line.startswith(WRITTEN_BY))
    program, *arguments = shlex.split(line.removeprefix(WRITTEN_BY))
    assert program == "corelane"
    written = corelane(*arguments)
    assert written.returncode == 0, written.stderr
    assert yaml.safe_load(written.stdout) == yaml.safe_load(SHIPPED.read_text())


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("target", "most"), [("40ms", {"busy": 650, "max": 10}), ("100ms", {"busy": 750, "max": 9})]
)
def test_an_api_server_takes_what_is_written(
    api: Api, corelane: Callable, tmp_path: Path, target: str, most: dict[str, int]
) -> None:
    mix = "GET /hello=90%, GET /work=10%:7ms"
    # As many requests as by default: with few, the result is off by up to 50 thousandths.
    written = corelane("capacity", "--mix", mix, "--rps=7000", "--p99", target, "--hpa")
    assert written.returncode == 0, written.stderr
    values = tmp_path / "values.yaml"
    values.write_text(written.stdout)
    hpa = autoscaler(values)
    hpa["metadata"].pop("namespace", None)
    with api.namespace("restricted") as namespace:
        arguments = ["apply", "--dry-run=server", "--validate=strict", "--namespace", namespace]
        result = api.kubectl(*arguments, "--filename", "-", text=yaml.safe_dump(hpa))
        assert (result.returncode, result.stderr) == (0, "")
    (metric,) = hpa["spec"]["metrics"]
    assert metric["pods"]["metric"] == {"name": "corelane_lane_busy_ratio"}
    busy = int(metric["pods"]["target"]["averageValue"].removesuffix("m"))
    # A longer time lets lanes be busier, and fewer replicas do.
    assert most["busy"] - 100 < busy <= most["busy"]
    assert 2 == hpa["spec"]["minReplicas"] < hpa["spec"]["maxReplicas"] <= most["max"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--mix", "GET /work=100%:10ms", "--p99", "1ms"), "no number of replicas"),
        (("--mix", "GET /work=100%:1ms+50ms", "--slots", "4", "--p99", "100ms"), "slots"),
    ],
)
def test_what_no_autoscaler_can_mend_is_said_instead(
    corelane: Callable, arguments: tuple[str, ...], words: str
) -> None:
    refused = corelane("capacity", FEW, *arguments, "--rps", "100", "--hpa")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert words in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
