"""The report of `gateway`: two tables and a reading that follows from the figures."""

from collections.abc import Iterator
from statistics import median

from loadtests.bench.gateway.proxies import GATEWAY, HAPROXY, LEAN, MINIMAL, NGINX, SILENT
from loadtests.bench.machine import others
from loadtests.bench.text import spread, table

TARGET = 1.15
"""Most CPU time of the shipped gateway, in that of minimal Envoy."""

MODES = {"open": "At the same rate", "closed": "As fast as they can"}
"""The two loops by their titles."""

Sample = dict


def parts(sample: Sample) -> Iterator[Sample]:
    """The runs of the generator in one sample, of a proxy or of a lever."""
    yield from (sample[mode] for mode in MODES if mode in sample)
    for pair in sample.get("pairs", []):
        yield from pair


def wrong(record: dict) -> int:
    """Requests without the right answer."""
    return sum(part["wrong"] for part in _all(record))


def _all(record: dict) -> Iterator[Sample]:
    for samples in record["results"].values():
        # A profile is one sample, and the generator's run in it is its part "closed".
        for sample in [samples] if isinstance(samples, dict) else samples:
            yield from parts(sample)


def brief(sample: Sample) -> str:
    """One sample in a line, for who watches."""
    told = (
        f"{part['cpu_us']:.2f} µs at {part['requests_per_second']:,.0f}/s" for part in parts(sample)
    )
    return f"{', '.join(told)}, {sum(part['wrong'] for part in parts(sample))} wrong"


def cpu(samples: list[Sample], mode: str) -> list[float]:
    """CPU microseconds per request, round by round."""
    return [sample[mode]["cpu_us"] for sample in samples]


def ratios(record: dict, name: str, base: str, mode: str) -> list[float]:
    """The CPU time of one in that of another, round by round."""
    results = record["results"]
    pairs = zip(cpu(results[name], mode), cpu(results[base], mode), strict=True)
    return [mine / other for mine, other in pairs]


def markdown(record: dict) -> str:
    """The whole report."""
    found = [
        "# What a request costs in the gateway",
        (
            "Written by `make bench-gateway`. A figure is the median of the rounds, with the lowest "
            "and the highest in brackets. [gateway/cost.md](../../gateway/cost.md) says where the "
            "time goes and what each setting gave."
        ),
        setting(record),
        "## Reading",
        "\n".join(f"- {sentence}" for sentence in reading(record)),
    ]
    for mode, title in MODES.items():
        found += [f"## {title}", _METHODS[mode](record), _table(record, mode)]
    return "\n\n".join([*found, "## How it is measured", method(record)]) + "\n"


def reading(record: dict) -> list[str]:
    """What the figures say, in sentences."""
    results = record["results"]
    sentences = []
    for name in (GATEWAY, SILENT, LEAN, NGINX, HAPROXY):
        if name not in results or MINIMAL not in results:
            continue
        told = (
            f"{spread(ratios(record, name, MINIMAL, mode), 2)} {where}"
            for mode, where in (("open", "at the same rate"), ("closed", "in a closed loop"))
        )
        sentence = f"{name} takes {' and '.join(told)} of minimal Envoy's CPU time."
        sentences.append(sentence + (_target(record) if name == GATEWAY else ""))
    return [*sentences, disturbance(record), failures(record)]


def _target(record: dict) -> str:
    worst = max(median(ratios(record, GATEWAY, MINIMAL, mode)) for mode in MODES)
    met = "meets" if worst <= TARGET else "misses"
    return f" That {met} the target of at most {TARGET:.2f}."


def _table(record: dict, mode: str) -> str:
    head = ["", "CPU, µs/request", f"× {MINIMAL}", "user, µs", "kernel, µs", "sleeps/request"]
    head += ["requests/s", "proxy's CPU busy", "p99, ms"]
    lines = []
    for name, samples in record["results"].items():
        runs = [sample[mode] for sample in samples]
        based = MINIMAL in record["results"]
        lines.append(
            [
                name,
                spread([run["cpu_us"] for run in runs], 2),
                spread(ratios(record, name, MINIMAL, mode), 2) if based else "–",
                f"{median(run['cpu_us'] * run['user_share'] for run in runs):.1f}",
                f"{median(run['cpu_us'] * (1 - run['user_share']) for run in runs):.1f}",
                f"{median(run['sleeps'] for run in runs):.2f}",
                f"{median(run['requests_per_second'] for run in runs):,.0f}",
                f"{median(run['busy'] for run in runs):.2f}",
                spread([run["latency_us"]["hello"]["99"] / 1e3 for run in runs], 2),
            ]
        )
    return table(head, lines)


def _method_open(record: dict) -> str:
    return (
        f"Open loop, Poisson arrivals of {record['plan']['rate']:,.0f} requests/s: everyone does the same "
        "work in the same time, and wakes up as often as that takes."
    )


def _method_closed(_record: dict) -> str:
    return (
        "Closed loop: each connection asks again as soon as it is answered. A proxy whose CPU is "
        "busy finds several requests whenever it looks, and shares the cost of looking; one that is "
        "faster than the load waits more often (`sleeps`) and looks comparatively dear."
    )


_METHODS = {"open": _method_open, "closed": _method_closed}


def disturbance(record: dict) -> str:
    """How quiet the machine was."""
    shares = [part["others_cores"] + part["stolen_cores"] for part in _all(record)]
    return others(shares)


def failures(record: dict) -> str:
    """Whether every answer was right."""
    total = sum(part["requests"] for part in _all(record))
    return f"{wrong(record) or 'None'} of {total:,} requests got a wrong answer or none."


def setting(record: dict) -> str:
    """What it was measured on."""
    machine, load = record["machine"], record["load_average"]
    rows = {
        "date": machine["date"],
        "machine": f"{machine['cpu']}, {machine['cores']} cores, {machine['kernel']}",
        "sources": machine["sources"],
        "versions": ", ".join(f"{name} {text}" for name, text in record["versions"].items()),
        "rounds": f"{record['plan']['rounds']}, of {record['plan']['seconds']:g} s for each part",
        "load average": ", ".join(
            f"{' '.join(f'{average:.2f}' for average in averages)} {when}"
            for when, averages in load.items()
        ),
    }
    return table(["", ""], [[name, text] for name, text in rows.items()])


def method(record: dict) -> str:
    """How a figure comes about."""
    first, second = record["cpus"]
    return (
        f"`GET /hello`, 13 bytes, on 64 keep-alive connections, through the proxy to a pool of two "
        f"replicas of corelane-server, one and the same pool for all. The proxy has CPU {first} for itself, "
        f"with one worker or thread; the generator and the pool share CPU {second}. Each measurement starts "
        "its proxy anew and warms it up; proxies take turns within a round, each round in another order, and "
        "ratios are taken within the round.\n\n"
        "CPU time is the CPU clock of the proxy's processes (clock_getcpuclockid(3)), all threads: "
        "nanoseconds, as in /proc/PID/task/*/schedstat. It includes the kernel's work for their system calls. "
        "In loopback that is TCP's work of the other side too, for each packet that the proxy sends. User and "
        "kernel time are split by the kernel's ticks. `sleeps` are voluntary context switches.\n\n"
        "nginx and HAProxy keep connections alive on both sides, balance round robin and pass the client's "
        "address on (`nginx.conf` and `haproxy.cfg` in `loadtests/bench/gateway`). In a full log there is "
        "one JSON line for each request with the same fields as far as each knows them, into a file; "
        "Envoy and nginx write blocks of 64 KiB, HAProxy each line."
    )
