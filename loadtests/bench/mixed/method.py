"""How a figure of `mixed` comes about, in words."""

from loadtests.bench.mixed.measure import RATE_SHARE
from loadtests.bench.mixed.published import SOURCE


def closed(record: dict) -> str:
    """The closed loop."""
    users = record["plan"]["size"]["users"]
    return (
        f"Closed loop, as published: all {users:,} users connect at once and ask again as soon as they are "
        "answered, without time to think. Everyone is always waiting, so latencies are little else than "
        "users ÷ throughput, and their spread shows how fairly requests are served; for what a user "
        "feels below saturation, read the open loop. `connect` ends with TCP's handshake, which the kernel "
        "does before the server accepts; `first reply` counts from the same begin and has the wait to be "
        f"accepted in it. Published: {SOURCE}, on other machines and over a network, so its ratios between "
        "modes compare, its seconds do not."
    )


def open_loop(record: dict) -> str:
    """The open loop."""
    seconds = record["plan"]["size"]["seconds"]
    return (
        f"Open loop for {seconds:g} s on the same users: Poisson arrivals at {RATE_SHARE:g} of the requests/s that the "
        "cell has just reached in the closed loop of the same round. A latency counts from when the request "
        "was due, also when its user still waits for an earlier reply: a slow server cannot slow its load "
        "down (coordinated omission). Modes with another throughput have another rate here."
    )


def pages(record: dict) -> str:
    """The page with and without the database."""
    seconds = record["plan"]["size"]["alone"]
    return (
        f"The pages of the open loop, beside the loads and saves; and {seconds:g} s at the same rate in which "
        "every request is a page. A lane that waited for its database would make pages wait as long. What is "
        "left of a difference is CPU time: a load or a save costs more of it than a page, and both CPUs are "
        "shared with the database and the users."
    )


def cpu() -> str:
    """CPU time."""
    return (
        "CPU clocks of the processes (clock_getcpuclockid(3)) per request, kernel time included; SQLite is in the "
        "server's. The users run on the same CPUs: `cores busy` is all of them together. At a rate everyone wakes "
        "up for little work at a time, which makes it dearer."
    )


def phases() -> str:
    """The server's phases."""
    return (
        "Means of the server's own histograms over the closed loop: `queue` is the wait for a slot of the "
        "lane, `handler` has the wait for the database in it. The route of a project is that of loads and saves, which "
        "the second table tells apart: times of the operations on the database, waits included. Behind the gateway "
        "`accept` is mostly the rest of connections that Envoy opened for a request which then found another one free."
    )


def method(record: dict) -> str:
    """The rest."""
    size = record["plan"]["size"]
    return (
        "Server, gateway, PostgreSQL and users share all CPUs of one machine, over loopback. Every cell starts its "
        "server, and its gateway, anew in each round, on an empty database: a file of SQLite, or a database "
        "in a PostgreSQL of our own (`hack/postgres`) whose settings for durability are the defaults: both sync "
        "to disk before a save is acknowledged. Cells take turns within a round, each round in another order. "
        f"First each of the {size['users']:,} users creates its project and loads it once, unmeasured.\n\n"
        "The settings are the defaults but for those of the mode (`--lanes 1 --limits.slots 1024`, "
        "`--lanes auto --limits.slots 1`, `--lanes auto`) and `--database.queue 1024 --database.wait 30s`, so that "
        "all users may wait at once. One lane gets as many connections to the database (`--database.connections`) as all "
        "lanes have together in the other modes. The gateway is Envoy with what the chart renders by default, with one worker.\n\n"
        "The users are one thread of `loadtests/bench/generator` (`users`), each with a keep-alive connection. A save "
        "is a PUT with bearer token and If-Match of a JSON document of 5,700 bytes, new in each save. Every reply "
        "is checked: status, length and bytes of the page and its ETag; that a load shows the user's last save "
        "byte by byte, or value by value, and its ETag; that a save shows what was sent. A reply that takes 30 s is an "
        "error. Every time is kept: percentiles are exact. In the open loop the users run with real-time "
        "priority where the system allows it, so that requests leave when they are due; `lag_ms` in the JSON "
        "tells how well that went."
    )
