"""What the figures of a record say, in sentences."""

from collections.abc import Callable, Iterator
from statistics import median

from loadtests.bench.lanes.rows import PLACEMENTS
from loadtests.bench.machine import others
from loadtests.bench.moving import cost, hot, judging, often
from loadtests.bench.moving.bench import Sample
from loadtests.bench.moving.hot import p
from loadtests.bench.moving.through import MODES
from loadtests.bench.text import spread

MOVE_TARGET = 10.0
"""Microseconds that a move may cost."""

Results = dict[str, list[Sample]]
Figure = Callable[[Sample], float]


def wrong(record: dict) -> int:
    """Requests without the right answer."""
    return sum(sample["wrong"] for sample in _samples(record))


def brief(part: str, sample: Sample) -> str:
    """One sample in a line, for who watches."""
    wrongs = f"{sample['wrong']} wrong"
    if part in ("hot", "gateway"):
        return (
            f"{sample['requests_per_second']:,.0f} requests/s, p50 {p(sample, '50'):.2f}, p99 {p(sample, '99'):.2f} ms, "
            f"{sample['hotter_share']:.0%} on one lane, {sample['moves']} moves, {wrongs}"
        )
    text = f"{sample['cpu_us']:.2f} µs/request, {wrongs}"
    return f"{text}, {sample['moves']:,} moves" if "moves" in sample else text


def sentences(record: dict) -> list[str]:
    """All of them."""
    found = [
        sentence for part, results in record["results"].items() for sentence in PARTS[part](results)
    ]
    samples = list(_samples(record))
    total = sum(sample["requests"] for sample in samples)
    shares = [
        sample["others_cores"] + sample["stolen_cores"]
        for sample in samples
        if "others_cores" in sample
    ]
    found.append(f"{wrong(record) or 'None'} of {total:,} requests got a wrong answer or none.")
    return [*found, *([others(shares)] if shares else [])]


def ratios(results: Results, name: str, base: str, figure: Figure) -> list[float]:
    """A figure of one arm in that of another, within each round."""
    pairs = zip(results[name], results[base], strict=True)
    return [figure(mine) / figure(other) for mine, other in pairs]


def rate(sample: Sample) -> float:
    """What was answered in a second."""
    return sample["requests_per_second"]


def p50(sample: Sample) -> float:
    """The median in milliseconds."""
    return p(sample, "50")


def p99(sample: Sample) -> float:
    """The 99th percentile in milliseconds."""
    return p(sample, "99")


def _hot(results: Results) -> list[str]:
    closed = {name: f"closed: {name}" for name in (hot.STUCK, hot.MOVED, hot.EVEN, hot.EVEN_ACTIVE)}
    opened = {name: f"open: {name}" for name in closed}
    gain = ratios(results, closed[hot.MOVED], closed[hot.STUCK], rate)
    kept = ratios(results, closed[hot.MOVED], closed[hot.EVEN], rate)
    tail = ratios(results, opened[hot.MOVED], opened[hot.STUCK], p99)
    even = ratios(results, opened[hot.MOVED], opened[hot.EVEN], p99)
    crowd = {name: f"many: {name}" for name in (hot.CROWDED, hot.SPREAD, hot.SPREAD_EVEN)}
    typical = ratios(results, crowd[hot.SPREAD], crowd[hot.CROWDED], p50)
    evened = ratios(results, crowd[hot.SPREAD], crowd[hot.SPREAD_EVEN], p50)
    calm = [
        sample["moves_before"] + sample["moves"]
        for name in (closed, opened)
        for sample in results[name[hot.EVEN_ACTIVE]]
    ]
    return [
        (
            f"{hot.CONNECTIONS} connections on one of two lanes, closed loop: with `active` they get {spread(gain, 2)} "
            f"times the requests/s of `off`, and {spread(kept, 2)} times those of connections that were evenly placed."
        ),
        (
            f"The same at {hot.RATE:,} requests/s: the p99 is {spread(tail, 2)} times that of `off`, and "
            f"{spread(even, 2)} times that of evenly placed ones."
        ),
        (
            f"{hot.MANY} connections that keep both lanes busy, three quarters of them on one: the p50 is {spread(typical, 2)} "
            f"times that of `off`, and {spread(evened, 2)} times that of evenly placed ones."
        ),
        f"Where {hot.CONNECTIONS} were even from the begin, `active` moved {spread(calm, 0)} connections in a run.",
    ]


def _gateway(results: Results) -> list[str]:
    found = []
    for placement in PLACEMENTS:
        arms = {mode: results[f"{placement}, {mode}"] for mode in MODES}
        shares = [
            f"`{mode}` {spread([100 * sample['hotter_share'] for sample in samples], 0)}%"
            for mode, samples in arms.items()
        ]
        tails = [f"`{mode}` {spread(list(map(p99, samples)), 1)}" for mode, samples in arms.items()]
        found.append(
            f"Envoy's default pools, placement {placement}: the hotter lane serves {', '.join(shares)}; the p99 is "
            f"{', '.join(tails)} ms."
        )
    return found


def _cost(results: Results) -> list[str]:
    found = []
    for spread_over in cost.SPREADS:
        parking, moving = (of(results, spread_over) for of in (cost.of_parking, cost.of_moving))
        text = f"{spread_over.capitalize()}: a park and a wake cost {spread(parking, 1)} µs of CPU together"
        if not moving:
            found.append(f"{text}; nothing moved, so what a move costs is not known.")
            continue
        moves = sum(sample["moves"] for sample in results[f"{spread_over}: {cost.MOVING}"])
        met = "meets" if median(moving) < MOVE_TARGET else "misses"
        found.append(
            f"{text}; a move {spread(moving, 1)} µs more, over {moves:,} moves, which {met} the target of "
            f"{MOVE_TARGET:g}."
        )
    return found


def _busy(results: Results) -> list[str]:
    return [_busy_one(results, name) for name in results if name != judging.base_of(name)]


def _busy_one(results: Results, name: str) -> str:
    asked, _, arm = name.rpartition(": ")
    samples, base = results[name], results[judging.base_of(name)]
    said = judging.SAID[judging.judged(results, name).verdict]
    return (
        f"Busy connections, {asked}, {arm}: CPU per request {judging.percent(samples, base, 'cpu_us')} % of "
        f"`{judging.BASE}` in {len(samples)} rounds. Within ± {judging.MARGIN:g}%: **{said}**."
    )


def _often(results: Results) -> list[str]:
    found = []
    for name in (often.PARKED, often.MOVING):
        cpu = ratios(results, name, often.AWAKE, lambda sample: sample["cpu_us"])
        tail = ratios(
            results, name, often.AWAKE, lambda sample: sample["latency_us"]["hello"]["99"]
        )
        memory = ratios(results, name, often.AWAKE, lambda sample: sample["kib_per_connection"])
        found.append(
            f"Connections that ask once in a while, {name}: {spread(cpu, 2)} times the CPU of those that stay awake, "
            f"{spread(tail, 2)} times their p99, {spread(memory, 2)} times their memory."
        )
    return found


PARTS = {"hot": _hot, "gateway": _gateway, "cost": _cost, "busy": _busy, "often": _often}


def _samples(record: dict) -> Iterator[Sample]:
    for results in record["results"].values():
        for samples in results.values():
            yield from samples
