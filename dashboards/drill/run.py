"""Runs drills in parallel, each in its own namespace."""

import sys
import time
import traceback
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from dashboards.drill import calm
from dashboards.drill.drills import Drill
from dashboards.drill.errors import Cancelled, DrillError
from dashboards.drill.place import Place
from dashboards.drill.verdict import OK, Track
from dashboards.drill.watch import Watch
from dashboards.live.platform import Platform

WORKERS = 6
"""Drills at once. They mostly wait, but their processes must not starve each other on few CPUs."""


@dataclass
class Outcome:
    """The outcome of a drill."""

    drill: Drill
    tracks: list[Track]
    also: list[str] = field(default_factory=list)
    """Other alerts that its cause fired."""


def run_all(watch: Watch, drills: Iterable[Drill], platform: Platform | None) -> list[Outcome]:
    """Runs them in parallel; the outcomes are in the order of the drills."""
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
    """Groups of drills that run one after another, the longest first."""
    busy = [each for each in drills if each.busy]
    whole = [each for each in drills if each.whole]
    others = [[each] for each in drills if not (each.busy or each.whole)]
    return [busy, whole, *sorted(others, key=lambda job: -job[0].longest)]


def _run_in_turn(watch: Watch, drills: list[Drill], platform: Platform | None) -> list[Outcome]:
    return [_run(each, _place(watch, each, platform)) for each in drills]


def _place(watch: Watch, drill: Drill, platform: Platform | None) -> Place:
    folder = watch.folder / drill.name
    if drill.whole:
        return Place(watch, calm.NAME, folder, platform)
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
    """Fired alerts that are not the drill's own."""
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
            # A list, because `all` would stop at the first that has not fired.
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
    """Whether the drill of an alert failed."""
    return any(track.verdict != OK for each in outcomes for track in each.tracks)
