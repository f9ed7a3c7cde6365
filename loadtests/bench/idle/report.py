"""The report of `idle`."""

import json
from pathlib import Path
from statistics import median

from loadtests.bench.idle import climbs, picture
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
    for climb in climbs.every(record):
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
            "Written by `make bench BENCH=idle`. Figures of the memory are the median of the rounds, with the lowest "
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
        parts += climbs.markdown(record)
    return "\n\n".join(parts) + "\n"


def reading(record: Record) -> list[str]:
    """What the figures say, in sentences."""
    lost = wrong(record)
    found = [*_memory_reading(record), *climbs.reading(record)]
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


def _noise(record: Record) -> list[float]:
    shares = [s["stolen_cores"] for samples in record["memory"].values() for s in samples]
    for climb in climbs.every(record):
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
