"""Every configuration that the docs name, and every pair of switches, judged by the real Envoy."""

import mmap
from itertools import combinations, product
from pathlib import Path

import pytest

from support.rendering import GATEWAY_VALUES, envoy_config, tool
from support.validation import accepted

TLS = "tls.enabled=true,tls.secret=certificate"
JWT = (
    "authentication.jwt.enabled=true,authentication.jwt.secret=jwt,authentication.jwt.issuer=i,"
    "authentication.jwt.audiences={a}"
)
ENDPOINT = "upstream.discovery=static,upstream.endpoints[0].address=127.0.0.1"

# Each line is a switch and its positions, as settings of the chart.
SWITCHES = (
    (
        "",
        "listener.proxyProtocol=true",
        TLS,
        f"{TLS},tls.plain=serve,tls.minVersion=1.3",
        f"{TLS},http3.enabled=true",
        f"{TLS},listener.proxyProtocol=true",
    ),
    ("", "overload.monitor=heap", "overload.monitor=none"),
    ("", JWT),
    ("", "rateLimit.enabled=true", "rateLimit.enabled=true,rateLimit.perClient.requests=5"),
    (
        "",
        "tracing.enabled=true,tracing.host=collector",
        "tracing.enabled=true,tracing.host=collector,tracing.protocol=http",
    ),
    ("", "accessLog.enabled=false", "accessLog.percent=100", "accessLog.percent=0"),
    (
        "",
        "upstream.discovery=dns",
        f"{ENDPOINT},upstream.endpoints[0].port=80,upstream.endpoints[0].adminPort=81",
    ),
    ("", "listener.escapedSlashes=redirect", "listener.escapedSlashes=keep"),
    ("", "listener.trustedHops=1"),
    ("", "listener.bodyBytes=0,listener.http10=false"),
    ("", "listener.keepalive.probes=0,listener.http2.ping=0s"),
    ("", "listener.timeouts.age=0s,listener.timeouts.total=0s"),
    ("", "upstream.outliers.failurePercent=0"),
    (
        "",
        "upstream.balancing.policy=least-request-p2c,upstream.balancing.slowStart.window=15s",
        "upstream.balancing.policy=round-robin",
        "upstream.balancing.policy=load-aware",
        "upstream.balancing.policy=ring-hash,upstream.balancing.ringHash.key=source-address",
    ),
    ("", "stats.replies=false"),
    ("", "cpus=2,workers.affinity=on", "cpus=2,workers.affinity=on,workers.locality=true"),
    ("", "overload.reduceTimeouts.from=0,overload.resetStreams.from=0,overload.shrinkHeap=0"),
    ("", "overload.refuseConnections=0,overload.goAway=0,overload.abortRequests=0"),
)


def rows() -> list[tuple[str, ...]]:
    """Positions of all switches, so that any two positions meet in at least one row."""
    numbers = range(len(SWITCHES))
    missing = {
        ((one, left), (two, right))
        for one, two in combinations(numbers, 2)
        for left, right in product(SWITCHES[one], SWITCHES[two])
    }
    found = []
    while missing:
        # Begin with a pair that has not met; then take for each switch what meets most.
        row = dict(min(missing))
        for number in numbers:
            if number not in row:
                row[number] = max(SWITCHES[number], key=lambda at: _met(row, number, at, missing))
        missing -= set(combinations(sorted(row.items()), 2))
        found.append(tuple(row[number] for number in numbers))
    return found


def _met(row: dict[int, str], number: int, position: str, missing: set) -> int:
    pairs = (tuple(sorted([(number, position), other])) for other in row.items())
    return sum(pair in missing for pair in pairs)


@pytest.mark.parametrize("values", GATEWAY_VALUES, ids=lambda path: path.stem)
def test_envoy_accepts_every_values_file_without_a_warning(values: Path, tmp_path: Path) -> None:
    accepted(tmp_path, values=values)


@pytest.mark.parametrize("row", rows(), ids=lambda row: " ".join(filter(None, row))[:40])
def test_envoy_accepts_switches_whatever_the_others_are(
    row: tuple[str, ...], tmp_path: Path
) -> None:
    accepted(tmp_path, *filter(None, row))


def test_the_binary_knows_every_name_of_the_overload_manager() -> None:
    """Envoy takes a load-shed point that it does not know without a word."""
    manager = envoy_config()["overload_manager"]
    names = {entry["name"] for kind in ("actions", "loadshed_points") for entry in manager[kind]}
    assert len(names) == 9
    with tool("envoy").open("rb") as file:
        binary = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        known = {name for name in names if binary.find(name.encode() + b"\0") >= 0}
        assert names == known
        assert binary.find(b"envoy.load_shed_points.of_no_such_name\0") < 0
