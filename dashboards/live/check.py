"""Runs every query of every dashboard on a platform that is under load and has faults."""

import time

from dashboards.live import boards, story, variables
from dashboards.live.boards import Dashboard, Query
from dashboards.live.platform import Platform
from dashboards.live.prometheus import Prometheus, Range, Result
from dashboards.live.stage import stage
from dashboards.live.variables import fill
from dashboards.live.verdict import Finding, Judge, wrong

FALLBACK = " or vector(0)"
"""Shows 0 where there is no data, also where a label is misspelt. It is removed before a query is judged."""


def main() -> int:
    """Plays the story, runs all queries, and reports those without data; 1 if there are any."""
    dashboards = boards.load()
    with stage(story.options("check-dashboards")) as platform:
        started = time.time()
        story.play(platform)
        over = Range(started, time.time())
        judges = [judge(dashboard, platform, over) for dashboard in dashboards]
        broken = Prometheus(platform.prometheus).broken_rules()
    return report(judges, broken)


def judge(dashboard: Dashboard, platform: Platform, over: Range) -> Judge:
    """Runs the queries of the variables, annotations and panels of one dashboard."""
    prometheus = Prometheus(platform.prometheus)
    found = Judge(dashboard, boards.empty_by_nature())
    preferred = {"namespace": platform.options.name, "job": "server", "gateway": "gateway"}
    values, offers = variables.choose(dashboard, prometheus, over, preferred)
    for offer in offers:
        found.other(
            f"variable {offer.name}", offer.query, "" if offer.values else "offers no value"
        )
    for annotation in dashboard.annotations:
        expression = fill(annotation["expr"], values)
        reason = wrong(prometheus.range(expression, over))
        found.other(f"annotation {annotation['name']}", expression, reason)
    for panel in dashboard.panels:
        for query in panel.queries:
            expression, result = evidence(prometheus, query, values, over)
            found.panel(panel, query, expression, result)
    found.end()
    return found


def evidence(
    prometheus: Prometheus, query: Query, values: dict[str, str], over: Range
) -> tuple[str, Result]:
    """A panel's query and its result; without a fallback to 0, and then over the whole range."""
    expression = fill(query.expression, values)
    ask = prometheus.instant if query.instant else prometheus.range
    result = ask(expression, over)
    if FALLBACK not in expression or wrong(result):
        return expression, result
    expression = expression.replace(FALLBACK, "")
    return expression, prometheus.range(expression, over)


def report(judges: list[Judge], broken: dict[str, str]) -> int:
    """Prints a line for each dashboard, then each query and each rule that failed."""
    for each in judges:
        counts = f"{len(each.dashboard.panels):>3} panels  {each.queries:>3} queries"
        ends = f"{each.idle} empty as listed  {len(each.failures)} failed"
        print(f"{each.dashboard.title:<24} {counts}  {ends}")
    for each in judges:
        _show("failed", each.failures)
        _show("note", each.notes)
    for rule, reason in broken.items():
        print(f"failed: rule {rule}: {reason}")
    return 1 if broken or any(each.failures for each in judges) else 0


def _show(kind: str, findings: list[Finding]) -> None:
    for finding in findings:
        print(f"{kind}: {finding.where}: {finding.reason}\n    {finding.query}")
