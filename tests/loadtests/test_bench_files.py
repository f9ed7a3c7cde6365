"""`bench-files`: every byte is checked, and what is measured is written."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.bench.files import report
from loadtests.bench.files.servers import CORELANE, NGINX
from support import REPOSITORY

pytestmark = pytest.mark.nightly

OTHER_FILES = """\
#!{python}
# The same server, with other files.
import os, sys
arguments = sys.argv[1:]
arguments[arguments.index("--static.root") + 1] = "{site}"
os.execv("{server}", ["{server}", *arguments])
"""


def bench_files(out: Path, server: Path, names: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "loadtests/bench", "files", "--quick", "--rounds", "1"]
    argv += ["--profile", "dev", "--out", str(out), "--server", str(server), "--only", names]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_a_run_is_measured_and_written(binary: Path, tmp_path: Path) -> None:
    result = bench_files(tmp_path, binary, f"{CORELANE};{NGINX}")
    assert result.returncode == 0, result.stderr
    record = json.loads((tmp_path / "bench-files.json").read_text())
    for results in record["results"].values():
        assert list(results) == [CORELANE, NGINX]
        for (sample,) in results.values():
            assert sample["requests"] > 0 == sample["wrong"]
            assert sample["cpu_us"] > 0
    text = (tmp_path / "bench-files.md").read_text()
    assert text == report.markdown(record)
    assert result.stdout == text + "\n"


def test_another_file_fails_the_run(binary: Path, tmp_path: Path) -> None:
    site, server = tmp_path / "site", tmp_path / "server"
    site.mkdir()
    for name in ("index.html", "4k.txt"):
        (site / name).write_text("changed")
    server.write_text(OTHER_FILES.format(python=sys.executable, site=site, server=binary))
    server.chmod(0o755)
    result = bench_files(tmp_path, server, CORELANE)
    assert result.returncode == 1, result.stderr
    record = json.loads((tmp_path / "bench-files.json").read_text())
    for ((sample,),) in (results.values() for results in record["results"].values()):
        assert sample["faults"]["body"] == sample["wrong"] == sample["requests"]
