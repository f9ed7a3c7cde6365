"""k6 as the load of a stage; it writes what it sees into the stage's Prometheus."""

from pathlib import Path

from dashboards.live.parts import Part
from dashboards.live.plan import EDGE
from dashboards.live.platform import Platform

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
