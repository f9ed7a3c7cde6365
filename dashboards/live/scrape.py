"""The configuration of Prometheus: every part with the labels that a cluster gives its targets."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from dashboards.live import node
from dashboards.live.options import Options
from local.topology import HOST

TARGETS = {"gateway": {"metrics_path": "/stats/prometheus"}, "node-tuning": {"honor_labels": True}}
"""Further settings of jobs. The label `pod` of a node's agent is the checked pod."""


def configuration(options: Options, jobs: Mapping[str, Mapping[str, int]]) -> str:
    """Scrapes the `jobs`, each with the ports of its pods, as often as the options say."""
    every = _duration(options.interval)
    scrapes = [
        {
            "job_name": job,
            "static_configs": [_target(options.name, job, pod, port) for pod, port in pods.items()],
            **TARGETS.get(job, {}),
        }
        for job, pods in jobs.items()
    ]
    whole = {
        "global": {
            "scrape_interval": every,
            "scrape_timeout": every,
            "evaluation_interval": every,
        },
        "rule_files": [str(path) for path in options.rules],
        "scrape_configs": scrapes,
    }
    # JSON is YAML (YAML 1.2, section 1.3).
    return json.dumps(whole, indent=2) + "\n"


def paced(folder: Path, files: Sequence[Path], seconds: float) -> list[Path]:
    """Copies of rules with another evaluation interval."""
    folder.mkdir()
    for pattern in files:
        for file in pattern.parent.glob(pattern.name):
            text = re.sub(r"(\n +interval:) \S+", rf"\1 {_duration(seconds)}", file.read_text())
            (folder / file.name).write_text(text)
    return [folder / "*.yaml"]


def _target(namespace: str, job: str, name: str, port: int) -> dict:
    """An agent has the label of its node, every other part that of its pod."""
    agent = job == "node-tuning"
    labels = {"node": name} if agent else {"node": node.NAME, "pod": name}
    return {"targets": [f"{HOST}:{port}"], "labels": {"namespace": namespace, **labels}}


def _duration(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"
