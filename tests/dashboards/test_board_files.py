"""Dashboard files are up to date, and valid for Grafana and Prometheus."""

import json
import re
import subprocess
from pathlib import Path

from stack import REPOSITORY
from tools import resolve

CODE = REPOSITORY / "dashboards" / "grafana"
FILES = sorted((REPOSITORY / "dashboards" / "json").glob("*.json"))


def check(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    python = resolve.tool("dashboards-python")
    argv = [python, folder / "grafana", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_the_files_are_what_the_code_writes() -> None:
    checked = check(CODE.parent, "--check")
    assert checked.returncode == 0, checked.stderr


def expressions(value: object) -> list[str]:
    if isinstance(value, list):
        return [found for each in value for found in expressions(each)]
    if not isinstance(value, dict):
        return []
    return [value["expr"]] if "expr" in value else expressions(list(value.values()))


def test_prometheus_can_read_every_query(tmp_path: Path) -> None:
    queries = [it for file in FILES for it in expressions(json.loads(file.read_text()))]
    built_in = {"__rate_interval": "1m", "__rate_interval_ms": "60000"}
    filled = [re.sub(r"\$(\w+)", lambda it: built_in.get(it[1], "x"), each) for each in queries]
    rules = [{"record": f"query_{index}", "expr": it} for index, it in enumerate(filled)]
    # JSON is a subset of YAML (YAML 1.2, section 1.3).
    file = tmp_path / "queries.json"
    file.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    argv = [resolve.tool("promtool"), "check", "rules", "--lint=none", file]
    read = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stderr


READ_BACK = """
import json, sys
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

register_default_plugins()
read = [Dashboard.from_json(json.load(open(file))) for file in sys.argv[1:]]
print(json.dumps(read, cls=JSONEncoder))
"""


def test_grafanas_own_types_hold_all_that_the_files_say() -> None:
    python = resolve.tool("dashboards-python")
    argv = [python, "-c", READ_BACK, *FILES]
    reading = subprocess.run(argv, capture_output=True, text=True, check=True)
    for read, file in zip(json.loads(reading.stdout), FILES, strict=True):
        wanted = json.loads(file.read_text())
        for mark in wanted["annotations"]["list"]:
            # Annotation fields missing from the generated types.
            for member in ("titleFormat", "textFormat", "step", "useValueForTime"):
                del mark[member]
        assert lost(wanted, read, file.stem) == []


def lost(wanted: object, read: object, at: str) -> list[str]:
    """Paths in `wanted` that are missing from `read`; additional defaults are fine."""
    if isinstance(wanted, dict) and isinstance(read, dict):
        return [it for key in wanted for it in lost(wanted[key], read.get(key), f"{at}.{key}")]
    if isinstance(wanted, list) and isinstance(read, list) and len(wanted) == len(read):
        pairs = enumerate(zip(wanted, read, strict=True))
        return [it for index, (one, two) in pairs for it in lost(one, two, f"{at}[{index}]")]
    return [] if wanted == read else [at]
