"""The report of `tuning`."""

from collections.abc import Callable, Iterator

from loadtests.bench.machine import others
from loadtests.bench.text import spread, table
from loadtests.bench.tuning.arms import DEFAULTS
from loadtests.bench.tuning.networks import COUNTERS

TITLES = {
    "ab": "ab",
    "rush": "All at once",
    "held": "All at once, at a server that is held for half a second",
}

Sample = dict
Results = dict[str, list[Sample]]


def wrong(record: dict) -> int:
    """Requests without the right answer."""
    return sum(sample["wrong"] for sample in _samples(record))


def brief(sample: Sample) -> str:
    """One run in a line, for who watches."""
    return (
        f"{sample['seconds']:.2f} s, p99 {sample['percentiles']['99']:.0f} ms, {sample['wrong']} wrong, "
        f"{sample['kernel']['TCPSynRetrans']} SYNs sent again"
    )


def markdown(record: dict) -> str:
    """The whole report."""
    parts = [
        "# Ten thousand connections at once: the kernel's sysctls of pods, and the profile's",
        (
            "Written by `make bench BENCH=tuning`. A figure is the median of the rounds, with the lowest and "
            "the highest in brackets; a ratio is taken within each round."
        ),
        _setting(record),
        "## Reading",
        "\n".join(f"- {sentence}" for sentence in reading(record)),
    ]
    for case, results in record["results"].items():
        parts += [f"## {TITLES[case]}", _times(results), _counts(results)]
    parts += ["## What is set", _sysctls(record), "## How it is measured", _method(record)]
    return "\n\n".join(parts) + "\n"


def reading(record: dict) -> list[str]:
    """What the figures say, in sentences."""
    found = [
        _compared(case, results, name)
        for case, results in record["results"].items()
        for name in results
        if name != DEFAULTS
    ]
    shares = [sample["others_cores"] + sample["stolen_cores"] for sample in _samples(record)]
    total = sum(sample["requests"] for sample in _samples(record))
    return [
        *found,
        f"{wrong(record) or 'None'} of {total:,} requests got a wrong answer or none.",
        others(shares),
    ]


def _compared(case: str, results: Results, name: str) -> str:
    ratios = _ratios(results, name, _percentile(99))
    same = " (the same within the spread)" if min(ratios) <= 1 <= max(ratios) else ""
    again = [spread(_counted(results[arm], "TCPSynRetrans"), 0) for arm in (name, DEFAULTS)]
    return (
        f"{TITLES[case]}: with {name} the 99th percentile is {spread(ratios, 2)} times that with the "
        f"{DEFAULTS}{same}; {again[0]} SYNs were sent again, and {again[1]} with the defaults."
    )


def _times(results: Results) -> str:
    head = ["", "wrong", "p50, ms", "p99, ms", "longest, ms", "duration, s", "p99 ×"]
    rows = [
        [
            name,
            spread([sample["wrong"] for sample in samples], 0),
            *(spread(list(map(_percentile(part), samples)), 0) for part in (50, 99, 100)),
            spread([sample["seconds"] for sample in samples], 2),
            spread(_ratios(results, name, _percentile(99)), 2),
        ]
        for name, samples in results.items()
    ]
    return table(head, rows)


def _counts(results: Results) -> str:
    head = ["counted by the kernel", *results]
    rows = [
        [f"`{name}`: {text}", *(spread(_counted(samples, name), 0) for samples in results.values())]
        for name, text in COUNTERS.items()
    ]
    dropped = [
        spread([sample["dropped_packets"] for sample in samples], 0) for samples in results.values()
    ]
    rows.append(["packets dropped at the host's `netdev_max_backlog`", *dropped])
    failed = [spread(list(map(_not_opened, samples)), 0) for samples in results.values()]
    rows.append(["connections that could not be opened, as the clients count them", *failed])
    return table(head, rows)


def _percentile(part: int) -> Callable[[Sample], float]:
    return lambda sample: sample["percentiles"][str(part)]


def _not_opened(sample: Sample) -> int:
    return sample["faults"].get("connect", 0)


def _counted(samples: list[Sample], name: str) -> list[int]:
    return [sample["kernel"][name] for sample in samples]


def _ratios(results: Results, name: str, value: Callable[[Sample], float]) -> list[float]:
    pairs = zip(results[name], results[DEFAULTS], strict=True)
    return [value(mine) / value(base) for mine, base in pairs]


def _samples(record: dict) -> Iterator[Sample]:
    for results in record["results"].values():
        for samples in results.values():
            yield from samples


def _setting(record: dict) -> str:
    machine = record["machine"]
    rows = {
        "date": machine["date"],
        "machine": f"{machine['cpu']}, {machine['cores']} cores, {machine['kernel']}",
        "sources": machine["sources"],
        "versions": ", ".join(f"{name} {version}" for name, version in record["versions"].items()),
        "build": f"cargo's profile {record['profile']}",
        "rounds": str(record["plan"]["rounds"]),
    }
    return table(["", ""], [[name, text] for name, text in rows.items()])


def _sysctls(record: dict) -> str:
    rows = []
    for arm in record["arms"]:
        for side in ("server", "client"):
            rows += [[arm["name"], side, f"`{name}`", value] for name, value in arm[side].items()]
        rows.append([arm["name"], "server", "`--backlog`", str(arm["backlog"])])
    return table(["", "side", "setting", "value"], rows)


def _method(record: dict) -> str:
    load, (first, second) = record["load"], record["cpus"]
    return (
        f"`ab -r -n {load['requests']} -c {load['connections']}` for `/static/`, 10,831 bytes, without "
        "keep-alive: the C10k run. ab replaces every connection that ends and stops at the last of its "
        "replies, so those that were not answered by then are in none of its figures. All at once: the load "
        f"generator begins {load['connections']:,} connections in the same moment, sends one request on each, "
        "and waits for every one of them; a time counts from the first SYN. The held server is stopped by "
        "SIGSTOP just before, and continues half a second later, like one whose CPU somebody else had.\n\n"
        "For each run the benchmark makes two network namespaces, one of the server and one of the clients, "
        "with a virtual link between them, writes the sysctls into them, and starts the server anew; "
        "afterwards all of it is gone. These sysctls are a namespace's own, as in a pod; nothing of the "
        "machine is changed, so what the profile wants of the host, `net.core.netdev_max_backlog` above "
        "all, is as it was with all. Clients get what `node-tuner generate gateway` prints, because the "
        "gateway is who opens connections to the server.\n\n"
        f"The server has one lane on CPU {first}, the clients have CPU {second}. The server's limits of "
        "connections and of its lane's queue are above the number of requests with all, so that only the "
        "kernel's queues differ. Within a round they take turns, and the next round begins with the last one."
    )
