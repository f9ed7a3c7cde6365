from collections.abc import Iterable, Iterator, Mapping

from grafana_foundation_sdk.builders import prometheus
from grafana_foundation_sdk.models.dashboard import DataSourceRef
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from metrics import catalogue

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

Queries = Mapping[str, str]

CLUSTER = 'cluster=~"$cluster"'
"""Part of every query. If all clusters are selected, series without the label match too."""

SERVICE = f'{CLUSTER}, namespace="$namespace", service="$service"'

POD = f'{SERVICE}, pod=~"$pod"'

GATEWAY = f'{CLUSTER}, namespace="$namespace", service="$gateway"'
"""Matchers of all gateways."""

ROUTE = f'{SERVICE}, route=~"$route"'
"""Matchers of the selected routes, for records that keep no pod."""

POD_ROUTE = f'{POD}, route=~"$route"'


LATE = {name: it for name, it in catalogue.by_name(catalogue.read()).items() if it.late}

SECONDS = {"$__rate_interval": "($__rate_interval_ms / 1000)", "1m": "60", "5m": "300"}
"""Rate window lengths in seconds."""


def over_time(expressions: Queries, *, traces: bool = False) -> Iterator[prometheus.Dataquery]:
    for legend, expression in expressions.items():
        yield _query(expression, legend, traces=traces).range()


def at_end(expressions: Queries) -> Iterator[prometheus.Dataquery]:
    return (_query(expression, legend).instant() for legend, expression in expressions.items())


def table_rows(expressions: Iterable[str]) -> Iterator[prometheus.Dataquery]:
    """The value at the end of the time range, with each series as a table row."""
    return (_query(each).instant().format(PromQueryFormat.TABLE) for each in expressions)


def heat(expression: str, *, traces: bool) -> Iterator[prometheus.Dataquery]:
    yield _query(expression, "{{le}}", traces=traces).range().format(PromQueryFormat.HEATMAP)


def quantile(share: float, histogram: str, matchers: str, by: str = "", offset: str = "") -> str:
    """A histogram quantile. `by` are labels to keep, such as "pod, ", and `offset` is a time in the
    past.
    """
    series = f"{histogram}_bucket"
    plain = f"rate({series}{{{matchers}}}[$__rate_interval] offset {offset})"
    buckets = plain if offset else rate(series, matchers)
    return f"histogram_quantile({share}, sum by ({by}le) ({buckets})) >= 0"


def rate(counter: str, matchers: str, window: str = "$__rate_interval") -> str:
    plain = f"rate({counter}{{{matchers}}}[{window}])"
    new = _appeared(counter, matchers, window)
    return f"({new} / {SECONDS[window]} or {plain})" if new else plain


def _appeared(counter: str, matchers: str, window: str) -> str:
    """Series that an event created within the window; "" for other counters.

    Like the rules, selects series that were missing from the scrape at the start of the window, or
    whose process started later.
    """
    series = f"{counter}{{{matchers}}}"
    new = f"max_over_time({series}[{window}]) unless {series} offset {window}"
    if counter.startswith("k6_"):
        # k6 writes a series from the start of the run.
        return f"({new})"
    if counter not in LATE:
        return ""
    own = ", ".join((*LATE[counter].labels, *["le"] * counter.endswith("_bucket")))
    of_target = f'{{job="service", {SERVICE}}}'
    return (
        f"({new} unless ignoring ({own})"
        f" (time() - max_over_time(process_start_time_seconds{of_target}[{window}]) > {SECONDS[window]}"
        f" unless up{of_target} offset {window} == 1))"
    )


def sum_rate(counter: str, matchers: str, by: str = "", window: str = "$__rate_interval") -> str:
    return f"sum{_by(by)}({rate(counter, matchers, window)})"


def sum_increase(
    counter: str, matchers: str, by: str = "", window: str = "$__rate_interval"
) -> str:
    plain = f"increase({counter}{{{matchers}}}[{window}])"
    new = _appeared(counter, matchers, window)
    return f"sum{_by(by)}({new} or {plain})" if new else f"sum{_by(by)}({plain})"


def threshold(matchers: str) -> str:
    return f"max(service_slo:corelane_slo_latency_threshold:seconds{{{matchers}}})"


def gateway_quantile(share: float, offset: str = "") -> str:
    """Gateway latency quantile in seconds. `offset` is a time in the past."""
    return f"({quantile(share, 'envoy_http_downstream_rq_time', GATEWAY, offset=offset)}) / 1000"


def gateway_error_rate() -> str:
    """Share of 5xx among the gateways' responses."""
    responses = "envoy_http_downstream_rq_xx"
    errors = sum_rate(responses, GATEWAY + ', envoy_response_code_class="5"')
    return f"{errors} / ({sum_rate(responses, GATEWAY)} > 0)"


def error_rate(matchers: str) -> str:
    """Share of 5xx among the servers' responses."""
    errors = sum_rate("corelane_requests_total", matchers + ', code=~"5.."')
    return f"({errors} or vector(0)) / ({sum_rate('corelane_requests_total', matchers)} > 0)"


def firing(more: str = "") -> str:
    """Firing alerts of this service, its gateway, nodes and Prometheus; `more` are additional
    matchers.
    """
    return _alerts(f'ALERTS{{alertstate="firing", {more}')


def active_since() -> str:
    return _alerts("ALERTS_FOR_STATE{")


def _alerts(series: str) -> str:
    alerts = f'{series}alertname=~"Corelane.*", {CLUSTER}'
    others = (
        f'group by (namespace, service) (up{{job=~"service|gateway|gateway-agent", {CLUSTER}}})'
    )
    return (
        f'({alerts}, namespace="$namespace", service=~"$service|$gateway"}}'
        f" or ({alerts}}} unless on (namespace, service) {others}))"
    )


def raised(label: str, expression: str) -> str:
    """Only series above 0, so that the legend shows no other series; if there are none, a single
    series called none.
    """
    nothing = f'label_replace(0 * sum({expression}), "{label}", "none", "", "")'
    return f"({expression}) > 0 or on () {nothing}"


def _by(labels: str) -> str:
    return f" by ({labels}) " if labels else ""


def _query(expression: str, legend: str = "", *, traces: bool = False) -> prometheus.Dataquery:
    query = prometheus.Dataquery().expr(" ".join(expression.split()))
    if traces:
        query.exemplar(True)
    return query.legend_format(legend) if legend else query
