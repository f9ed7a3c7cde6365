"""The simulated autoscaler has the rules of Kubernetes, and a fleet does what its load asks."""

import pytest

from loadtests.bench.autoscaling import fleet
from loadtests.bench.autoscaling.courses import COURSES, Course, line
from loadtests.bench.autoscaling.fleet import Mix, Policy, World
from loadtests.bench.autoscaling.policy import (
    UP,
    Autoscaler,
    Direction,
    Reading,
    by_average,
    by_number,
)

# The simulation belongs to a benchmark, which only developers run.
pytestmark = pytest.mark.nightly

MIX = Mix(0.001, (0.1, 0.8, 0.9, 0.99), (1.0, 1.0, 0.99, 0.5), (1.0, 0.9, 0.8, 0.2), 0.7)
DEAR = Mix(0.002, MIX.used, MIX.in_time, MIX.halved, 0.7)
MIXES = (MIX, DEAR)
REQUIRED = Policy(fleet.by_required, down=Direction(window=60, percent=50, period=60))
BLIND = Policy(lambda _world, state, _mix: state.count)


@pytest.mark.parametrize(
    ("reading", "current", "wanted"),
    [
        # 10 replicas with 0.7 each and a target of 0.5.
        (Reading(7.0, 10), 10, 14),
        (Reading(5.4, 10), 10, 10),
        (Reading(3.0, 10), 10, 6),
        # Those that start do nothing yet: 7.0 by 14 is the target.
        (Reading(7.0, 10, unready=4), 14, 14),
        # Of those without a metric, nothing when it rises, and the target when it falls.
        (Reading(7.0, 8, missing=2), 10, 14),
        (Reading(3.0, 8, missing=2), 10, 8),
        (Reading(0.0, 0, unready=2), 2, 2),
    ],
)
def test_an_average_of_pods(reading: Reading, current: int, wanted: int) -> None:
    assert by_average(reading, 0.5, current) == wanted


@pytest.mark.parametrize(
    ("total", "current", "wanted"), [(12, 10, 12), (11, 10, 10), (9, 10, 10), (8, 10, 8)]
)
def test_a_number_of_replicas(total: int, current: int, wanted: int) -> None:
    assert by_number(total, current) == wanted


def test_it_goes_up_at_once_by_what_a_period_allows() -> None:
    scaler = Autoscaler(1, 100)
    assert scaler.sync(0, 3, 50) == 7, "4 pods are more than 100%"
    assert scaler.sync(15, 7, 50) == 14
    assert scaler.sync(20, 14, 50) == 14, "the same period"
    assert Autoscaler(1, 40).sync(0, 30, 50) == 40, "the maximum"


def test_it_goes_down_when_a_window_has_wanted_no_more() -> None:
    scaler = Autoscaler(2, 100, UP, Direction(window=60, percent=50, period=60))
    assert scaler.sync(0, 40, 40) == 40
    assert scaler.sync(30, 40, 4) == 40
    assert scaler.sync(60, 40, 4) == 20, "half in a period"
    assert scaler.sync(75, 20, 4) == 20
    assert scaler.sync(120, 20, 1) == 10
    assert scaler.sync(180, 10, 30) == 20, "up again at once"


def outcome(course: Course, policy: Policy = REQUIRED, seed: int = 1) -> fleet.Outcome:
    """A course in a fleet of 50."""
    return fleet.run(World(), course, policy, 50, MIXES, seed)


def test_a_fleet_follows_its_load() -> None:
    found = outcome(Course("", "", 30, 4, line((0, 1), (10, 4), (20, 4), (20, 1), (30, 1))))
    least = fleet.clairvoyant(World(), Course("", "", 1, 1, lambda _: 1.0), 50, MIXES)
    assert least == [51] * 60, "one is spare"
    assert found.share > 0.99 and found.shed == 0 and found.reversals == 1
    # 0.7 instead of the 0.89 with 99.5% in time, more by the tolerance, and a spare one.
    assert 50 < max(found.counts) < 80
    assert found.counts[-1] < 30
    assert outcome(COURSES[0]) == outcome(COURSES[0]), "the same seed"
    assert outcome(COURSES[0], seed=2).requests != outcome(COURSES[0]).requests


def test_without_an_autoscaler_requests_are_late_and_shed() -> None:
    twice = Course("", "", 10, 2, line((0, 1), (5, 1), (5, 2), (10, 2)))
    left = outcome(twice, BLIND)
    assert set(left.counts) == {26}
    assert left.share < 0.4 and left.shed > 0.2 * left.requests
    followed = outcome(twice)
    assert followed.share > 0.85 and followed.shed < 0.2 * left.shed


def test_a_blind_autoscaler_changes_nothing() -> None:
    grows = line((0, 1), (5, 1), (10, 1.5), (15, 1.5))
    course = Course("", "", 15, 1.5, grows, blind=lambda minute: minute < 10)
    counts = outcome(course).counts
    assert len(set(counts[:600])) == 1 and counts[-1] > counts[0]


def test_a_dearer_mix_and_slow_replicas_need_more() -> None:
    dear = Course("", "", 10, 2, lambda _: 1.0, dear=lambda minute: minute >= 5)
    assert outcome(dear).counts[-1] > 1.6 * outcome(dear).counts[0]
    slow = Course("", "", 1, 1, lambda _: 1.0, slow=lambda _: True)
    assert fleet.clairvoyant(World(), slow, 50, MIXES)[0] > 51
