"""Runbook queries and links work, and every section is the target of an alert."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from stack import REPOSITORY

RUNBOOKS = sorted((REPOSITORY / "dashboards" / "runbooks").glob("*.md"))
ALERTS = [
    rule
    for file in sorted((REPOSITORY / "dashboards" / "rules").glob("*.rules.yaml"))
    for group in yaml.safe_load(file.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
]
NAMED = {rule["annotations"]["runbook"] for rule in ALERTS}
PAGING = sorted(
    {rule["annotations"]["runbook"] for rule in ALERTS if rule["labels"]["severity"] == "critical"}
)
SERIES = re.compile(r"\b(corelane|envoy|process|prometheus|alertmanager)_\w+|\bup\b *[{=]")
EVERY_RUNBOOK = pytest.mark.parametrize("runbook", RUNBOOKS, ids=lambda file: file.stem)


def spans(runbook: Path) -> list[str]:
    text = re.sub(r"^ *```.*?^ *```", "", runbook.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]


def queries(runbook: Path) -> list[str]:
    """PromQL, either inline or as an argument of `query`."""
    found = [re.sub(r'^query "(.*)"$', r"\1", span) for span in spans(runbook)]
    return [query for query in found if SERIES.search(query)]


def headings(page: Path, level: str = "#+") -> set[str]:
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


@pytest.mark.fast
@EVERY_RUNBOOK
def test_commands_can_be_pasted_after_the_header_block(runbook: Path) -> None:
    """The first block defines all variables and commands."""
    (header,) = re.findall(r"\A.*?^```sh\n(.*?)^```", runbook.read_text(), re.DOTALL | re.MULTILINE)
    variables = set(re.findall(r"\b([A-Z]+)=", header))
    for span in spans(runbook):
        assert set(re.findall(r"\$([A-Z]+)", span)) <= variables, span
        if SERIES.search(span) and "{" in span:
            assert re.fullmatch(r'query "[^"!]*"', span), span
    assert {"k", "query"} <= set(re.findall(r"^(\w+)\(\) {", header, re.MULTILINE))


@pytest.mark.fast
@pytest.mark.parametrize("section", PAGING, ids=lambda section: section.partition("#")[2])
def test_a_paging_alert_is_mitigated_before_it_is_diagnosed(section: str) -> None:
    page, _, fragment = section.partition("#")
    texts = re.split(r"^## ", (REPOSITORY / page).read_text(), flags=re.MULTILINE)
    (text,) = (it for it in texts if it.split("\n")[0].lower() == fragment)
    assert "**Mitigate now:**" in text.partition("\n1. ")[0]
