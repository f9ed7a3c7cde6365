"""The report of `moving`: what was gained and what it costs, and how that is measured."""

from collections.abc import Sequence
from statistics import median

from loadtests.bench.moving import busy, cost, hot, judging, often, pressure, reading, through
from loadtests.bench.moving.bench import WORK_MS, Sample
from loadtests.bench.moving.hot import p
from loadtests.bench.moving.reading import Results
from loadtests.bench.moving.replica import OUTCOMES
from loadtests.bench.text import spread, table
from loadtests.compare import verdict

STUDY = (
    "The study that came before this, on a shared machine: closed loop 4,411 requests/s with all on lane 0, 8,036 "
    "moved, 8,469 even; open loop p99 45, 2.9 and 3.5 ms; 64 connections p50 12.9 ms where only busy lanes were evened out, "
    "7.0 ms even."
)


def markdown(record: dict) -> str:
    """The whole report."""
    parts = [
        "# Parked and moving connections",
        (
            "Written by `make bench BENCH=moving`. A figure is the median of the rounds, with the lowest and the highest in "
            "brackets; a ratio is taken within each round."
        ),
        _setting(record),
        "![Requests/s, p99 and the hotter lane's share](bench-moving.svg)",
        "## Reading",
        "\n".join(f"- {sentence}" for sentence in reading.sentences(record)),
    ]
    for part, results in record["results"].items():
        title, body = PARTS[part]
        parts += [f"## {title}", body(record, results)]
    return "\n\n".join(parts) + "\n"


def _setting(record: dict) -> str:
    about, load = record["machine"], record["load_average"]
    before, after = (" ".join(f"{value:.2f}" for value in load[when]) for when in load)
    rows = {
        "command": f"`{record['command']}`",
        "date": about["date"],
        "machine": f"{about['cpu']}, {about['cores']} cores, {about['kernel']}",
        "sources": about["sources"],
        "versions": ", ".join(f"{name} {version}" for name, version in record["versions"].items()),
        "build": f"cargo's profile {record['profile']}",
        "priority": "ahead of other processes" if record["ahead"] else "the usual one",
        "in all": f"{record['seconds'] / 60:.1f} minutes",
        "load average": f"{before} before, {after} after",
    }
    return table(["", ""], [[name, text] for name, text in rows.items()])


def _column(samples: Sequence[Sample], name: str, digits: int, scale: float = 1.0) -> str:
    return spread([scale * sample[name] for sample in samples], digits)


def _latency(samples: Sequence[Sample]) -> list[str]:
    return [spread([p(sample, part) for sample in samples], 2) for part in ("50", "99", "100")]


def _hot(record: dict, results: Results) -> str:
    head = ["", "requests/s", "p50, ms", "p99, ms", "longest, ms", "hotter lane, %"]
    head += ["moves before", "moves meanwhile", f"plans: {', '.join(OUTCOMES)}"]
    parts = [STUDY]
    for loop, load in hot.LOADS.items():
        rows = [
            [
                name.partition(": ")[2],
                _column(samples, "requests_per_second", 0),
                *_latency(samples),
                _column(samples, "hotter_share", 0, 100),
                _column(samples, "moves_before", 0),
                _column(samples, "moves", 0),
                ", ".join(
                    f"{median(sample['plans'][name] for sample in samples):g}" for name in OUTCOMES
                ),
            ]
            for name, samples in results.items()
            if name.startswith(loop)
        ]
        parts += [f"### {load.title}", table(head, rows)]
    size = record["plan"]["size"]
    method = (
        f"Keep-alive connections that were opened again until the wanted lane answered, to a server of two "
        f"lanes, each on a CPU; `/work` of {record['ops']:,} iterations, {WORK_MS * 1e3:.0f} µs. Each run has a server of "
        f"its own; {size['warm_up']:g} s of the same load are not measured, in which connections move to where they stay, then "
        f"{size['seconds']:g} s are. The generator shares both CPUs with the lanes, ahead of them. In the open loop "
        f"{hot.RATE:,} requests start each second, by chance, and latency counts from when a request was due."
    )
    return "\n\n".join([*parts, method])


def _gateway(record: dict, results: Results) -> str:
    head = ["placement, `moving`", "p50, ms", "p99, ms", "longest, ms", "hotter lane, %"]
    head += ["upstream connections", "moves"]
    rows = [
        [
            name,
            *_latency(samples),
            _column(samples, "hotter_share", 0, 100),
            _column(samples, "upstream_connections", 0),
            _column(samples, "moves", 0),
        ]
        for name, samples in results.items()
    ]
    method = (
        f"{through.CLIENTS} clients, {through.RATE:,} requests/s of `/work` of {through.WORK_MS:g} ms by chance, through Envoy with what the "
        "gateway's chart renders with its defaults (one worker, no access log), to one replica of two lanes: generator, "
        "Envoy and lanes share two CPUs. Replica and Envoy are started anew for each run, so that each has its own luck "
        "with where connections land; so ratios within a round compare different luck too, and the spread tells how much. "
        "`park_after` is the default, 5 s."
    )
    return "\n\n".join([table(head, rows), method])


def _cost(record: dict, results: Results) -> str:
    head = [
        "",
        "CPU of the lanes, µs/request",
        "parkings",
        "moves",
        "until all are answered, ms",
    ]
    size = record["plan"]["size"]
    rows = [
        [
            name,
            _column(samples, "cpu_us", 2),
            _column(samples, "parkings", 0),
            _column(samples, "moves", 0),
            _column(samples, "seconds", 1, 1e3 / size["cycles"]),
        ]
        for name, samples in results.items()
    ]
    method = (
        f"{size['resting']:,} connections ask for `/hello`, in one moment or spread over 0.1 s, and rest for {cost.REST:g} s or until all are "
        f"parked (`park_after` {cost.ARMS[1].park_after}), {size['cycles']} times in a round. Meanwhile a request of "
        f"{pressure.EXPECTED_MS:g} ms waits on one lane, on the other the next time: with `parked-only` those that wake there move to the "
        "other, because a woken connection goes to the lane with the least expected work. CPU time is that of the lanes' threads, "
        "from the kernel's schedstat, sweeps included. A park and a wake are the second row less the first, by "
        "parking; a move is the third less the second, by move, the target's waking up included where it slept."
    )
    return "\n\n".join([table(head, rows), method])


def _busy(record: dict, results: Results) -> str:
    head = ["", "CPU, µs/request", "% of `off`", f"within ± {judging.MARGIN:g}%", "rounds"]
    head += ["requests/s, % of `off`", "moves", "back from hyper, of 1,000 requests"]
    rows = []
    for name, samples in results.items():
        base = results[judging.base_of(name)]
        said = "" if samples is base else judging.SAID[judging.judged(results, name).verdict]
        requests = sum(sample["requests"] for sample in samples)
        row = [name, _column(samples, "cpu_us", 2), _percent(samples, base, "cpu_us"), said]
        row += [str(len(samples)), _percent(samples, base, "requests_per_second")]
        row.append(f"{sum(sample['moves'] for sample in samples):,.0f}")
        row.append(f"{1e3 * sum(sample['returns'] for sample in samples) / requests:.1f}")
        rows.append(row)
    size = record["plan"]["size"]
    looks = ", ".join(map(str, size["looks"]))
    method = (
        f"Closed loop of {busy.CONNECTIONS} connections to a server on a CPU alone; the generator never sleeps and has the other. "
        "In each round all servers are started anew, because a process keeps for its life where its start put its memory, and "
        f"have {4 * size['turns']} slices of {size['slice_seconds']:g} s each in turns, forth, back, back and forth, in an order that is "
        "drawn by lot: what drifts evenly meets all alike. A round gives the ratio of the geometric means of the slices. The "
        "estimate is that of Hodges and Lehmann, the interval and the verdict are those of "
        f"[make loadtest-compare](../../loadtests/compare/README.md): *shown* is wrong in at most {verdict.ERROR:.0%} of all runs, if the truth "
        f"is a difference of {judging.MARGIN:g}%, and so is *not so*. It is asked for after {looks} rounds; a setting of which all is "
        f"shown or refuted has no more. `{busy.AGAIN.name}` is the same as `{judging.BASE}`: the control. Two lanes share the CPU, connections are "
        f"even on them. A body has 64 bytes; a connection returns from hyper after four plain requests, and with `{busy.BY_HYPER.name}` "
        "(`plain_requests` off) never."
    )
    return "\n\n".join([table(head, rows), method])


def _percent(samples: Sequence[Sample], base: Sequence[Sample], figure: str) -> str:
    return "" if samples is base else judging.percent(samples, base, figure)


def _often(record: dict, results: Results) -> str:
    head = ["", "CPU of the lanes, µs/request", "p50, µs", "p99, µs", "KiB per connection"]
    head += ["parkings", "moves"]
    rows = [
        [
            name,
            _column(samples, "cpu_us", 1),
            *(
                spread([sample["latency_us"]["hello"][part] for sample in samples], 0)
                for part in ("50", "99")
            ),
            _column(samples, "kib_per_connection", 2),
            _column(samples, "parkings", 0),
            _column(samples, "moves", 0),
        ]
        for name, samples in results.items()
    ]
    size = record["plan"]["size"]
    method = (
        f"{size['many']:,} connections, {often.RATE:,} requests/s over all of them, the one that has rested for longest next; "
        f"`park_after` {often.PARK_AFTER}. All servers hold their connections throughout, and are asked in turn, {size['seconds']:g} s "
        "each. Memory is resident, less that of the server before."
    )
    return "\n\n".join([table(head, rows), method])


PARTS = {
    "hot": ("Connections that landed unevenly on two lanes", _hot),
    "gateway": ("Through Envoy", _gateway),
    "cost": ("What a park, a wake and a move cost", _cost),
    "busy": ("Connections that are busy", _busy),
    "often": ("Many connections that ask once in a while", _often),
}
