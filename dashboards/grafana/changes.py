"""Marks of what changed, drawn over every panel: most trouble begins with a change."""

from dataclasses import dataclass

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as model

from grafana.queries import DATASOURCE, JOB, firing


class _Query(model.AnnotationQuery):
    """With the members of Grafana's Prometheus data source, which the SDK's type leaves out."""

    def __init__(self, more: dict[str, object], **known: object) -> None:
        super().__init__(**known)
        self._more = more

    def to_json(self) -> dict[str, object]:
        return super().to_json() | self._more


@dataclass(frozen=True)
class Mark:
    """What is marked. `at_value`: when it was is the value, in milliseconds, not the sample's time."""

    name: str
    color: str
    expression: str
    title: str
    text: str
    at_value: bool = False

    def build(self) -> Builder[model.AnnotationQuery]:
        """As Grafana has it."""
        return _Built(self)


class _Built(Builder[model.AnnotationQuery]):
    def __init__(self, mark: Mark) -> None:
        self._mark = mark

    def build(self) -> model.AnnotationQuery:
        mark = self._mark
        more = {
            "titleFormat": mark.title,
            "textFormat": mark.text,
            "step": "30s",
            "useValueForTime": mark.at_value,
        }
        return _Query(
            more,
            name=mark.name,
            datasource=DATASOURCE,
            icon_color=mark.color,
            expr=" ".join(mark.expression.split()),
        )


def _new(labels: str, series: str) -> str:
    """For a minute after labels are there that were not in the hour before: a restart is nothing new."""
    of = f"{series}{{{JOB}}}"
    return f"group by ({labels}) ({of}) unless group by ({labels}) (last_over_time({of}[1h] offset 1m))"


SERVERS = f"count(corelane_build_info{{{JOB}}})[1m:5s]"

MARKS = (
    Mark(
        "Versions",
        "purple",
        _new("version", "corelane_build_info"),
        "Another version",
        "Servers of version {{version}} appeared",
    ),
    Mark(
        "Configuration",
        "blue",
        _new("placement, lanes, pin, load_reports", "corelane_config_info"),
        "Another configuration",
        "placement {{placement}}, lanes {{lanes}}, pin {{pin}}, load reports {{load_reports}}",
    ),
    Mark(
        "Starts",
        "green",
        f"1000 * max by (pod) (process_start_time_seconds{{{JOB}}})",
        "Start",
        "{{pod}} started",
        at_value=True,
    ),
    Mark(
        "Drains",
        "yellow",
        f"1000 * max by (pod) (corelane_drain_started_timestamp_seconds{{{JOB}}} > 0)",
        "Drain",
        "{{pod}} began to drain",
        at_value=True,
    ),
    Mark(
        "Scaling",
        "light-blue",
        f"max_over_time({SERVERS}) != min_over_time({SERVERS})",
        "Scaling",
        "The number of servers changed",
    ),
    Mark(
        "Alerts",
        "red",
        f"max by (alertname, severity) {firing()}",
        "{{alertname}}",
        "{{severity}}",
    ),
)
