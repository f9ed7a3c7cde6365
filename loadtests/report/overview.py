"""A page with several runs, which links to each run's page."""

from html import escape
from pathlib import Path

from loadtests.bench.experiment.page import table
from loadtests.record import ALL, Part, Run
from loadtests.report import html, plots
from loadtests.report.markdown import verdict
from loadtests.report.tables import figure, number

HEAD = [
    "scenario",
    "verdict",
    "part",
    "requests",
    "a second",
    "failed",
    "p50 ms",
    "p99 ms",
    "max ms",
]

Ended = dict[str, tuple[Run, Path] | str]
"""Maps a name to the run and its folder, or to the reason why there is no run."""


def write(folder: Path, ended: Ended) -> None:
    (folder / "summary.md").write_text(markdown(ended))
    (folder / "index.html").write_text(_page(folder, ended))


def markdown(ended: Ended) -> str:
    rows = [row for name, found in ended.items() for row in _rows(name, found)]
    return f"# Suite: {_verdict(ended)}\n\n{table(HEAD, rows)}\n"


def _page(folder: Path, ended: Ended) -> str:
    runs = {name: found for name, found in ended.items() if not isinstance(found, str)}
    document, kind = html.Document(), "passed" if _all_passed(ended) else "failed"
    body = [
        f'<header><h1>Suite</h1><span class="verdict {kind}">{_verdict(ended)}</span></header>',
        html.card("The runs", "Each name leads to the page of its run.", _table(folder, ended)),
    ]
    charts = [
        document.figure(plots.percentiles(part, None, f"{name}: "))
        if len(run.parts) == 1
        else document.figure(plots.parts_beside(run, f"{name}: "))
        for name, (run, _) in runs.items()
        for part in run.parts[:1]
        if plots.curved(run)
    ]
    return document.written(
        f"Suite: {_verdict(ended)}", [*body, "<h2>Latencies</h2>", html.side_by_side(charts)]
    )


def _table(folder: Path, ended: Ended) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in HEAD)
    rows = []
    for name, found in ended.items():
        good = not isinstance(found, str) and found[0].passed
        for first, *others in _rows(name, found):
            cells = "".join(f"<td>{escape(cell)}</td>" for cell in others)
            link = escape(first)
            if first and not isinstance(found, str):
                place = (found[1] / "report.html").relative_to(folder)
                link = f'<a href="{escape(str(place))}">{link}</a>'
            kind = "first" if first else "more"
            rows.append(
                f'<tr class="{kind}{"" if good else " bad"}"><th scope="row">{link}</th>{cells}</tr>'
            )
    body = "".join(rows)
    return f'<div class="scroll"><table class="runs"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _rows(name: str, found: tuple[Run, Path] | str) -> list[list[str]]:
    """A row for each part; the first row contains the name and the verdict."""
    if isinstance(found, str):
        return [[name, f"not run: {found}", *[""] * (len(HEAD) - 2)]]
    run, _ = found
    told = [
        verdict(run),
        *(f"{key.replace('_', ' ')} {figure(one)}" for key, one in run.figures.items()),
    ]
    begin = [[name, ", ".join(told)], *[["", ""]] * len(run.parts)]
    parts = [["" if part.name == ALL else part.name, *_figures(part)] for part in run.parts]
    return [[*first, *rest] for first, rest in zip(begin, parts or [[""] * 7], strict=False)]


def _figures(part: Part) -> list[str]:
    every = part.routes[part.whole].latency_ms if part.whole else {}
    latencies = [number(every[key]) if key in every else "–" for key in ("p50", "p99", "max")]
    rate = number(part.requests_per_second)
    return [f"{part.requests:,}", rate, f"{part.failed:,}", *latencies]


def _all_passed(ended: Ended) -> bool:
    return all(not isinstance(found, str) and found[0].passed for found in ended.values())


def _verdict(ended: Ended) -> str:
    good = sum(not isinstance(found, str) and found[0].passed for found in ended.values())
    return f"{good} of {len(ended)} passed"
