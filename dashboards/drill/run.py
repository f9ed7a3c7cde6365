"""Runs drills side by side, each in a namespace of its own."""

import sys
import threading
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
from dashboards.drill.stage import Stage
from dashboards.drill.verdict import OK, Track, split
from dashboards.live.platform import Platform

_one_at_a_time = threading.Lock()

WORKERS = 6
"""Drills at once. They mostly wait, but their processes must not starve each other on few CPUs."""


@dataclass
class Outcome:
    """What a drill came to."""

    drill: Drill
    tracks: list[Track]
    also: list[str] = field(default_factory=list)
    """Other alerts that its cause brought."""


def run_all(stage: Stage, drills: Iterable[Drill], platform: Platform | None) -> list[Outcome]:
    """Runs them, those that take longest first; the outcomes in the order of the drills."""
    asked = list(drills)
    longest = sorted(asked, key=lambda each: -(each.fires + each.resolves))
    with ThreadPoolExecutor(WORKERS) as pool:
        found = {each.name: pool.submit(run_one, stage, each, platform) for each in longest}
        try:
            return [found[each.name].result() for each in asked]
        except BaseException:
            stage.cancelled.set()
            pool.shutdown(cancel_futures=True)
            raise


def run_one(stage: Stage, drill: Drill, platform: Platform | None) -> Outcome:
    """Runs one drill from its first process to its last."""
    if not drill.whole:
        return _run(drill, Place(stage, f"drill-{drill.name}", stage.folder / drill.name))
    with _one_at_a_time:
        return _run(drill, Place(stage, calm.NAME, stage.folder / drill.name, platform))


def _run(drill: Drill, place: Place) -> Outcome:
    place.folder.mkdir()
    tracks = [Track(alert, drill.fires, drill.resolves) for alert in drill.alerts]
    outcome = Outcome(drill, tracks)
    try:
        try:
            _drill(place, drill, tracks)
            if not drill.whole:
                named = {split(alert)[0] for alert in drill.alerts}
                outcome.also = sorted(place.fired() - named)
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


def _drill(place: Place, drill: Drill, tracks: list[Track]) -> None:
    stage = place.stage
    begun: list[float] = []

    def begins() -> None:
        begun.append(time.monotonic())
        for each in tracks:
            each.early = each.fires_in(stage.firing(), place.namespace)

    place.begins = begins
    with contextmanager(drill.cause)(place) as special:
        labels = {"namespace": place.namespace, **special}
        if not begun:
            raise DrillError("the cause has not said when it begins")

        def all_fired() -> bool:
            firing, told = stage.firing(), stage.webhook.told()
            after = time.monotonic() - begun[0]
            # Every one of them, not only until the first that has not fired.
            looked = [each.look(firing, told, labels, after) for each in tracks]
            return all(looked)

        stage.within(all_fired, drill.fires)
        ended = time.monotonic()

    fired = [each for each in tracks if each.fired is not None]

    def all_gone() -> bool:
        firing, after = stage.firing(), time.monotonic() - ended
        looked = [each.gone(firing, labels, after) for each in fired]
        return all(looked)

    stage.within(all_gone, drill.resolves)


def _say(track: Track) -> None:
    times = [
        f"{word} after {seconds:.0f} s"
        for word, seconds in (("fired", track.fired), ("resolved", track.resolved))
        if seconds is not None
    ]
    print(f"{track.alert}: {', '.join([*times, track.verdict])}", file=sys.stderr, flush=True)


def failed(outcomes: Iterable[Outcome]) -> bool:
    """Whether an alert did not do what it is for."""
    return any(track.verdict != OK for each in outcomes for track in each.tracks)
