"""Runs drills in parallel, each in its own namespace, after a quiet period.

In the quiet period, a healthy platform is under load and no alert may fire.
"""

import itertools
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from dashboards.drill.drills import Drill
from dashboards.drill.place import Place
from dashboards.drill.verdict import OK, Cancelled, DrillError, Track
from dashboards.drill.watch import NAMESPACE, Watch
from dashboards.live import node
from dashboards.live.platform import Options, Platform
from dashboards.live.stage import stage as live_stage
from stack.http import Client
from stack.load import Load

NAME = "quiet"

LASTS = 90.0

BEAT = 3.0
"""Seconds between changes in the API server, which give the gateway's agent something to read.
Without changes, the API server would respond only once a minute, and the factor does not divide
this interval.
"""


@dataclass(frozen=True)
class Quiet:
    seconds: float
    fired: tuple[str, ...]
    replies: int
    failures: tuple[str, ...]

    @property
    def failed(self) -> bool:
        return bool(self.fired or self.failures or not self.replies)


@contextmanager
def whole_platform(watch: Watch) -> Iterator[Platform]:
    # The platform's own Prometheus is also a target, but it evaluates no rules.
    with live_stage(Options(name=NAME, rules=(), interval=5.0)) as platform:
        place = Place(watch, NAME, watch.folder)
        beats = itertools.count()
        with place.again(lambda: _beat(platform, next(beats)), pause=BEAT):
            for job, pod, port in _targets(platform):
                place.scraped(job, port, pod, node=node.NAME)
            yield platform


def run(watch: Watch, platform: Platform) -> Quiet:
    """Runs the platform under load for a while. No alert may fire."""
    with ExitStack() as stack:
        loads = [stack.enter_context(load) for load in _loads(platform)]
        begun = time.monotonic()
        watch.within(lambda: False, LASTS)
        seconds = time.monotonic() - begun
        found = {
            *Place(watch, NAME, watch.folder).fired(),
            *Place(watch, NAMESPACE, watch.folder).fired(),
        }
    replies = sum(load.total for load in loads)
    failures = [failure for load in loads for failure in load.failures]
    return Quiet(seconds, tuple(sorted(found)), replies, tuple(failures))


def _targets(platform: Platform) -> Iterator[tuple[str, str, int]]:
    plan = platform.plan
    for name, server in platform.servers.items():
        yield "service", name, server.admin_port
    yield "gateway", "gateway", plan.topology.gateway_stats_port
    yield "gateway-agent", "gateway", plan.gateway_agent
    yield "node-tuning", "node-tuner", plan.node_tuning
    yield "prometheus", "prometheus", plan.topology.prometheus_port


def _loads(platform: Platform) -> Iterator[Load]:
    for path, rate in (
        ("/hello", 40),
        ("/div/4", 20),
        ("/static/4k.txt", 10),
        ("/projects?limit=5", 5),
    ):
        yield Load(platform.gateway, path, clients=2, rate=rate)
    trusting = partial(Client, authority=platform.run / "tls.crt")
    yield Load(platform.servers["edge-0"].url, clients=2, rate=10, connect=trusting)


def _beat(platform: Platform, number: int) -> None:
    platform.cluster.touch("server-0", number)


WORKERS = 6
"""Maximum concurrent drills. They mostly wait, but their processes must not starve each other on
few CPUs.
"""


@dataclass
class Outcome:
    drill: Drill
    tracks: list[Track]
    also: list[str] = field(default_factory=list)


def run_all(watch: Watch, drills: Iterable[Drill], platform: Platform | None) -> list[Outcome]:
    asked = list(drills)
    with ThreadPoolExecutor(WORKERS) as pool:
        found = [pool.submit(_run_in_turn, watch, job, platform) for job in jobs(asked)]
        try:
            outcomes = [outcome for future in found for outcome in future.result()]
        except BaseException:
            watch.cancelled.set()
            pool.shutdown(cancel_futures=True)
            raise
    return sorted(outcomes, key=lambda outcome: asked.index(outcome.drill))


def jobs(drills: list[Drill]) -> list[list[Drill]]:
    busy = [each for each in drills if each.busy]
    whole = [each for each in drills if each.whole]
    others = [[each] for each in drills if not (each.busy or each.whole)]
    return [busy, whole, *sorted(others, key=lambda job: -job[0].longest)]


def _run_in_turn(watch: Watch, drills: list[Drill], platform: Platform | None) -> list[Outcome]:
    return [_run(each, _place(watch, each, platform)) for each in drills]


def _place(watch: Watch, drill: Drill, platform: Platform | None) -> Place:
    folder = watch.folder / drill.name
    if drill.whole:
        return Place(watch, NAME, folder, platform)
    return Place(watch, f"drill-{drill.name}", folder)


def _run(drill: Drill, place: Place) -> Outcome:
    place.folder.mkdir()
    tracks = [Track(alert, drill.fires, drill.resolves) for alert in drill.alerts]
    outcome = Outcome(drill, tracks)
    try:
        try:
            _drill(place, drill, tracks)
            if not drill.whole:
                outcome.also = others(place.fired(), drill)
        finally:
            place.leave()
    except Cancelled:
        raise
    except Exception as error:  # noqa: BLE001 (it must not end the other drills)
        (place.folder / "error.log").write_text(traceback.format_exc())
        for track in tracks:
            track.error = f"failed: {error}".splitlines()[0]
    for track in tracks:
        _say(track)
    return outcome


def others(fired: Iterable[str], drill: Drill) -> list[str]:
    """Fired alerts other than the drill's own."""
    return sorted(each for each in fired if not {each, each.partition("/")[0]} & set(drill.alerts))


def _drill(place: Place, drill: Drill, tracks: list[Track]) -> None:
    watch = place.watch
    begun: list[float] = []

    def begins() -> None:
        begun.append(time.monotonic())
        for each in tracks:
            each.early = each.fires_in(watch.firing(), place.namespace)

    place.begins = begins
    with contextmanager(drill.cause)(place) as special:
        labels = {"namespace": place.namespace, **special}
        if not begun:
            raise DrillError("the cause did not call begins()")

        def all_fired() -> bool:
            firing, told = watch.firing(), watch.webhook.told()
            after = time.monotonic() - begun[0]
            # A list, because `all` would stop at the first alert that has not fired.
            looked = [each.look(firing, told, labels, after) for each in tracks]
            return all(looked)

        watch.within(all_fired, drill.fires)
        ended = time.monotonic()

    fired = [each for each in tracks if each.fired is not None]

    def all_gone() -> bool:
        firing, after = watch.firing(), time.monotonic() - ended
        looked = [each.gone(firing, labels, after) for each in fired]
        return all(looked)

    watch.within(all_gone, drill.resolves)


def _say(track: Track) -> None:
    times = [
        f"{word} after {seconds:.0f} s"
        for word, seconds in (("fired", track.fired), ("resolved", track.resolved))
        if seconds is not None
    ]
    print(f"{track.alert}: {', '.join([*times, track.verdict])}", file=sys.stderr, flush=True)


def failed(outcomes: Iterable[Outcome]) -> bool:
    return any(track.verdict != OK for each in outcomes for track in each.tracks)
