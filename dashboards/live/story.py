"""The story of the check: load, faults, a lost replica and a drain. k6 writes what it sees into Prometheus."""

import time
from dataclasses import replace
from pathlib import Path

from dashboards.live.options import EDGE, REPLICAS, Options
from dashboards.live.parts import Part
from dashboards.live.platform import Platform
from tools import progress

SCRIPT = Path(__file__).with_name("load.js")
TESTID = "stage"

TRENDS = "p(50),p(95),p(99),max"
"""The series of each time that k6 measures: k6_http_req_duration_p50 and so on."""


def load(platform: Platform, rate: int = 60, duration: str = "10m") -> Part:
    """Starts requests each second until the time is over or `stop` is called."""
    variables = {
        "BASE_URL": platform.gateway,
        "DIRECT_URL": platform.servers[EDGE].url,
        "TOKEN": platform.token,
        "RATE": rate,
        "DURATION": duration,
    }
    argv = [platform.programs["k6"], "run", "--quiet", "--no-usage-report", "--address", ""]
    argv += ["--out", "experimental-prometheus-rw", "--tag", f"testid={TESTID}"]
    for name, value in variables.items():
        argv += ["--env", f"{name}={value}"]
    environment = platform.environment | {
        "K6_PROMETHEUS_RW_SERVER_URL": f"{platform.prometheus}/api/v1/write",
        "K6_PROMETHEUS_RW_TREND_STATS": TRENDS,
        "K6_PROMETHEUS_RW_PUSH_INTERVAL": "1s",
    }
    part = Part("k6", [*argv, SCRIPT], platform.run, lambda: part.running, environment)
    part.ends = True
    platform.parts[part.name] = part
    part.start()
    return part


INTERVAL = 2.0

DRAIN = ("--drain.settle", "10s")
"""Five scrapes, so that at least one sees it on a busy machine."""

CALM = 30
RATE = 40
"""Requests each second: possible on two busy CPUs with an unoptimised build."""

FAULTS = (
    {"route": "/div/{n}", "share": 0.3, "latency": {"fixed": "150ms", "jitter": "200ms"}},
    {"route": "/hello", "share": 0.1, "error": {"status": 503}},
    {"route": "/work", "share": 0.3, "cpu": {"burn": "30ms"}},
)
STALL = {"route": "/work", "share": 1, "cpu": {"burn": "1500ms"}}
"""Longer than `timeouts.stall`."""

DRIFT = ("fs.file-max", "4096")

LASTING = "10m"


def options(name: str) -> Options:
    """A stage whose rules are evaluated at each scrape."""
    made = Options(name=name, interval=INTERVAL, pace=INTERVAL)
    return replace(made, servers={f"server-{index}": DRAIN for index in range(REPLICAS)})


def play(platform: Platform) -> None:
    """Plays it; the load continues afterwards."""
    load(platform, rate=RATE)
    _say("normal load")
    time.sleep(CALM)
    _say("a handler blocks its lane")
    platform.servers[EDGE].faults({**STALL, "expires_in": "3s"})
    time.sleep(CALM / 6)
    _say("faults on every replica: latency, errors and burnt CPU time")
    for server in platform.servers.values():
        server.faults(*({**fault, "expires_in": LASTING} for fault in FAULTS))
    time.sleep(CALM / 2)
    _say(f"{DRIFT[0]} of the node is changed")
    platform.tree.drift(*DRIFT)
    _say("server-1 is killed")
    platform.servers["server-1"].kill()
    time.sleep(CALM / 3)
    platform.restart("server-1")
    platform.endpoint("server-1")
    time.sleep(CALM / 3)
    _say("server-0 drains")
    platform.drain("server-0")
    time.sleep(CALM / 6)
    platform.restart("server-0")
    time.sleep(CALM / 2)


def _say(text: str) -> None:
    progress.say("stage", text)
