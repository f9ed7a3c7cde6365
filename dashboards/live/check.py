"""Runs every query of every dashboard on a platform that is under load and has faults."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from dashboards.live import boards
from dashboards.live.boards import Dashboard, Panel, Query, fill
from dashboards.live.platform import EDGE, REPLICAS, Options, Platform
from dashboards.live.stage import stage
from stack.process import Process
from stack.prometheus import Prometheus, Range, Result
from tools import progress
from tools.resolve import tool

SCRIPT = Path(__file__).with_name("load.js")
TESTID = "stage"

TRENDS = "p(50),p(95),p(99),max"
"""k6's statistics for each duration, which become series such as k6_http_req_duration_p50."""


def load(platform: Platform, rate: int = 60, duration: str = "10m") -> Process:
    """Starts requests every second until the time is over or `stop` is called."""
    variables = {
        "BASE_URL": platform.gateway,
        "DIRECT_URL": platform.servers[EDGE].url,
        "TOKEN": platform.token,
        "RATE": rate,
        "DURATION": duration,
    }
    argv = [tool("k6"), "run", "--quiet", "--no-usage-report", "--address", ""]
    argv += ["--out", "experimental-prometheus-rw", "--tag", f"testid={TESTID}"]
    for name, value in variables.items():
        argv += ["--env", f"{name}={value}"]
    environment = platform.environment | {
        "K6_PROMETHEUS_RW_SERVER_URL": f"{platform.prometheus}/api/v1/write",
        "K6_PROMETHEUS_RW_TREND_STATS": TRENDS,
        "K6_PROMETHEUS_RW_PUSH_INTERVAL": "1s",
    }
    part = Process("k6", [*argv, SCRIPT], platform.run, environment=environment, ends=True)
    platform.parts[part.name] = part
    part.start()
    return part


INTERVAL = 2.0

DRAIN = ("--drain.settle", "10s")
"""Five scrapes long, so that at least one succeeds on a busy machine."""

CHEAP = ("--slow-lanes.cheap", "/hello")
"""Keeps faults off the slow lane, because imbalance panels only show data while a lane is more than
30% busy.
"""

NORMAL = 30
RATE = 40

FAULTS = (
    {"route": "/div/{n}", "share": 0.3, "latency": {"fixed": "150ms", "jitter": "200ms"}},
    {"route": "/hello", "share": 0.1, "error": {"status": 503}},
    {"route": "/hello", "share": 1, "cpu": {"burn": "250ms"}},
    {"route": "/work", "share": 0.3, "cpu": {"burn": "30ms"}},
)
STALL = {"route": "/work", "share": 1, "cpu": {"burn": "1500ms"}}
"""Lasts longer than `timeouts.stall`."""

DRIFT = ("fs.file-max", "4096")

LASTING = "10m"


def options(name: str) -> Options:
    made = Options(name=name, interval=INTERVAL, pace=INTERVAL)
    return replace(made, servers={f"server-{index}": (*DRAIN, *CHEAP) for index in range(REPLICAS)})


def play(platform: Platform) -> None:
    load(platform, rate=RATE)
    _say("normal load")
    time.sleep(NORMAL)
    _say("a handler blocks its lane")
    platform.servers[EDGE].faults({**STALL, "expires_in": "3s"})
    time.sleep(NORMAL / 6)
    _say("faults on every replica: latency, errors and burnt CPU time")
    for server in platform.servers.values():
        server.faults(*({**fault, "expires_in": LASTING} for fault in FAULTS))
    time.sleep(NORMAL / 2)
    _say(f"{DRIFT[0]} of the node is changed")
    platform.tree.drift(*DRIFT)
    _say("server-1 is killed")
    platform.servers["server-1"].kill()
    time.sleep(NORMAL / 3)
    platform.restart("server-1")
    platform.endpoint("server-1")
    time.sleep(NORMAL / 3)
    _say("server-0 drains")
    platform.drain("server-0")
    time.sleep(NORMAL / 6)
    platform.restart("server-0")
    time.sleep(NORMAL / 2)


def _say(text: str) -> None:
    progress.say("stage", text)


@dataclass(frozen=True)
class Finding:
    """A query without data, or with data although it is listed as empty."""

    where: str
    query: str
    reason: str


def wrong(result: Result) -> str:
    if result.error:
        return result.error
    if not result.series:
        return "empty"
    if not any(series.numbers for series in result.series):
        return "only NaN"
    return ""


class Judge:
    """Collects one dashboard's findings, and excuses queries that may be empty."""

    def __init__(self, dashboard: Dashboard, empty: dict[tuple[str, str, str], str]) -> None:
        self.dashboard = dashboard
        self.failures: list[Finding] = []
        self.notes: list[Finding] = []
        self.queries = 0
        self.idle = 0
        self._empty = {(panel, ref) for uid, panel, ref in empty if uid == dashboard.uid}
        self._used: set[tuple[str, str]] = set()

    def panel(self, panel: Panel, query: Query, expression: str, result: Result) -> None:
        reason = wrong(result)
        keys = {(panel.title, ""), (panel.title, query.ref)} & self._empty
        self._used |= keys
        name = f"{panel.title} | {query.ref}"
        if keys and reason in ("empty", "only NaN"):
            self.idle += 1
            reason = ""
        elif keys and not reason:
            self.notes.append(
                Finding(self._at(name), expression, "has data, but is listed as empty")
            )
        self.other(name, expression, reason)

    def other(self, name: str, expression: str, reason: str) -> None:
        self.queries += 1
        if reason:
            self.failures.append(Finding(self._at(name), expression, reason))

    def end(self) -> None:
        """Reports panels that are listed as empty but do not exist."""
        for title, ref in self._empty - self._used:
            where = self._at(f"{title} | {ref or 'all queries'}")
            self.failures.append(Finding(where, "", "is listed as empty, but does not exist"))

    def _at(self, name: str) -> str:
        return f"{self.dashboard.title} | {name}"


FALLBACK = " or vector(0)"
"""This fallback shows 0 if there is no data, even if a label is misspelt, so it is removed before
the query runs.
"""


def main() -> int:
    """Runs the script of faults and all queries, and reports queries without data; returns 1 if
    there are any.
    """
    dashboards = boards.load()
    with stage(options("check-dashboards")) as platform:
        started = time.time()
        play(platform)
        over = Range(started, time.time())
        judges = [judge(dashboard, platform, over) for dashboard in dashboards]
        broken = Prometheus(platform.prometheus).broken_rules()
    return report(judges, broken)


def judge(dashboard: Dashboard, platform: Platform, over: Range) -> Judge:
    prometheus = Prometheus(platform.prometheus)
    found = Judge(dashboard, boards.empty_by_nature())
    preferred = {"namespace": platform.options.name, "service": "server", "gateway": "gateway"}
    values, offers = boards.choose(dashboard, prometheus, over, preferred)
    for offer in offers:
        # The stage is one platform, and its Prometheus has no `cluster` label.
        reason = "" if offer.values or offer.name == "cluster" else "offers no value"
        found.other(f"variable {offer.name}", offer.query, reason)
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
    expression = fill(query.expression, values)
    ask = prometheus.instant if query.instant else prometheus.range
    result = ask(expression, over)
    if FALLBACK not in expression or wrong(result):
        return expression, result
    expression = expression.replace(FALLBACK, "")
    return expression, prometheus.range(expression, over)


def report(judges: list[Judge], broken: dict[str, str]) -> int:
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
