"""The catalogue's pages: docs/metrics.md, and docs/metrics-PART.md for each part."""

from collections.abc import Iterable, Mapping

from .catalogue import Group, Part, Series

WRITTEN = "<!-- Written by `make metrics` from dashboards/metrics/series. -->\n"

HEAD = f"""\
{WRITTEN}
# Metrics

*Reference.* This page describes the common properties of all series that Corelane exposes. A separate page lists the series of
each part. Tests compare the names, types, labels, help texts and number of series in this catalogue with the running parts,
in both directions. The tests also check that dashboards and rules use no other series.

Units are base units, and counters end in `_total`, as Prometheus recommends. A value without a unit is a count, or 1 for
true. If the name of a series does not contain the unit, the type column does. A histogram consists of the three series
`_bucket` (with the `le` label), `_sum` and `_count`. [Alerts](../dashboards/alerts.md) describes how to use the series.

## Targets

Every series also has the labels of its target:

| label | value |
|---|---|
| `job` | target type: `prometheus`, `alertmanager`, or a value from the second column of the next table |
| `service` | the service or gateway named by the `corelane/service` pod label |
| `namespace` | the pod's namespace, or the instance of a local `make up` |
| `pod` | the pod, or the local process, such as `server-0` |
| `node` | the pod's node (only on a cluster) |
| `cluster` | the cluster, if one store holds the series of several clusters (Prometheus external label) |
| `instance` | the scraped address |

k6 writes its `k6_` series directly to Prometheus, without a `job` label.

## Cost

The table counts the series in the example that the page of each part describes. Most of these series belong to histograms, with one
series for each bound, `+Inf`, `_sum` and `_count`. A sample uses
[1 to 2 bytes](https://prometheus.io/docs/prometheus/latest/storage/) on disk, so 2,500 series scraped every 15 s use 14 to 29 MB a day.
"""

LATE = """
## Late series

A counter is *late* if each of its series appears only with the first event, such as the first 500 of a route on a lane. `rate` and
`increase` detect only steps between two values, so they miss the step from no series to the first value. A burst of errors
within one scrape interval would go unnoticed. All other counters are exposed at 0 from the start, with every combination of
their labels, so `rate` misses only the events before the first scrape of a process.

Before they sum, rules and dashboards therefore count series that appeared within a window from 0:

```promql
(
  max_over_time(SERIES[5m]) unless SERIES offset 5m
    unless ignoring (LABELS)
  (time() - max_over_time(process_start_time_seconds{job="service"}[5m]) > 300 unless up{job="service"} offset 5m == 1)
) / 300
  or
rate(SERIES[5m])
```

LABELS are the series labels that do not come from the target. The inner `unless` excludes a target whose counter
values at the beginning of the window are unknown, because its process started earlier and no scrape succeeded at that time.
Old requests are therefore not counted again after a failed scrape or in a new Prometheus. If you change
relabeling so that Prometheus starts to keep series of running replicas, their old requests are counted once.

The alternative is to expose every route, method and status class at 0. These series would add up to 5 × `lanes` × `kinds` counters
and 95 × `lanes` × `routes` histogram series to each replica. Series of learnt routes and Envoy's response counters would still
be late. Counting from 0 adds no series to a replica, but the expression takes Prometheus about three times as long as `rate` alone.
Prometheus can also read the start time of a series from its target (`created-timestamp-zero-ingestion`). That feature is
experimental and off by default, and Envoy does not expose start times.

Tests compare the *Late* mark with the running parts and check that every rule and panel reads late series with this
expression. In your own rules, use the recorded series, such as `route:corelane_requests:rate5m`.
"""


def texts(parts: Mapping[str, Part]) -> dict[str, str]:
    rows = [
        (f"[{part.title}](metrics-{name}.md)", _listed(part.jobs), _of_example(part), *_adds(part))
        for name, part in parts.items()
    ]
    costs = _table(("part", "job", "series in the example", "growth"), rows)
    pages = {f"metrics-{name}.md": f"{WRITTEN}\n{_part(part)}" for name, part in parts.items()}
    return {"metrics.md": f"{HEAD}\n{costs}{LATE}", **pages}


def _of_example(part: Part) -> str:
    return f"{part.total():,} per {part.per}"


def _adds(part: Part) -> tuple[str]:
    """Series that each extra replica, route etc. adds to the example."""
    more = {
        name: part.total({**part.example, name: figure + 1}) - part.total()
        for name, figure in part.example.items()
    }
    words = [f"{added:,} per additional `{name}`" for name, added in more.items()]
    return (", ".join(words) or "none",)


def _part(part: Part) -> str:
    intro = part.intro.strip().replace("(#late-series)", "(metrics.md#late-series)")
    subject = (
        f"*Reference.* This page lists all series of the part *{part.title}*.\n"
        "[Metrics](metrics.md) explains the columns.\n"
    )
    sections = [
        f"# Metrics: {part.title}\n",
        subject,
        f"{intro}\n",
        *_figures(part),
        *_labels(part),
    ]
    sections += map(_group, part.groups)
    if part.prefixes:
        rows = [(f"`{it.name}`", f"`{it.pattern}`", it.meaning) for it in part.prefixes]
        table = _table(("prefix of the series", "pattern of the stats_matcher", "subject"), rows)
        most = f"In the example, these prefixes cover at most {part.most:,} series.\n"
        sections.append(f"## {part.title}: included prefixes\n\n{most}\n{table}")
    return "\n".join(sections)


def _figures(part: Part) -> list[str]:
    example = f"The example is {part.example_is}."
    if not part.figures:
        return [f"{example}\n"]
    rows = [(f"`{name}`", what, part.example[name]) for name, what in part.figures.items()]
    return [
        f"The number of series depends on the following figures. {example}\n",
        _table(("figure", "meaning", "e.g."), rows),
    ]


def _labels(part: Part) -> list[str]:
    listed = "listed with the series"
    rows = [(f"`{name}`", bound) for name, bound in part.labels.items() if bound != listed]
    return [_table(("label", "values"), rows)]


def _group(group: Group) -> str:
    when = f"Exposed {group.when}.\n\n" if group.when else ""
    head = ("series", "type", "labels", "cost", "meaning")
    table = _table(head, map(_row, group.series))
    return f"## {group.title}\n\n{when}{table}"


def _row(series: Series) -> tuple[object, ...]:
    formula = series.cost.replace("*", "×")
    formula = f"at most {formula}" if series.at_most else formula
    words = [series.meaning]
    words += [f"`{label}`: {_listed(values)}" for label, values in series.values.items()]
    if series.late:
        words.append(
            f"[Late](metrics.md#late-series){' for a learnt route' * (series.late == 'route')}"
        )
    if series.optional:
        words.append(f"Missing {series.optional}")
    labels = ", ".join(f"`{label}`" for label in series.labels)
    named = series.unit in series.name
    type_ = series.type if named else f"{series.type}, {series.unit}"
    return f"`{series.name}`", type_, labels, formula, ". ".join(words)


def _listed(values: Iterable[str]) -> str:
    return ", ".join(f"`{value}`" for value in values)


def _table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    # There are no spaces around the rule, as on the other pages.
    shown = ["|" + "|".join(lines[1]) + "|" if line is lines[1] else _line(line) for line in lines]
    return "\n".join(shown) + "\n"


def _line(cells: tuple[object, ...]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
