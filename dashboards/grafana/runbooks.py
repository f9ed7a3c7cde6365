"""The runbook of each alert, as links in tables."""

import re
from pathlib import Path

from grafana_foundation_sdk.models import dashboard as model

ROOT = Path(__file__).resolve().parent.parent
ADDRESS = "https://github.com/OWNER/corelane/blob/main/dashboards/runbooks/"
"""Placeholder that charts/monitoring replaces by `rules.runbookUrl`."""

LINK = model.DashboardLink(title="Runbook", url=f"{ADDRESS}${{__value.text}}", target_blank=True)
"""Link from an alert's name, shown as its runbook."""


def texts() -> dict[str, tuple[str, str]]:
    """Returns the page and section of each alert, as the rules name it."""
    rule = r"- alert: (\w+)\n.*?runbook: dashboards/runbooks/(\S+)"
    files = sorted((ROOT / "rules").glob("*.rules.yaml"))
    found = [pair for file in files for pair in re.findall(rule, file.read_text(), re.DOTALL)]
    return {alert: (section, "transparent") for alert, section in found}
