"""Annotations on every panel: versions, configurations, starts, drains, scaling and alerts."""

from dataclasses import dataclass

from grafana_foundation_sdk.models import dashboard as model

from grafana.queries import DATASOURCE, SERVICE, firing


class _Query(model.AnnotationQuery):
    """Adds members of Grafana's Prometheus data source that the SDK's type lacks."""

    def __init__(self, mark: "Mark") -> None:
        super().__init__()
        self._mark = mark

    def to_json(self) -> dict[str, object]:
        mark = self._mark
        return {
            "name": mark.name,
            "enable": mark.shown,
            "datasource": DATASOURCE,
            "iconColor": mark.color,
            "expr": " ".join(mark.expression.split()),
            "titleFormat": mark.title,
            "textFormat": mark.text,
            "step": "30s",
            "useValueForTime": mark.at_value,
        }


@dataclass(frozen=True)
class Mark:
    """With `at_value`, the annotation's time is the value in milliseconds instead of the sample's
    time. With `shown`, the annotation is on by default. Annotations for each pod are not, because
    they would cover the panels.
    """

    name: str
    color: str
    expression: str
    title: str
    text: str
    at_value: bool = False
    shown: bool = False

    def build(self) -> model.AnnotationQuery:
        return _Query(self)


def _new(labels: str, series: str) -> str:
    """Marks label combinations that did not exist in the previous hour, for one minute after they
    appear.
    """
    of = f"{series}{{{SERVICE}}}"
    return f"group by ({labels}) ({of}) unless group by ({labels}) (last_over_time({of}[1h] offset 1m))"


SERVERS = f"count(corelane_build_info{{{SERVICE}}})[1m:5s]"

MARKS = (
    Mark(
        "Versions",
        "purple",
        _new("version", "corelane_build_info"),
        "New version",
        "Replicas with version {{version}} started",
        shown=True,
    ),
    Mark(
        "Configuration",
        "blue",
        _new("placement, lanes, pin, load_reports", "corelane_config_info"),
        "New configuration",
        "placement {{placement}}, lanes {{lanes}}, pin {{pin}}, load reports {{load_reports}}",
        shown=True,
    ),
    Mark(
        "Starts",
        "green",
        f"1000 * max by (pod) (process_start_time_seconds{{{SERVICE}}})",
        "Start",
        "{{pod}} started",
        at_value=True,
    ),
    Mark(
        "Drains",
        "yellow",
        f"1000 * max by (pod) (corelane_drain_started_timestamp_seconds{{{SERVICE}}} > 0)",
        "Drain",
        "{{pod}} started to drain",
        at_value=True,
    ),
    Mark(
        "Scaling",
        "light-blue",
        f"max_over_time({SERVERS}) != min_over_time({SERVERS})",
        "Scaling",
        "The number of replicas changed",
    ),
    Mark(
        "Alerts",
        "red",
        f"max by (alertname, severity) {firing()}",
        "{{alertname}}",
        "{{severity}}",
        shown=True,
    ),
)
