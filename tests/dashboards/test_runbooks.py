"""The queries and links of runbooks work, and an alert leads to each of their sections."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from stack import REPOSITORY

RUNBOOKS = sorted((REPOSITORY / "dashboards" / "runbooks").glob("*.md"))
NAMED = {
    rule["annotations"]["runbook"]
    for file in (REPOSITORY / "dashboards" / "rules").glob("*.rules.yaml")
    for group in yaml.safe_load(file.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}
SERIES = re.compile(r"\b(corelane|envoy|process|prometheus|alertmanager)_\w+|\bup\b *[{=]")
EVERY_RUNBOOK = pytest.mark.parametrize("runbook", RUNBOOKS, ids=lambda file: file.stem)


def queries(runbook: Path) -> list[str]:
    """What stands between backticks and names a series."""
    text = re.sub(r"^ *```.*?^ *```", "", runbook.read_text(), flags=re.DOTALL | re.MULTILINE)
    spans = re.findall(r"`([^`]+)`", text)
    return [" ".join(span.split()) for span in spans if SERIES.search(span)]


def headings(page: Path, level: str = "#+") -> set[str]:
    """The fragments that lead to a heading of the page."""
    found = re.findall(rf"^{level} (.*)", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_prometheus_understands_every_query(tmp_path: Path) -> None:
    rules = [
        {"record": f"runbook:{file.stem.replace('-', '_')}:{index}", "expr": query}
        for file in RUNBOOKS
        for index, query in enumerate(queries(file))
    ]
    assert len(rules) > 10 * len(RUNBOOKS)
    file = tmp_path / "runbooks.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "runbooks", "rules": rules}]}))
    argv = [sys.executable, "hack/tools", "run", "promtool", "check", "rules", str(file)]
    result = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.fast
@EVERY_RUNBOOK
def test_an_alert_leads_to_each_section(runbook: Path) -> None:
    page = runbook.relative_to(REPOSITORY)
    sections = {f"{page}#{fragment}" for fragment in headings(runbook, "##")}
    assert sections
    assert sections <= NAMED


@pytest.mark.fast
@EVERY_RUNBOOK
def test_its_links_lead_somewhere(runbook: Path) -> None:
    for file, fragment in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", runbook.read_text()):
        page = runbook.parent / file if file else runbook
        assert page.exists(), file
        assert not fragment or fragment in headings(page), f"{file}#{fragment}"
