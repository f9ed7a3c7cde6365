"""Queries of panels: selectors by the dashboards' variables, and how a result is named."""

from grafana_foundation_sdk.builders import prometheus
from grafana_foundation_sdk.models.dashboard import DataSourceRef
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

JOB = 'namespace="$namespace", job="$job"'
"""Matchers of all servers."""

POD = f'{JOB}, pod=~"$pod"'
"""Matchers of the servers that are chosen."""

GATEWAY = 'namespace="$namespace", job="$gateway"'
"""Matchers of all gateways."""

ROUTE = f'{JOB}, route=~"$route"'
"""Matchers of the routes that are chosen, in records that keep no pod."""

POD_ROUTE = f'{POD}, route=~"$route"'
"""Matchers of the routes that are chosen, of the servers that are chosen."""


THRESHOLD = "max(slo:corelane_slo_latency_threshold:seconds)"
"""The latency objective's, which an installation may have changed."""


def over_time(expression: str, legend: str = "") -> prometheus.Dataquery:
    """A range of time; `legend` names each series, as in {{pod}}."""
    return _query(expression, legend).range()


def now(expression: str, legend: str = "") -> prometheus.Dataquery:
    """The values at the end of the range of time."""
    return _query(expression, legend).instant()


def rows(expression: str) -> prometheus.Dataquery:
    """The values at the end of the range of time, each a row of a table with its labels."""
    return now(expression).format(PromQueryFormat.TABLE)


def buckets(expression: str) -> prometheus.Dataquery:
    """Buckets of a histogram over time, for a heat map."""
    return over_time(expression, "{{le}}").format(PromQueryFormat.HEATMAP)


def quantile(share: float, by: str, histogram: str, matchers: str) -> str:
    """A quantile of a histogram; `by` are labels to keep, such as "pod, "."""
    buckets_of = f"rate({histogram}_bucket{{{matchers}}}[$__rate_interval])"
    return f"histogram_quantile({share}, sum by ({by}le) ({buckets_of})) >= 0"


def rate(counter: str, matchers: str) -> str:
    """What a counter adds each second, over the panel's resolution."""
    return f"rate({counter}{{{matchers}}}[$__rate_interval])"


def firing(more: str = "") -> str:
    """Alerts of this platform, and of nodes and Prometheus; `more` are further matchers."""
    alerts = f'ALERTS{{alertstate="firing", alertname=~"Corelane.*", {more}'
    return (
        f'({alerts}namespace="$namespace"}}'
        f' or {alerts}namespace!="$namespace", job!~"$job|$gateway|gateway-agent"}})'
    )


def raised(label: str, expression: str) -> str:
    """Of many series those above 0, so that a legend names what happened; else one called none."""
    nothing = f'label_replace(0 * sum({expression}), "{label}", "none", "", "")'
    return f"({expression}) > 0 or on () {nothing}"


def _query(expression: str, legend: str) -> prometheus.Dataquery:
    query = prometheus.Dataquery().expr(" ".join(expression.split())).datasource(DATASOURCE)
    return query.legend_format(legend) if legend else query
