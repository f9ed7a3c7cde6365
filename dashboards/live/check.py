"""`check`: every query of every dashboard on a platform that is under load and in trouble."""

import time

from dashboards.live import boards, story, variables
from dashboards.live.boards import Dashboard, Query
from dashboards.live.filling import Range, Value, fill
from dashboards.live.platform import Platform
from dashboards.live.prometheus import Prometheus, Result
from dashboards.live.stage import stage
from dashboards.live.verdict import Finding, Judge, wrong
from tools.errors import ToolError

SCRAPE = 5.0
"""Seconds between two scrapes, as Grafana's data source is told: more than there really are, so that
what a rate covers holds some requests even of a rare route."""

NAME = "check-dashboards"

OTHERWISE = " or vector(0)"
"""What shows 0 where there is nothing: also where a label is misspelt, so it is taken away."""


def main() -> int:
    """Plays the story, asks everything, and says what has no data; 1 when something has none."""
    dashboards = boards.load()
    if not dashboards:
        raise ToolError(f"there are no dashboards in {boards.FOLDER}: run make dashboards")
    options = story.options(NAME)
    with stage(options) as platform:
        started = time.time()
        story.play(platform)
        over = Range(started, time.time(), SCRAPE)
        judges = [judge(dashboard, platform, over) for dashboard in dashboards]
        broken = Prometheus(platform.prometheus).broken_rules()
    return report(judges, broken)


def judge(dashboard: Dashboard, platform: Platform, over: Range) -> Judge:
    """Asks for the variables, annotations and panels of one dashboard."""
    prometheus = Prometheus(platform.prometheus)
    found = Judge(dashboard, boards.empty_by_nature())
    values, offers = variables.choose(dashboard, prometheus, over, preferred(platform))
    for offer in offers:
        words = "" if offer.values else "offers nothing"
        found.other(f"variable {offer.name}", offer.query, words)
    for annotation in dashboard.annotations:
        expression = fill(annotation["expr"], values, over)
        words = wrong(prometheus.range(expression, over))
        found.other(f"annotation {annotation['name']}", expression, words)
    for panel in dashboard.panels:
        for query in panel.queries:
            expression, result = evidence(prometheus, query, values, over)
            found.panel(panel, query, expression, result)
    found.end()
    return found


def ask(
    prometheus: Prometheus, query: Query, values: dict[str, Value], over: Range
) -> tuple[str, Result]:
    """A panel's query with everything filled in, and what came of it."""
    expression = fill(query.expression, values, over)
    if query.instant:
        return expression, prometheus.instant(expression, over)
    return expression, prometheus.range(expression, over)


def evidence(
    prometheus: Prometheus, query: Query, values: dict[str, Value], over: Range
) -> tuple[str, Result]:
    """As `ask`; of a query with a 0 of its own, what it found at any time without that."""
    expression, result = ask(prometheus, query, values, over)
    if OTHERWISE not in expression or wrong(result):
        return expression, result
    expression = expression.replace(OTHERWISE, "")
    return expression, prometheus.range(expression, over)


def preferred(platform: Platform) -> dict[str, str]:
    """What a reader would choose where only one value may be chosen."""
    return {"namespace": platform.options.name, "job": "server", "gateway": "gateway"}


def report(judges: list[Judge], broken: dict[str, str]) -> int:
    """A line for each dashboard, then each query and each rule that failed."""
    for each in judges:
        counts = f"{len(each.dashboard.panels):>3} panels  {each.queries:>3} queries"
        ends = f"{each.idle} empty by nature  {len(each.failures)} failed"
        print(f"{each.dashboard.title:<24} {counts}  {ends}")
    for each in judges:
        _show("failed", each.failures)
        _show("note", each.notes)
    for rule, words in broken.items():
        print(f"failed: rule {rule}: {words}")
    return 1 if broken or any(each.failures for each in judges) else 0


def _show(kind: str, findings: list[Finding]) -> None:
    for finding in findings:
        print(f"{kind}: {finding.where}: {finding.words}\n    {finding.query}")
