"""The page of a run."""

from loadtests.record import ALL, Part, Run
from loadtests.report import html, plots, tables
from loadtests.report.markdown import one_run_each, verdict

WHOLE_RUN = (
    "Of all requests; the histograms of gateway and servers are no finer than their buckets. Accept is of new "
    "connections only, until the header of their first request, and a client may be silent at first."
)

OPEN = 3
"""Maximum number of parts to expand initially."""

PARTS = 12
"""Maximum parts with their own charts; larger matrices appear only in the tables."""


def page(run: Run, base: Run | None = None) -> str:
    document = html.Document()
    body = [_head(run), "<h2>Result</h2>", *_problems(run)]
    if len(run.parts) > 1:
        body += _parts_beside(document, run)
    for part in run.parts[:PARTS]:
        inner = _part(document, run, part, base and base.part(part.name))
        body += inner if len(run.parts) <= OPEN else _folded(part, inner)
    body += _thresholds(run)
    if run.server:
        body += _server(document, run)
    for part in run.parts:
        before = base and base.part(part.name)
        if base and before:
            body += _beside(document, part, before, base)
    body += ["<h2>The run</h2>", html.card("What, where, when", "", html.facts(tables.facts(run)))]
    return document.written(f"{run.name}: {verdict(run)}", body)


def _head(run: Run) -> str:
    kind = "passed" if run.passed else "failed"
    return (
        f"<header><h1>{html.escape(run.name)}</h1>"
        f'<span class="verdict {kind}">{html.escape(verdict(run))}</span>'
        f'<span class="where">{html.escape(run.target.url)} · {tables.when(run)} · '
        f"{tables.number(run.seconds)} s · {html.escape(run.tool)} {html.escape(run.tool_version)}</span></header>"
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


def _thresholds(run: Run) -> list[str]:
    found = tables.thresholds(run)
    if not found.rows:
        return []
    about = "Pass criteria and measured values."
    return [html.card("Thresholds", about, html.table(found, "thresholds"))]


def _parts_beside(document: html.Document, run: Run) -> list[str]:
    """All parts in one table, with their curves on one axis."""
    found = {part.name: dict(tables.summary(part)) for part in run.parts}
    names = list(dict.fromkeys(name for figures in found.values() for name in figures))
    rows = [[part, *(figures.get(name, "–") for name in names)] for part, figures in found.items()]
    whole = [
        (name.replace("_", " "), tables.figure(one), "", False) for name, one in run.figures.items()
    ]
    body = [html.tiles(whole)] if whole else []
    body.append(html.card("The parts", "", html.table(tables.Table(["part", *names], rows))))
    charts = [plots.parts_beside(run)] if plots.curved(run) else []
    # A part that sends everything at once has no curve over time.
    if any(len(part.over_time[ALL].t) > 1 for part in plots.timed(run)):
        charts.append(plots.parts_over_time(run))
    body.append(html.side_by_side(map(document.figure, charts)))
    return body


def _part(document: html.Document, run: Run, part: Part, base: Part | None) -> list[str]:
    alone = len(run.parts) == 1
    body = [html.tiles(_tiles(part, base))]
    if 1 < len(run.parts) <= OPEN:
        body.insert(0, f"<h2>{html.escape(part.name)}</h2>")
    charts = []
    # The parts chart already shows this curve if there are other parts; with several routes,
    # the routes' curves are relevant.
    if part.percentiles.get(part.whole) and (alone or base or len(part.routes) > 2):
        charts.append(plots.percentiles(part, base))
    if ALL in part.over_time:
        charts.append(plots.latency(part, tables.p99_limit(run, part)))
        charts.append(plots.throughput(part, run.server if alone else None))
    blocks = [document.figure(chart) for chart in charts]
    if part.routes and (alone or len(part.routes) > 2):
        blocks.append(html.card("Routes", _checks(part), html.table(tables.routes(part))))
    return [*body, html.side_by_side(blocks)]


def _folded(part: Part, inner: list[str]) -> list[str]:
    """Collapsed until a reader opens it."""
    head = f"<summary><h2>{html.escape(part.name)}</h2></summary>"
    return [f'<details class="part">{head}', *inner, "</details>"]


def _tiles(part: Part, base: Part | None) -> list[tuple[str, str, str, bool]]:
    before = dict(tables.summary(base)) if base else {}
    bad = ("failed", "not started")
    return [
        (
            name,
            value,
            f"base {before[name]}" if name in before else "",
            name in bad and value != "0",
        )
        for name, value in tables.summary(part)
    ]


def _checks(part: Part) -> str:
    if part.checks is None:
        return ""
    return f"{part.checks.passed:,} checks of replies passed, {part.checks.failed:,} failed."


def _server(document: html.Document, run: Run) -> list[str]:
    server, blocks = run.server, []
    if any(phase in server.phases for phase in plots.SHOWN):
        blocks += [document.figure(plots.sides(run, server, what)) for what in plots.SIDES]
    if server.lanes_busy:
        blocks.append(document.figure(plots.busy(server)))
    if server.whole_run:
        blocks.append(html.card("The whole run", WHOLE_RUN, html.table(tables.server(run))))
    return ["<h2>Gateway and servers</h2>", html.side_by_side(blocks)]


def _beside(document: html.Document, part: Part, before: Part, base: Run) -> list[str]:
    name = "" if part.name == ALL else f"{part.name}: "
    found = tables.comparison(part, before)
    if not found.rows:
        return []
    blocks = [
        document.figure(plots.ratios(tables.ratios(part, before))),
        html.card(
            "Route by route",
            "Milliseconds. Above × 1 the newer run is slower, or has a higher rate.",
            html.table(found),
        ),
    ]
    return [
        f"<h2>{html.escape(name)}Comparison with the base run of {tables.when(base)}</h2>",
        f"<p>{one_run_each()}</p>".replace(
            "`make loadtest-compare`", "<code>make loadtest-compare</code>"
        ),
        html.side_by_side(blocks),
    ]
