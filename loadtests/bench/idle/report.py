"""The report of `idle`."""

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median

from loadtests.bench.idle import picture
from loadtests.bench.idle.arms import (
    NGINX_OVER_TLS,
    NGINX_TCP,
    PARKED,
    PARKED_BODY,
    PARKED_TLS,
)
from loadtests.bench.machine import others
from loadtests.bench.text import spread, table
from tools.errors import ToolError

TARGET_KIB = 1.0
"""Of resident memory for each parked connection over TCP."""

PEERS = {PARKED.name: NGINX_TCP.name, PARKED_TLS.name: NGINX_OVER_TLS.name}
"""What parked connections are compared with."""

Record = dict
Rung = dict


def render(file: Path) -> int:
    """Writes report and picture of a record that was written before, beside it."""
    try:
        record = json.loads(file.read_text())
        text = markdown(record)
    except (OSError, json.JSONDecodeError, KeyError) as error:
        raise ToolError(f"--render {file}: give a bench-idle.json ({error!r})") from None
    (file.parent / "bench-idle.md").write_text(text)
    if record["ladder"]:
        (file.parent / "bench-idle.svg").write_text(picture.draw(record))
    return 0


def wrong(record: Record) -> int:
    """Connections and requests that were lost, and servers that did not end as they should."""
    lost = sum(sample["lost"] for samples in record["memory"].values() for sample in samples)
    for climb in record["ladder"].values():
        lost += sum(rung["lost"] + rung["live"]["wrong"] for rung in climb["rungs"])
        for woken in climb["woken"]:
            lost += woken["asked"] - woken["answered"] + (woken["live"] or {"wrong": 0})["wrong"]
        drain = climb["drain"]
        lost += drain["still_open"] + sum(code != 0 for code in drain["exit_codes"])
    return lost


def markdown(record: Record) -> str:
    """The whole report."""
    parts = [
        "# Connections that wait",
        (
            "Written by `make bench-idle`. Figures of the memory are the median of the rounds, with the lowest "
            "and the highest in brackets. How a connection comes to be parked: "
            "[connections](../connections.md)."
        ),
        _setting(record),
        "## Reading",
        "\n".join(f"- {sentence}" for sentence in reading(record)),
    ]
    if record["memory"]:
        parts += ["## Memory of one connection", _memory(record), _memory_method(record)]
    if record["ladder"]:
        parts += ["## The ladder", _pictured(record)]
        for name, climb in record["ladder"].items():
            parts += [f"### {name}", _rungs(climb), _top(climb)]
        parts += ["## How the ladder is climbed", _ladder_method(record)]
    return "\n\n".join(parts) + "\n"


def reading(record: Record) -> list[str]:
    """What the figures say, in sentences."""
    lost = wrong(record)
    found = [*_memory_reading(record), *_ladder_reading(record)]
    found.append(
        f"{lost:,} connections or requests were lost."
        if lost
        else "No connection and no request was lost."
    )
    return [*found, others(_noise(record))]


def _memory_reading(record: Record) -> list[str]:
    memory, found = record["memory"], []
    for name in (PARKED.name, PARKED_BODY.name):
        if samples := memory.get(name):
            values = _each(samples, "kib_per_connection")
            met = "met" if median(values) <= TARGET_KIB else "missed"
            found.append(
                f"{name.capitalize()}: {spread(values, 2)} KiB of resident memory for each of "
                f"{record['plan']['connections']:,} connections; the target of {TARGET_KIB:g} KiB is {met}."
            )
    for name, peer in PEERS.items():
        if name in memory and peer in memory:
            pairs = zip(memory[name], memory[peer], strict=True)
            ratios = [a["kib_per_connection"] / b["kib_per_connection"] for a, b in pairs]
            found.append(
                f"That of {name} is {spread(ratios, 2)} times that of {peer} in the same round, which has "
                "its table of connections before the first of them comes."
            )
    return found


def _ladder_reading(record: Record) -> list[str]:
    found = []
    for name, climb in record["ladder"].items():
        first, top = climb["rungs"][0], climb["rungs"][-1]
        woken, drain = climb["woken"][0], climb["drain"]
        found.append(
            f"{name.capitalize()}: {top['connections']:,} connections in {climb['replicas']} replicas take "
            f"{top['resident_kib'] / 1024:,.0f} MiB; live requests have p50 {top['live']['p50']:.2f} ms and p99 "
            f"{top['live']['p99']:.2f} ms beside them, with {first['connections']:,} connections "
            f"{first['live']['p50']:.2f} and {first['live']['p99']:.2f}. One request on each takes "
            f"{woken['cpu_us']:.1f} µs of the servers' CPU ({woken['answered']:,} of {woken['asked']:,} "
            f"answered), and a drain with all of them {drain['seconds']:.2f} s."
        )
    return found


def _noise(record: Record) -> list[float]:
    shares = [s["stolen_cores"] for samples in record["memory"].values() for s in samples]
    for climb in record["ladder"].values():
        shares += [rung["others_cores"] + rung["stolen_cores"] for rung in climb["rungs"]]
    return shares


def _each(samples: list[dict], name: str) -> list[float]:
    return [sample[name] for sample in samples]


def _memory(record: Record) -> str:
    head = [
        "",
        "KiB each",
        "when just opened, KiB each",
        "server before the first, MiB",
        "server with all, MiB",
        "kernel, both ends, KiB each",
        "all open after, s",
    ]
    rows = [
        [
            name,
            spread(_each(samples, "kib_per_connection"), 2),
            spread(_each(samples, "kib_when_opened"), 2),
            spread([sample["before_kib"] / 1024 for sample in samples], 1),
            spread([sample["resident_kib"] / 1024 for sample in samples], 1),
            spread([sum(sample["kernel_kib"].values()) for sample in samples], 1),
            spread(_each(samples, "seconds_to_open"), 1),
        ]
        for name, samples in record["memory"].items()
    ]
    return table(head, rows)


def _memory_method(record: Record) -> str:
    plan = record["plan"]
    return (
        f"{plan['connections']:,} connections to one server with one thread, each with one request for `/hello` "
        "that is answered, then silence. What is counted is what the resident memory of all its processes grew "
        f"by since the first connection was answered (smaps_rollup), {plan['settle']:g} s after the last one was "
        f"parked, or opened where none is parked. Connections are parked after {plan['park_after']} of silence "
        "here, so that a run is short. A request with a body is answered through hyper; a "
        "connection whose requests are plain never has hyper's state. nginx makes its table of "
        "connections at its start, with room for as many as corelane-server is allowed: see what each has before "
        "the first. It runs with one worker, buffers of TLS that are given back by default, no cache of sessions, "
        "and no end of keep-alive. TLS is 1.3 with ECDSA on P-256, each handshake a full one.\n\n"
        "The kernel's memory is what all slabs of the machine grew by (`/proc/meminfo`) and the buffers of its "
        "sockets (`/proc/net/sockstat`), of both ends of each connection: it is the same for every server."
    )


def _pictured(record: Record) -> str:
    plan = record["plan"]
    return (
        "![Live requests and memory by connections](bench-idle.svg)\n\n"
        f"Live requests come at {plan['rate']:,.0f}/s, open loop, over connections of their own."
    )


Column = tuple[str, Callable[[Rung], str]]

COLUMNS: list[Column] = [
    ("connections", lambda rung: f"{rung['connections']:,}"),
    ("parked", lambda rung: f"{rung['parked']:,.0f}"),
    ("opened, /s", lambda rung: _per_second(rung["opened"], rung["seconds_to_open"])),
    ("p50, ms", lambda rung: f"{rung['live']['p50']:.2f}"),
    ("p99, ms", lambda rung: f"{rung['live']['p99']:.2f}"),
    ("longest, ms", lambda rung: f"{rung['live']['max']:.1f}"),
    ("CPU per live request, µs", lambda rung: f"{rung['cpu_us']:.1f}"),
    ("CPU of the wait alone, % of a core", lambda rung: f"{rung['quiet_cores'] * 100:.2f}"),
    ("servers, MiB", lambda rung: f"{rung['resident_kib'] / 1024:,.0f}"),
    ("KiB each", lambda rung: _if_any(rung, f"{rung['kib_per_connection']:.2f}")),
    (
        "kernel's objects, both ends, KiB each",
        lambda rung: _if_any(rung, f"{rung['kernel_kib']['slab']:.1f}"),
    ),
    (
        "sockets' buffers, KiB each",
        lambda rung: _if_any(rung, f"{rung['kernel_kib']['buffers']:.2f}"),
    ),
]


def _if_any(rung: Rung, text: str) -> str:
    return text if rung["connections"] else "–"


def _per_second(count: int, seconds: float) -> str:
    return f"{count / seconds:,.0f}" if count else "–"


def _rungs(climb: dict) -> str:
    rows = [[show(rung) for _, show in COLUMNS] for rung in climb["rungs"]]
    return table([name for name, _ in COLUMNS], rows)


def _top(climb: dict) -> str:
    head = [
        "at the top",
        "asked",
        "answered",
        "woken",
        "CPU each, µs",
        "p50, ms",
        "p99, ms",
        "longest, ms",
        "live p99, ms",
    ]
    names = ("each connection asks once", "once more, beside live requests")
    rows = [
        [
            name,
            f"{woken['asked']:,}",
            f"{woken['answered']:,}",
            f"{woken['wakes']:,.0f}",
            f"{woken['cpu_us']:.1f}",
            f"{woken['p50']:.2f}",
            f"{woken['p99']:.2f}",
            f"{woken['max']:.1f}",
            f"{woken['live']['p99']:.2f}" if woken["live"] else "–",
        ]
        for name, woken in zip(names, climb["woken"], strict=True)
    ]
    drain = climb["drain"]
    ended = "all ended by themselves" if not any(drain["exit_codes"]) else "exit codes"
    codes = "" if not any(drain["exit_codes"]) else f" {drain['exit_codes']}"
    return (
        f"{table(head, rows)}\n\nThe servers have {climb['resident_kib_after'] / 1024:,.0f} MiB when all wait again. "
        f"SIGTERM with {drain['connections']:,} connections: {ended}{codes} after {drain['seconds']:.2f} s, and "
        f"{drain['still_open'] or 'none'} of the connections stayed open."
    )


def _ladder_method(record: Record) -> str:
    plan, cpus = record["plan"], record["cpus"]
    count = next(iter(record["ladder"].values()))["replicas"]
    return (
        f"A process here may have {record['files'] + 500:,} open files and cannot ask for more, so {count} replicas "
        f"with one lane each share CPU {cpus[0]}, all from the first rung on, and as many processes of the "
        f"generator with an address each hold the connections on CPU {cpus[1]}; connections go to the replicas in "
        "turn. All of it is in a network namespace that the run makes, over its loopback, with an accept queue "
        "of 16,384. A connection is opened as soon as one of 64 of its process has been answered, so the time to open "
        "is that of server and clients together. At each rung all connections are parked first, where they are "
        f"parked; then nobody asks for {plan['quiet']:g} s, which is the CPU of the wait alone; then come live requests for "
        f"{plan['seconds']:g} s. At the top every connection asks once, spread evenly at "
        f"{plan['waking']:,.0f}/s, and is parked again (that is in its CPU); then once more with live requests "
        "beside, whose CPU is shared out with theirs. A latency counts from when the request was due. The "
        "drain has no time to settle (`drain.settle` 0s). One climb each: look at the shape, not at one "
        "percentile."
    )


def _setting(record: Record) -> str:
    machine = record["machine"]
    rows = {
        "date": machine["date"],
        "machine": f"{machine['cpu']}, {machine['cores']} cores, {machine['kernel']}",
        "sources": machine["sources"],
        "versions": ", ".join(f"{name} {version}" for name, version in record["versions"].items()),
        "build": f"cargo's profile {record['profile']}",
        "rounds": str(record["plan"]["rounds"]),
        "duration": f"{record['minutes']:.1f} minutes",
    }
    return table(["", ""], [[name, text] for name, text in rows.items()])
