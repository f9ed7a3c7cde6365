"""`settings`: what one change of the gateway's configuration does to the CPU time of a request, in pairs."""

import argparse
import copy
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from statistics import quantiles

from loadtests.bench.experiment.base import Experiment
from loadtests.bench.experiment.page import Page, middle
from loadtests.bench.experiment.plan import Plan, Row, Task
from loadtests.bench.experiment.record import Record
from loadtests.bench.experiment.servers import running
from loadtests.bench.gateway import proxies
from loadtests.bench.gateway.counted import counted
from loadtests.bench.gateway.experiment import LOOPS, rate, turn
from loadtests.bench.gateway.proxies import PoolBed, Proxy, connection_manager, pooled
from loadtests.bench.options import positive
from stack import HOST
from tools import resolve

PAIRS = 4
"""Turns of each configuration between a start and the end of both."""

SHIPPED, CHANGED = "shipped", "changed"

Patch = dict[str, object]


@dataclass(frozen=True)
class Change:
    """Other values of the chart, or patches (RFC 7396) of the parts of Envoy's configuration."""

    setting: str
    values: dict[str, object] = field(default_factory=dict)
    patches: dict[str, Patch] = field(default_factory=dict)
    against: dict[str, object] = field(default_factory=dict)
    """Values of what it is compared with, where that is not the shipped configuration."""

    def arms(self, bed: PoolBed) -> list[Proxy]:
        """The configuration without the change and with it."""
        base, config = (
            proxies.configuration(bed.programs.tools, bed.endpoints, more=values)
            if values
            else copy.deepcopy(bed.rendered)
            for values in (self.against, self.values)
        )
        parts = _parts(config)
        for name, patch in self.patches.items():
            for part in parts[name]:
                _merge(part, patch)
        return [proxies.envoy(SHIPPED, base), proxies.envoy(CHANGED, config)]


def _merge(target: Patch, patch: Patch) -> None:
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict) and isinstance(target.get(name), dict):
            _merge(target[name], value)
        else:
            target[name] = copy.deepcopy(value)


def _parts(config: dict) -> dict[str, list[dict]]:
    """What a change patches. `routes` are the actions of those that forward."""
    manager, (cluster, *_) = connection_manager(config), config["static_resources"]["clusters"]
    (protocol,) = cluster["typed_extension_protocol_options"].values()
    routes = manager["route_config"]["virtual_hosts"][0]["routes"]
    return {
        "top": [config],
        "manager": [manager],
        "table": [manager["route_config"]],
        "cluster": [cluster],
        "protocol": [protocol],
        "routes": [route["route"] for route in routes if "route" in route],
    }


def _http2(streams: int) -> dict[str, object]:
    return {"upstream": {"protocol": "http2", "http2Streams": streams}}


def _traced(*, attempts: bool) -> dict[str, object]:
    """No collector is needed where nothing is sampled."""
    known = {"enabled": True, "host": HOST, "protocol": "http", "percent": 0}
    return {"tracing": {**known, "attempts": attempts}}


TIMERS = {"stream_idle_timeout": "0s", "request_timeout": "0s", "request_headers_timeout": "0s"}
PATHS = ("normalize_path", "merge_slashes", "path_with_escaped_slashes_action")
LIMIT = {"requests": 1_000_000, "burst": 1_000_000}

CHANGES = {
    "nothing": Change("the same again: noise"),
    # With 64 requests in flight at two replicas: connections to each of them.
    **{
        f"HTTP/2 on {32 // streams}": Change(f"`http2Streams: {streams}`", _http2(streams))
        for streams in (32, 16, 8, 4, 2)
    },
    **{
        f"{streams} streams": Change(
            f"`http2Streams: {streams}`, against 2", _http2(streams), against=_http2(2)
        )
        for streams in (4, 8, 16)
    },
    "no HTTP/1.0": Change("`listener.http10: false`", {"listener": {"http10": False}}),
    "no body limit": Change("`listener.bodyBytes: 0`", {"listener": {"bodyBytes": 0}}),
    "rate limits": Change(
        "`rateLimit.enabled` with `perClient`",
        {"rateLimit": {"enabled": True, **LIMIT, "perClient": {**LIMIT, "addresses": 1000}}},
    ),
    "no statistics of replies": Change("`stats.replies: false`", {"stats": {"replies": False}}),
    "no judgement of replies": Change(
        "`upstream.outliers.failurePercent: 0`", {"upstream": {"outliers": {"failurePercent": 0}}}
    ),
    "no access log": Change("`accessLog.enabled: false`", {"accessLog": {"enabled": False}}),
    "tracing": Change("`tracing.enabled`, no request sampled", _traced(attempts=False)),
    "no spans of attempts": Change(
        "`tracing.attempts: false`, against `true`",
        _traced(attempts=False),
        against=_traced(attempts=True),
    ),
    "no retries": Change("no `retry_policy`", patches={"routes": {"retry_policy": None}}),
    "no timers": Change(
        "each timer of requests `0s`",
        patches={"manager": TIMERS, "routes": {"idle_timeout": "0s", "flush_timeout": None}},
    ),
    "no request ID": Change(
        "`generate_request_id: false`", patches={"manager": {"generate_request_id": False}}
    ),
    "no X-Forwarded-For": Change(
        "`skip_xff_append`", patches={"manager": {"skip_xff_append": True}}
    ),
    "paths as they come": Change(
        "no `normalize_path`, `merge_slashes`, escaped slashes",
        patches={"manager": dict.fromkeys(PATHS)},
    ),
    "load reports pass": Change(
        "no `response_headers_to_remove`", patches={"table": {"response_headers_to_remove": None}}
    ),
    "no statistics": Change(
        "`stats_matcher.reject_all`",
        patches={
            "top": {"stats_config": {"stats_matcher": {"reject_all": True, "inclusion_list": None}}}
        },
    ),
    "no circuit breakers": Change(
        "no `circuit_breakers`", patches={"cluster": {"circuit_breakers": None}}
    ),
    "no pool idle timer": Change(
        "upstream `idle_timeout: 0s`",
        patches={"protocol": {"common_http_protocol_options": {"idle_timeout": "0s"}}},
    ),
}


@dataclass
class SettingsBed(PoolBed):
    """A pool, and both configurations of each change."""

    arms: dict[str, list[Proxy]] = field(default_factory=dict)


class Settings(Experiment):
    """Both configurations run at the same time and take turns, so what disturbs meets both."""

    name = "settings"
    title = "What a change of the gateway's configuration does to the cost of a request"
    help = "CPU per request of the gateway with one change each, compared with itself in pairs"
    lead = "The median change of all pairs, with their quartiles in brackets. The method: gateway/cost.md."
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
        return [{"change": name} for name in CHANGES]

    @contextmanager
    def test_bed(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[SettingsBed]:
        with pooled(plan, plan.options.lanes) as pool:
            arms = {task["change"]: CHANGES[task["change"]].arms(pool) for task in tasks}
            bed = SettingsBed(**vars(pool), arms=arms)
            if plan.options.instructions:
                bed.programs.tools.update(resolve.ensure(["valgrind"]))
            else:
                shipped = proxies.envoy(SHIPPED, bed.rendered)
                bed.facts["rate"] = plan.options.rate or rate(self, bed, shipped)
            yield bed

    def enough(self, rows: Sequence[Row], number: int, plan: Plan) -> bool:
        return plan.options.instructions or super().enough(rows, number, plan)

    def measure(self, bed: SettingsBed, task: Task, number: int) -> Iterator[Row]:
        arms, cpus = list(bed.arms[task["change"]]), [bed.cpus[0]]
        if bed.plan.options.instructions:
            yield from ({"arm": arm.name, **counted(arm, bed.programs, cpus)} for arm in arms)
            return
        draw = random.Random(f"{number} {task['change']}")
        draw.shuffle(arms)
        with (
            running(arms[0], bed.programs, cpus) as first,
            running(arms[1], bed.programs, cpus) as second,
        ):
            turns = [(arms[0].name, first), (arms[1].name, second)]
            for pair, loop in product(range(PAIRS), LOOPS):
                for arm, process in draw.sample(turns, 2):
                    yield {"pair": pair, "arm": arm, **turn(self, bed, process, loop, pair)}

    def brief(self, row: Row) -> str:
        if "instructions" in row:
            return f"{row['arm']} {row['instructions']:,.0f}, {row['misses']:,.0f} misses"
        return f"{row['loop']} {row['arm']} {row['cpu_us']:.2f} µs, {row['wrong']} wrong"

    def report(self, page: Page, record: Record) -> None:
        def change(figure: str, **where: str) -> Callable[[str], str]:
            return lambda name: _change(record, figure, name, **where)

        setting = ("setting", lambda name: CHANGES[name].setting)
        if record.plan["options"]["instructions"]:
            columns = (
                ("instructions, %", change("instructions")),
                ("cache misses, %", change("misses")),
            )
            page.table("", record.labels("change"), setting, *columns)
            return
        for loop, title in LOOPS.items():
            page.section(title)
            page.table(
                "",
                record.labels("change"),
                setting,
                ("gateway, %", change("cpu_us", loop=loop)),
                ("replicas, %", change("beside_us", loop=loop)),
                ("p99, %", change("latency_us.hello.99", loop=loop)),
                (
                    "busiest lane / mean",
                    lambda name, loop=loop: middle(_lanes(record, name, loop), 2),
                ),
            )


def _change(record: Record, figure: str, change: str, **where: object) -> str:
    """Median and quartiles of the pairs, in percent."""
    pairs = {row.get("pair") for row in record.select(change=change)}
    arms = {"arm": CHANGED}, {"arm": SHIPPED}
    found = [
        100 * (ratio - 1)
        for pair in pairs
        for ratio in record.ratios(figure, *arms, pair=pair, change=change, **where)
    ]
    if len(found) < 2:
        return "".join(f"{each:+.1f}" for each in found)
    low, half, high = quantiles(found, method="inclusive")
    return f"{half:+.1f} ({low:+.1f} to {high:+.1f})"


def _lanes(record: Record, change: str, loop: str) -> list[float]:
    rows = record.select(change=change, loop=loop, arm=CHANGED)
    counts = [list(row["lanes"].values()) for row in rows]
    return [max(each) * record.plan["options"]["lanes"] / sum(each) for each in counts]
