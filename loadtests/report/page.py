"""The page of a run."""

from loadtests.record import ALL, Part, Run
from loadtests.report import html, plots, ratios, tables
from loadtests.report.markdown import one_run_each, verdict

PARTS = 12
"""Parts with charts of their own; those of a large matrix are in the tables."""


def page(run: Run, base: Run | None = None) -> str:
    """The verdict, the figures that say most, then the charts and tables."""
    body = [_head(run), *_problems(run)]
    if len(run.parts) > 1:
        body += _parts_beside(run)
    for part in run.parts[:PARTS]:
        body += _part(run, part, base and base.part(part.name))
    if run.server:
        body += _server(run)
    for part in run.parts:
        before = base and base.part(part.name)
        if base and before:
            body += _beside(part, before, base)
    body += ["<h2>The run</h2>", html.card("What, where, when", "", html.facts(tables.facts(run)))]
    return html.document(f"{run.name}: {verdict(run)}", body)


def _head(run: Run) -> str:
    kind = "passed" if run.passed else "failed"
    return (
        f"<header><h1>{html.escape(run.name)}</h1>"
        f'<span class="verdict {kind}">{html.escape(verdict(run))}</span>'
        f'<span class="where">{html.escape(run.target.url)} · {tables.when(run)} · '
        f"{run.seconds:g} s · {html.escape(run.tool)} {html.escape(run.tool_version)}</span></header>"
    )


def _problems(run: Run) -> list[str]:
    failed = [f"threshold {text}" for text in run.failed_thresholds]
    failed += [
        f"check {name}" for part in run.parts if part.checks for name in part.checks.failed_names
    ]
    blocks = [f"<p>{html.escape(note)}</p>" for note in run.notes]
    if failed:
        items = "".join(f"<li><code>{html.escape(text)}</code></li>" for text in failed)
        blocks.append(
            f'<section class="card problems"><h3>What did not hold</h3><ul>{items}</ul></section>'
        )
    return blocks


def _parts_beside(run: Run) -> list[str]:
    names = ["requests", "requests a second", "failed", "p50, ms", "p99, ms", "max, ms"]
    extra = [name for part in run.parts for name, _ in tables.summary(part) if name not in names]
    names += list(dict.fromkeys(extra))
    rows = []
    for part in run.parts:
        found = dict(tables.summary(part))
        rows.append([part.name, *(found.get(name, "–") for name in names)])
    blocks = [html.card("The parts", "", html.table(tables.Table(["part", *names], rows)))]
    if sum(ALL in part.percentiles for part in run.parts) > 1:
        blocks.insert(0, html.figure(plots.parts_beside(run)))
    figures = [
        (name.replace("_", " "), f"{one.value:g} {one.unit}", "", False)
        for name, one in run.figures.items()
    ]
    return [html.tiles(figures) if figures else "", html.side_by_side(blocks)]


def _part(run: Run, part: Part, base: Part | None) -> list[str]:
    before = dict(tables.summary(base)) if base else {}
    tiles = [
        (
            name,
            value,
            f"base {before[name]}" if name in before else "",
            name in ("failed", "not started") and value != "0",
        )
        for name, value in tables.summary(part)
    ]
    body = [] if len(run.parts) == 1 else [f"<h2>{html.escape(part.name)}</h2>"]
    body.append(html.tiles(tiles))
    server = run.server if len(run.parts) == 1 else None
    charts = []
    if ALL in part.percentiles:
        charts.append(html.figure(plots.percentiles(part, base)))
    if ALL in part.over_time and part.over_time[ALL].t:
        charts.append(html.figure(plots.latency(part)))
        charts.append(html.figure(plots.throughput(part, server)))
    about = (
        ""
        if part.checks is None
        else (f"{part.checks.passed:,} checks of replies passed, {part.checks.failed:,} failed. ")
    )
    if part.routes:
        charts.append(html.card("Routes", about, html.table(tables.routes(part))))
    return [*body, html.side_by_side(charts)]


def _server(run: Run) -> list[str]:
    server = run.server
    blocks = []
    if server.phases:
        blocks += [
            html.figure(plots.who_is_slow(run, server)),
            html.figure(plots.medians(run, server)),
        ]
    if server.lanes_busy:
        blocks.append(html.figure(plots.busy(run, server)))
    if server.whole_run:
        about = (
            "Of all requests of the run; histograms of the servers are no finer than their buckets."
        )
        blocks.append(html.card("The whole run", about, html.table(tables.server(run))))
    return ["<h2>What gateway and servers saw</h2>", html.side_by_side(blocks)]


def _beside(part: Part, before: Part, base: Run) -> list[str]:
    name = "" if part.name == ALL else f"{part.name}: "
    found = tables.comparison(part, before)
    if not found.rows:
        return []
    blocks = [
        ratios.card(tables.ratios(part, before)),
        html.card(
            "Route by route",
            "Milliseconds. Above × 1 the newer run is slower, or asked at a higher rate.",
            html.table(found),
        ),
    ]
    return [
        f"<h2>{html.escape(name)}Beside the base run of {tables.when(base)}</h2>",
        f"<p>{one_run_each()}</p>".replace(
            "`make loadtest-compare`", "<code>make loadtest-compare</code>"
        ),
        html.side_by_side(blocks),
    ]
