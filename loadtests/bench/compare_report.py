"""The report of `compare-direct`: tables, and a reading that follows from the figures."""

from collections.abc import Callable
from statistics import median

from loadtests.bench import ab, ports
from loadtests.bench.text import spread, table

INTRODUCTION = (
    "Written by `make bench BENCH=compare-direct`. A figure is the median of the rounds, with the lowest and the "
    "highest in brackets."
)
TITLES = {"close": "A new connection for each request", "keep-alive": "Connections kept alive"}
SIDES = {"direct": "Directly", "gateway": "Through the gateway"}
PARTS = {
    "ab": "ab",
    "replicas": "replicas",
    "gateway": "Envoy",
    "others": "other processes",
    "stolen": "taken by the hypervisor",
}

ORIGINAL = {50: (29, 31), 98: (257, 69), 99: (304, 101), 100: (729, 2216)}
"""Percent of the requests: milliseconds directly and through the proxy, as first published."""

FULL = 0.9
"""From this share of its CPU on, a part counts as being at its limit."""

NOISE = 0.05
"""Cores taken by others, from which on the reader is told."""

Sample = dict
Quantity = Callable[[Sample], float]


def wrong(record: dict) -> int:
    """Requests without the right answer in all rounds."""
    return sum(sample["wrong"] for sample in _samples(record))


def markdown(record: dict) -> str:
    """The whole report."""
    parts = [
        "# One replica directly, and the gateway over all replicas",
        INTRODUCTION,
        _setting(record),
        "## Reading",
        "\n".join(f"- {sentence}" for sentence in reading(record)),
    ]
    for mode, title in TITLES.items():
        parts += [f"## {title}", f"`{_command(record, mode)}`"]
        parts += [_times(record, mode), _costs(record, mode)]
    parts += ["## The original test", _original(), "## How it is measured", _method(record)]
    return "\n\n".join(parts) + "\n"


def reading(record: dict) -> list[str]:
    """What the figures say, in sentences."""
    sentences = []
    for mode, title in TITLES.items():
        p50, p99 = (
            _compared(_ratios(record, mode, _time(p)), "longer", "shorter") for p in (50, 99)
        )
        rate = _compared(_ratios(record, mode, _rate), "higher", "lower")
        envoy, replicas = (
            median(map(_cost(part), record["results"][mode]["gateway"]))
            for part in ("gateway", "replicas")
        )
        sentences.append(
            f"{title}: through the gateway the median time is {p50}, the 99th percentile {p99}, "
            f"the requests/s {rate}. {' '.join(_limit(record, mode, side) for side in SIDES)} "
            f"A request through the gateway costs Envoy {envoy:.0f} µs of CPU and its replica "
            f"{replicas:.0f} µs."
        )
    there = ORIGINAL[99][1] / ORIGINAL[99][0]
    here = spread(_ratios(record, "close", _time(99)), 2)
    sentences.append(
        f"The 99th percentile through the proxy was {there:.2f} times the direct one in the "
        f"original test; here it is {here} times."
    )
    return [*sentences, _disturbance(record), _failures(record)]


def _compared(ratios: list[float], more: str, less: str) -> str:
    if min(ratios) <= 1 <= max(ratios):
        return f"the same within the spread ({spread(ratios, 2)} times)"
    return f"{more if median(ratios) > 1 else less}: {spread(ratios, 2)} times the direct one"


def _limit(record: dict, mode: str, side: str) -> str:
    """Which part had no CPU left."""
    samples = record["results"][mode][side]
    busy = {part: median(map(_busy(part), samples)) for part in PARTS}
    total, cores = sum(busy.values()), record["machine"]["cores"]
    full = []
    if busy["ab"] >= FULL:
        full.append(f"ab's one thread ({busy['ab']:.2f} cores)")
    if side == "direct" and busy["replicas"] >= FULL:
        full.append(f"the replica's lane ({busy['replicas']:.2f} cores)")
    if total >= FULL * cores:
        full.append(f"the machine ({total:.2f} of {cores} cores, ab's included)")
    if not full:
        return f"{SIDES[side]} nothing was at its limit ({total:.2f} of {cores} cores busy)."
    return f"{SIDES[side]} the limit was {' and '.join(full)}."


def _disturbance(record: dict) -> str:
    shares = [_busy("others")(s) + _busy("stolen")(s) for s in _samples(record)]
    counted = {name: sum(s["kernel"][name] for s in _samples(record)) for name in ports.COUNTERS}
    happened = ", ".join(f"{n} {ports.COUNTERS[name]}" for name, n in counted.items() if n)
    noise = (
        f"Other processes and the hypervisor took {median(shares):.2f} cores in the median round "
        f"and {max(shares):.2f} in the worst, "
        + ("which may show in the tails." if max(shares) >= NOISE else "next to nothing.")
    )
    return f"{noise} The kernel counted {happened or 'no lost or repeated connection attempt'}."


def _failures(record: dict) -> str:
    failed, total = wrong(record), sum(sample["complete"] for sample in _samples(record))
    return f"{failed or 'None'} of {total:,} requests failed or had a status other than 2xx."


def _setting(record: dict) -> str:
    machine, versions, load = record["machine"], record["versions"], record["load_average"]
    pinned = "each pinned to its own core" if record["pinned"] else "sharing the cores"
    rows = {
        "date": machine["date"],
        "machine": f"{machine['cpu']}, {machine['cores']} cores, {machine['kernel']}",
        "versions": f"Envoy {versions['envoy']}, ab {versions['ab']}, sources {machine['sources']}",
        "platform": f"{record['replicas']} replicas of one lane, {pinned}; Envoy with a worker for "
        f"each core and its access log on; ab on the same machine. Direct is {record['direct']}",
        "load average": f"{_load(load['before'])} before, {_load(load['after'])} after",
    }
    return table(["", ""], [[name, text] for name, text in rows.items()])


def _load(averages: list[float]) -> str:
    return " ".join(f"{average:.2f}" for average in averages)


def _command(record: dict, mode: str) -> str:
    plan = record["plan"]
    arguments = ab.arguments(plan["requests"], plan["concurrency"], mode == "keep-alive")
    return " ".join(["ab", *arguments, f"http://ADDRESS{plan['path']}"])


def _times(record: dict, mode: str) -> str:
    rows = [_row(record, mode, f"{percent} %", _time(percent), digits=1) for percent in ab.PERCENTS]
    return table(["requests served within", "direct, ms", "gateway, ms", "gateway / direct"], rows)


def _costs(record: dict, mode: str) -> str:
    rows = [
        _row(record, mode, "requests/s", _rate, digits=0),
        _row(record, mode, "CPU of replicas, µs/request", _cost("replicas"), digits=1),
        _plain(record, mode, "CPU of Envoy, µs/request", _cost("gateway"), digits=1),
        _row(record, mode, "CPU of ab, µs/request", _cost("ab"), digits=1),
    ]
    for part, name in PARTS.items():
        rows.append(_plain(record, mode, f"cores busy: {name}", _busy(part), digits=2))
    for label, key in (
        ("failed requests", "failed"),
        ("write errors", "write_errors"),
        ("replies other than 2xx", "non_2xx"),
    ):
        sums = [str(sum(s[key] for s in record["results"][mode][side])) for side in SIDES]
        rows.append([f"{label}, all rounds", *sums, ""])
    return table(["", "direct", "gateway", "gateway / direct"], rows)


def _row(record: dict, mode: str, label: str, quantity: Quantity, digits: int) -> list[str]:
    row = _plain(record, mode, label, quantity, digits)
    return [*row[:-1], spread(_ratios(record, mode, quantity), 2)]


def _plain(record: dict, mode: str, label: str, quantity: Quantity, digits: int) -> list[str]:
    """A row without a ratio, where the direct side has nothing to compare with."""
    sides = (record["results"][mode][side] for side in SIDES)
    return [label, *(spread(list(map(quantity, samples)), digits) for samples in sides), ""]


def _original() -> str:
    rows = [
        [f"{percent} %", str(direct), str(proxy), f"{proxy / direct:.2f}"]
        for percent, (direct, proxy) in ORIGINAL.items()
    ]
    figures = table(["requests served within", "direct, ms", "proxy, ms", "proxy / direct"], rows)
    return (
        "Julia processes behind nginx under the same ab command, on another machine: only its "
        f"ratios can be set beside those above.\n\n{figures}"
    )


def _method(record: dict) -> str:
    return (
        f"After a warm-up, direct and gateway take turns ({record['plan']['rounds']} rounds), each "
        "without and with keep-alive. The ratio is taken within each round, so that a slow phase of "
        "the machine meets both. Times are ab's own, from its file of percentiles (`-e`), which "
        "does not round to milliseconds. CPU times are the kernel's CPU clock of each process, "
        "threads that ended included.\n\n"
        "Without keep-alive, each round opens one connection per request. The server closes "
        "first, so the waiting time of closed connections (TIME_WAIT) is spent on its side and "
        f"the client's ports are free at once; a round starts only when at most {ports.MOST_HELD} "
        "of them are held. Repeated SYNs, dropped connections and overflows of the TIME_WAIT table "
        "are counted and told above."
    )


def _time(percent: int) -> Quantity:
    return lambda sample: sample["percentiles"][str(percent)]


def _rate(sample: Sample) -> float:
    return sample["requests_per_second"]


def _cost(part: str) -> Quantity:
    return lambda sample: sample["cpu_us_per_request"][part]


def _busy(part: str) -> Quantity:
    return lambda sample: sample["cores_busy"][part]


def _samples(record: dict) -> list[Sample]:
    return [
        s for sides in record["results"].values() for samples in sides.values() for s in samples
    ]


def _ratios(record: dict, mode: str, quantity: Quantity) -> list[float]:
    sides = record["results"][mode]
    pairs = zip(sides["direct"], sides["gateway"], strict=True)
    return [quantity(gateway) / quantity(direct) for direct, gateway in pairs]
