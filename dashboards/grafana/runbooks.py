"""The runbook of each alert, as links in tables."""

import re
from pathlib import Path

from grafana_foundation_sdk.models import dashboard as model

ROOT = Path(__file__).resolve().parent.parent
ADDRESS = "https://github.com/OWNER/corelane/blob/main/dashboards/runbooks/"

LINK = model.DashboardLink(title="Runbook", url=f"{ADDRESS}${{__value.text}}", target_blank=True)


def texts() -> dict[str, tuple[str, str]]:
    """Page and section of each alert, as named by the rules."""
    rule = r"- alert: (\w+)\n.*?runbook: dashboards/runbooks/(\S+)"
    files = sorted((ROOT / "rules").glob("*.rules.yaml"))
    found = [pair for file in files for pair in re.findall(rule, file.read_text(), re.DOTALL)]
    return {alert: (section, "transparent") for alert, section in found}
