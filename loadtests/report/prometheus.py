"""Queries Prometheus for the gateway's and servers' data during a run."""

import json
import math
import sys
import urllib.error
import urllib.parse
import urllib.request

from loadtests.record import Server

TIMEOUT = 5.0
WINDOW = 3
"""Scrapes that a rate covers: two are needed, and one may be late."""

PHASES = ("accept", "queue", "handler", "write")
QUANTILES = {"p50_ms": 0.5, "p99_ms": 0.99}
PHASE = "corelane_request_phase_seconds_bucket"
GATEWAY = "envoy_http_downstream_rq_time_bucket"

Series = list[list[float]]


def ask(url: str, started: float, seconds: float, selector: str = "") -> Server | None:
    """The servers' view of a run; empty if there is no Prometheus or it scraped too few samples."""
    if not url:
        return None
    try:
        asked = _Asked(url, started, seconds, selector)
        server = Server(
            phases={phase: asked.phase(phase) for phase in PHASES},
            lanes_busy=asked.rate("avg", "corelane_lane_busy_seconds_total"),
            gateway_p99_ms=asked.quantile(0.99, GATEWAY, ""),
            requests_per_second=asked.rate("sum", "corelane_requests_total"),
            whole_run=asked.whole_run(),
        )
    except (OSError, ValueError, KeyError) as error:
        print(
            f"loadtests: the report is without the servers' side: {url}: {error}", file=sys.stderr
        )
        return None
    server.phases = {name: found for name, found in server.phases.items() if any(found.values())}
    return server if server.phases or server.requests_per_second else None


def receives(url: str) -> bool:
    if not url:
        return False
    try:
        flags = _get(url, "/api/v1/status/flags")
    except (OSError, ValueError, KeyError):
        return False
    return flags.get("web.enable-remote-write-receiver") == "true"


def remote_write(url: str) -> dict[str, str]:
    """Environment for k6's remote write."""
    return {
        "K6_PROMETHEUS_RW_SERVER_URL": f"{url}/api/v1/write",
        "K6_PROMETHEUS_RW_TREND_STATS": "p(50),p(95),p(99),max",
    }


class _Asked:
    def __init__(self, url: str, started: float, seconds: float, selector: str) -> None:
        self._url, self._started, self._seconds, self._selector = url, started, seconds, selector
        self._step = _scrape_interval(url)
        # PromQL durations have no fractions.
        self._window = f"{WINDOW * self._step * 1000:.0f}ms"

    def rate(self, added: str, metric: str) -> Series:
        return self._over_time(f"{added}(rate({metric}{{{self._selector}}}[{self._window}]))")

    def _over_time(self, query: str, scale: float = 1.0) -> Series:
        """Pairs of seconds and a value. A rate looks back, so the first pair is late enough to
        cover only the run.
        """
        first = min(WINDOW * self._step, self._seconds)
        found = _get(
            self._url,
            "/api/v1/query_range",
            query=query,
            start=f"{self._started + first:.3f}",
            end=f"{self._started + self._seconds:.3f}",
            step=f"{self._step:g}",
        )
        pairs = found["result"][0]["values"] if found["result"] else []
        return _pairs([(at - self._started, float(text) * scale) for at, text in pairs])

    def quantile(self, share: float, buckets: str, labels: str, scale: float = 1.0) -> Series:
        query = self._quantile(share, buckets, labels, "rate", self._window)
        return self._over_time(query, scale)

    def phase(self, phase: str) -> dict[str, Series]:
        """Median and 99th percentile of one phase."""
        return {
            name: self.quantile(share, PHASE, f'phase="{phase}"', 1000)
            for name, share in QUANTILES.items()
        }

    def whole_run(self) -> dict[str, dict[str, float]]:
        """Quantiles of all requests of the run, by phase and at the gateway."""
        kinds = {phase: (PHASE, f'phase="{phase}"', 1000) for phase in PHASES}
        kinds["gateway"] = (GATEWAY, "", 1)
        found: dict[str, dict[str, float]] = {}
        for kind, (buckets, labels, scale) in kinds.items():
            for name, share in QUANTILES.items():
                query = self._quantile(share, buckets, labels, "increase", f"{self._seconds:.0f}s")
                values = [float(each["value"][1]) for each in self._at_the_end(query)]
                if values and math.isfinite(values[0]):
                    found.setdefault(kind, {})[name] = round(values[0] * scale, 4)
            if kind in found:
                bounds = self._at_the_end(f"group by (le) ({buckets}{{{self._chosen(labels)}}})")
                finest = min(float(each["metric"]["le"]) for each in bounds)
                found[kind]["finest_ms"] = round(finest * scale, 4)
        return found

    def _at_the_end(self, query: str) -> list[dict]:
        end = f"{self._started + self._seconds:.3f}"
        return _get(self._url, "/api/v1/query", query=query, time=end)["result"]

    def _quantile(self, share: float, buckets: str, labels: str, function: str, window: str) -> str:
        found = f"{function}({buckets}{{{self._chosen(labels)}}}[{window}])"
        return f"histogram_quantile({share}, sum by (le) ({found}))"

    def _chosen(self, labels: str) -> str:
        return ",".join(filter(None, (labels, self._selector)))


def _scrape_interval(url: str) -> float:
    """Longest of the targets' scrape intervals, in seconds."""
    targets = _get(url, "/api/v1/targets", state="active")["activeTargets"]
    return max((_seconds(target["scrapeInterval"]) for target in targets), default=15.0)


def _seconds(duration: str) -> float:
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    for unit, scale in units.items():
        number = duration.removesuffix(unit)
        if number != duration and number.isdecimal():
            return int(number) * scale
    return 60.0


def _get(url: str, path: str, **query: str) -> dict:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{url}{path}?{urllib.parse.urlencode(query)}", timeout=TIMEOUT) as reply:
        return json.load(reply)["data"]


def _pairs(values: list[tuple[float, float]]) -> Series:
    return [[round(t, 1), round(value, 4)] for t, value in values if math.isfinite(value)]
