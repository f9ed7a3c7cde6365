"""`bench-tuning`: both ends are told what to set, and what is measured is written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.bench.tuning import report
from loadtests.bench.tuning.arms import DEFAULTS
from loadtests.bench.tuning.measure import CASES
from support import REPOSITORY
from support.programs import program

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes network namespaces"),
]

REFUSING = """\
#!{python}
# The same server, which answers fewer than come.
import os, sys
arguments = sys.argv[1:]
arguments[arguments.index("--limits.connections") + 1] = "20"
os.execv("{server}", ["{server}", *arguments])
"""


def bench_tuning(out: Path, server: Path) -> tuple[subprocess.CompletedProcess[str], dict]:
    argv = [sys.executable, "loadtests/bench", "tuning", "--quick", "--rounds", "1"]
    argv += ["--profile", "dev", "--out", str(out), "--server", str(server)]
    argv += ["--tuner", str(program("node-tuner"))]
    result = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return result, json.loads((out / "bench-tuning.json").read_text())


def test_a_run_is_measured_and_written(binary: Path, tmp_path: Path) -> None:
    before = {name: Path(f"/proc/sys/net/{name}").read_text() for name in ("core/somaxconn",)}
    result, record = bench_tuning(tmp_path, binary)
    assert result.returncode == 0, result.stderr
    names = [DEFAULTS, "web-10k", "web-10k, unsafe too"]
    assert list(record["results"]) == list(CASES)
    for results in record["results"].values():
        assert list(results) == names
        for (sample,) in results.values():
            assert sample["requests"] > 0 == sample["wrong"]
            assert 0 < sample["percentiles"]["50"] <= sample["percentiles"]["99"]
    defaults, safe, every = record["arms"]
    assert safe["backlog"] == defaults["backlog"] == 4096 < every["backlog"]
    assert every["server"]["net.core.somaxconn"] == str(every["backlog"])
    assert "net.core.somaxconn" not in safe["server"]
    text = (tmp_path / "bench-tuning.md").read_text()
    assert text == report.markdown(record)
    assert result.stdout == text + "\n"
    assert before == {name: Path(f"/proc/sys/net/{name}").read_text() for name in before}


def test_a_refused_request_fails_the_run(binary: Path, tmp_path: Path) -> None:
    server = tmp_path / "server"
    server.write_text(REFUSING.format(python=sys.executable, server=binary))
    server.chmod(0o755)
    result, record = bench_tuning(tmp_path, server)
    assert result.returncode == 1, result.stderr
    for (sample,) in record["results"]["rush"].values():
        assert 0 < sample["faults"]["status"] <= sample["wrong"] <= sample["requests"]
