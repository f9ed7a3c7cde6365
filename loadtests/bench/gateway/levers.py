"""`levers`: what one change of the gateway's configuration does to the CPU time of a request, in pairs."""

import argparse
import copy
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from statistics import quantiles

from loadtests.bench.experiment.page import Page, middle
from loadtests.bench.experiment.plan import Experiment, Plan, Row, Task
from loadtests.bench.experiment.record import Record
from loadtests.bench.experiment.servers import HOST, running
from loadtests.bench.gateway import proxies
from loadtests.bench.gateway.counted import counted
from loadtests.bench.gateway.experiment import LOOPS, rate, turn
from loadtests.bench.gateway.proxies import PoolStand, Proxy, connection_manager, pooled
from loadtests.bench.options import positive
from tools import resolve

PAIRS = 4
"""Turns of each configuration between a start and the end of both."""

SHIPPED, CHANGED = "shipped", "changed"

Patch = dict[str, object]


@dataclass(frozen=True)
class Lever:
    """A change: other values of the chart, or patches (RFC 7396) of the parts of Envoy's configuration."""

    setting: str
    values: dict[str, object] = field(default_factory=dict)
    patches: dict[str, Patch] = field(default_factory=dict)
    more: Callable[[dict], object] = lambda config: None
    """What no patch can say."""
    against: dict[str, object] = field(default_factory=dict)
    """Values of what it is compared with, where that is not the shipped configuration."""

    def arms(self, stand: PoolStand) -> list[Proxy]:
        """The configuration without the change and with it."""
        base, config = _rendered(stand, self.against), _rendered(stand, self.values)
        parts = _parts(config)
        for name, patch in self.patches.items():
            for part in parts[name]:
                _merge(part, patch)
        self.more(config)
        return [proxies.envoy(SHIPPED, base), proxies.envoy(CHANGED, config)]


def _rendered(stand: PoolStand, values: dict[str, object]) -> dict:
    if values:
        return proxies.configuration(stand.programs.tools, stand.endpoints, more=values)
    return copy.deepcopy(stand.rendered)


def _merge(target: Patch, patch: Patch) -> None:
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict) and isinstance(target.get(name), dict):
            _merge(target[name], value)
        else:
            target[name] = copy.deepcopy(value)


def _parts(config: dict) -> dict[str, list[dict]]:
    """What a lever patches. `routes` are the actions of those that forward."""
    manager, (cluster, *_) = connection_manager(config), config["static_resources"]["clusters"]
    options = cluster["typed_extension_protocol_options"]
    (protocol,) = options.values()
    return {
        "top": [config],
        "manager": [manager],
        "table": [manager["route_config"]],
        "cluster": [cluster],
        "protocol": [protocol],
        "router": [manager["http_filters"][-1]["typed_config"]],
        "routes": [route["route"] for route in _routes(config) if "route" in route],
    }


def _routes(config: dict) -> list[dict]:
    return connection_manager(config)["route_config"]["virtual_hosts"][0]["routes"]


def _without(*names: str) -> Callable[[dict], None]:
    """Drops routes."""

    def change(config: dict) -> None:
        _routes(config)[:] = [route for route in _routes(config) if route["name"] not in names]

    return change


def _router_alone(config: dict) -> None:
    del connection_manager(config)["http_filters"][:-1]


def _http2(streams: int) -> dict[str, object]:
    return {"upstream": {"protocol": "http2", "http2Streams": streams}}


def _traced(*, attempts: bool) -> dict[str, object]:
    """No collector is needed where nothing is sampled."""
    known = {"enabled": True, "host": HOST, "protocol": "http", "percent": 0}
    return {"tracing": {**known, "attempts": attempts}}


COMMON = "common_http_protocol_options"
TIMERS = {"stream_idle_timeout": "0s", "request_timeout": "0s", "request_headers_timeout": "0s"}
REMOTE = {"perClient": {"requests": 1_000_000, "burst": 1_000_000, "addresses": 1000}}

LEVERS = {
    "nothing": Lever("the same again: noise"),
    # With 64 requests in flight at two replicas: connections to each of them.
    **{
        f"HTTP/2 on {32 // streams}": Lever(f"`http2Streams: {streams}`", _http2(streams))
        for streams in (32, 16, 8, 4, 2)
    },
    **{
        f"{streams} streams": Lever(
            f"`http2Streams: {streams}`, against 2", _http2(streams), against=_http2(2)
        )
        for streams in (4, 8, 16)
    },
    "no HTTP/1.0": Lever("`listener.http10: false`", {"listener": {"http10": False}}),
    "no body limit": Lever("`listener.bodyBytes: 0`", {"listener": {"bodyBytes": 0}}),
    "rate limits": Lever(
        "`rateLimit.enabled` with `perClient`",
        {"rateLimit": {"enabled": True, "requests": 1_000_000, "burst": 1_000_000, **REMOTE}},
    ),
    "no retries": Lever("no `retry_policy`", patches={"routes": {"retry_policy": None}}),
    "no timers": Lever(
        "each timer of requests `0s`",
        patches={"manager": TIMERS, "routes": {"idle_timeout": "0s", "flush_timeout": None}},
    ),
    "no silence of routes": Lever(
        "route `idle_timeout` and `flush_timeout` absent",
        patches={"routes": {"idle_timeout": None, "flush_timeout": None}},
    ),
    "no request ID": Lever(
        "`generate_request_id: false`", patches={"manager": {"generate_request_id": False}}
    ),
    "no X-Forwarded-For": Lever(
        "`skip_xff_append`", patches={"manager": {"skip_xff_append": True}}
    ),
    "paths as they come": Lever(
        "no `normalize_path`, `merge_slashes`, escaped slashes",
        patches={
            "manager": {
                "normalize_path": None,
                "merge_slashes": None,
                "path_with_escaped_slashes_action": None,
            }
        },
    ),
    "load reports pass": Lever(
        "no `response_headers_to_remove`", patches={"table": {"response_headers_to_remove": None}}
    ),
    "one route": Lever(
        "one route for all methods, no rejections",
        more=_without("several-hosts", "chunks-of-http-1-0", "trace", "idempotent"),
    ),
    "no statistics": Lever(
        "`stats_matcher.reject_all`",
        patches={
            "top": {"stats_config": {"stats_matcher": {"reject_all": True, "inclusion_list": None}}}
        },
    ),
    "no statistics of replies": Lever("`stats.replies: false`", {"stats": {"replies": False}}),
    "no judgement of replies": Lever(
        "`upstream.outliers.failurePercent: 0`", {"upstream": {"outliers": {"failurePercent": 0}}}
    ),
    "no circuit breakers": Lever(
        "no `circuit_breakers`", patches={"cluster": {"circuit_breakers": None}}
    ),
    "no pool idle timer": Lever(
        "upstream `idle_timeout: 0s`", patches={"protocol": {COMMON: {"idle_timeout": "0s"}}}
    ),
    "tracing": Lever("`tracing.enabled`, no request sampled", _traced(attempts=False)),
    "no spans of attempts": Lever(
        "`tracing.attempts: false`, against `true`",
        _traced(attempts=False),
        against=_traced(attempts=True),
    ),
    "no access log": Lever("`accessLog.enabled: false`", {"accessLog": {"enabled": False}}),
    "router alone": Lever("no other HTTP filter", more=_router_alone),
}


@dataclass
class LeverStand(PoolStand):
    """A pool, and both configurations of each lever."""

    arms: dict[str, list[Proxy]] = field(default_factory=dict)


class Levers(Experiment):
    """Both configurations run at the same time and take turns, so what disturbs meets both."""

    name = "levers"
    title = "What a change of the gateway's configuration does to the cost of a request"
    help = "CPU per request of the gateway with one change each, compared with itself in pairs"
    rounds = 5
    seconds = 0.4

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--lanes", type=positive, default=1, metavar="N", help="lanes of a replica; default: 1"
        )
        parser.add_argument(
            "--rate", type=positive, metavar="N", help="requests/s of the open loop; default: found"
        )
        parser.add_argument(
            "--instructions",
            action="store_true",
            help="count instructions and cache misses by callgrind, once, instead of CPU time",
        )

    def tasks(self, plan: Plan) -> list[Task]:
        return [{"lever": name} for name in LEVERS]

    @contextmanager
    def stand(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[LeverStand]:
        with pooled(plan, plan.options.lanes) as pool:
            arms = {task["lever"]: LEVERS[task["lever"]].arms(pool) for task in tasks}
            stand = LeverStand(**vars(pool), arms=arms)
            shipped = proxies.envoy(SHIPPED, stand.rendered)
            if plan.options.instructions:
                stand.programs.tools.update(resolve.ensure(["valgrind"]))
            else:
                stand.facts["rate"] = plan.options.rate or rate(self, stand, shipped)
            yield stand

    def enough(self, rows: Sequence[Row], number: int, plan: Plan) -> bool:
        return plan.options.instructions or super().enough(rows, number, plan)

    def measure(self, stand: LeverStand, task: Task, number: int) -> Iterator[Row]:
        arms, cpus = list(stand.arms[task["lever"]]), [stand.cpus[0]]
        if stand.plan.options.instructions:
            yield from ({"arm": arm.name, **counted(arm, stand.programs, cpus)} for arm in arms)
            return
        draw = random.Random(f"{number} {task['lever']}")
        draw.shuffle(arms)
        with (
            running(arms[0], stand.programs, cpus) as first,
            running(arms[1], stand.programs, cpus) as second,
        ):
            turns = [(arms[0].name, first), (arms[1].name, second)]
            for pair, loop in product(range(PAIRS), LOOPS):
                for arm, process in draw.sample(turns, 2):
                    yield {"pair": pair, "arm": arm, **turn(self, stand, process, loop, pair)}

    def brief(self, row: Row) -> str:
        if "instructions" in row:
            return f"{row['arm']} {row['instructions']:,.0f}, {row['misses']:,.0f} misses"
        return f"{row['loop']} {row['arm']} {row['cpu_us']:.2f} µs, {row['wrong']} wrong"

    def page(self, record: Record) -> Page:
        page = Page(self.title, record, LEAD)
        page.points(page.quality())
        if record.plan["options"]["instructions"]:
            page.table(
                "",
                record.labels("lever"),
                ("change", lambda name: LEVERS[name].setting),
                ("instructions, %", lambda name: _change(record, "instructions", name)),
                ("cache misses, %", lambda name: _change(record, "misses", name)),
            )
            return page
        for loop, title in LOOPS.items():
            page.section(title)
            _table(page, record, loop)
        return page


def _table(page: Page, record: Record, loop: str) -> None:
    def change(figure: str) -> Callable[[str], str]:
        return lambda name: _change(record, figure, name, loop=loop)

    page.table(
        "",
        record.labels("lever"),
        ("change", lambda name: LEVERS[name].setting),
        ("gateway, %", change("cpu_us")),
        ("replicas, %", change("beside_us")),
        ("p99, %", change("latency_us.hello.99")),
        ("busiest lane / mean", lambda name: middle(_lanes(record, name, loop), 2)),
    )


def _change(record: Record, figure: str, lever: str, **where: object) -> str:
    """Median and quartiles of the pairs, in percent."""
    pairs = {row.get("pair") for row in record.select(lever=lever)}
    arms = {"arm": CHANGED}, {"arm": SHIPPED}
    found = [
        100 * (ratio - 1)
        for pair in pairs
        for ratio in record.ratios(figure, *arms, pair=pair, lever=lever, **where)
    ]
    if len(found) < 2:
        return "".join(f"{each:+.1f}" for each in found)
    low, half, high = quantiles(found, method="inclusive")
    return f"{half:+.1f} ({low:+.1f} to {high:+.1f})"


def _lanes(record: Record, lever: str, loop: str) -> list[float]:
    rows = record.select(lever=lever, loop=loop, arm=CHANGED)
    counts = [list(row["lanes"].values()) for row in rows]
    return [max(each) * record.plan["options"]["lanes"] / sum(each) for each in counts]


LEAD = """\
A figure is the change against the shipped configuration: the median of all pairs, with their quartiles in brackets.
The two Envoys of a pair have one CPU with one worker, both run, and they take turns in a random order. A
round starts both again. What is said of the pool, the load and the clocks in
[bench-gateway](bench-gateway.md#how-it-is-measured) holds here too."""
