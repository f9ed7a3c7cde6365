"""The report of `mixed`: latencies, CPU time, and where the time is spent, from the server's own histograms."""

from collections.abc import Iterator
from itertools import product

from loadtests.bench.experiment.page import LEGEND, Column, Page, cell
from loadtests.bench.experiment.plan import Task
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record

PHASE, OPERATION = "corelane_request_phase_seconds", "corelane_database_operation_duration_seconds"

ROUTES = {"page": "/static/{*path}", "project": "/projects/{id}"}
STEPS = ("accept", "queue", "handler", "write")
"""The phases of a request, in their order."""

DATABASE = {
    "load, ms": (OPERATION, 'operation="get"'),
    "save, ms": (OPERATION, 'operation="replace"'),
    "wait for a connection, ms": ("corelane_database_connection_wait_seconds",),
    "commit of SQLite, ms": ("corelane_database_commit_duration_seconds",),
    "saves per commit": ("corelane_database_saves_per_commit",),
}

HISTOGRAMS: dict[str, tuple[str, ...]] = {
    **{
        f"{kind} {step}": (PHASE, f'route="{route}"', f'phase="{step}"')
        for kind, route in ROUTES.items()
        for step in STEPS
    },
    **DATABASE,
}
"""Name and labels of each, by the name in a row."""


def between(before: str, after: str) -> dict[str, float]:
    """The mean of what each histogram counted between two readings of all metrics; times in ms."""
    found = {}
    for name, (metric, *labels) in HISTOGRAMS.items():
        count, total = (
            _sum(after, f"{metric}_{part}", labels) - _sum(before, f"{metric}_{part}", labels)
            for part in ("count", "sum")
        )
        if count:
            found[name] = total / count * (1e3 if metric.endswith("_seconds") else 1)
    return found


def _sum(metrics: str, name: str, labels: list[str]) -> float:
    """Of all series with these labels, those of all lanes."""
    series = (line for line in metrics.splitlines() if line.startswith((f"{name} ", f"{name}{{")))
    return sum(
        float(line.rpartition(" ")[2]) for line in series if all(label in line for label in labels)
    )


KINDS = ("page", "load", "save")

LABELS = ("database", "path", "mode")

TITLES = {
    "one-lane": "one lane with many slots",
    "one-slot": "many lanes with one slot each",
    "many-many": "many lanes with many slots",
    "sqlite": "SQLite",
    "postgres": "PostgreSQL",
    "direct": "direct",
    "gateway": "through the gateway",
}

LOOPS = {"closed": "as fast as they can", "open": "at half that rate"}

PUBLISHED = {"one-lane": 293.0, "one-slot": 96.0, "many-many": 87.1}
"""Seconds of the published test, Pauley, A High Concurrency HTTP Server Architecture, 2019."""

PARTS = {
    "server": "server, µs",
    "writer": "its writer of SQLite, µs",
    "database": "PostgreSQL, µs",
    "gateway": "gateway, µs",
    "generator": "users, µs",
}

SPREAD = {"p50": "50", "p90": "90", "p99": "99", "max": "100", "sd": "sd"}
"""Figures of latencies by their titles."""

CURVE = ("50", "80", "90", "95", "98", "99", "99.5", "99.8", "99.9", "99.95")
"""Percentiles of the picture, whose axis is in nines."""

Wanted = tuple[str, str, str, int]
"""A column: its title, the loop, the figure and its digits."""


def page(title: str, record: Record) -> Page:
    """The whole report."""
    found, tasks = Page(title, record, LEAD.format(**record.facts), LEGEND), _tasks(record)

    def table(*wanted: Wanted, more: tuple[Column, ...] = ()) -> None:
        columns = [_column(record, tasks, *one) for one in wanted]
        found.table("", list(tasks), *columns, *more)

    found.section("Reading")
    found.points([*_modes(record), *_mixed(record), *_faults(record), *found.quality()])
    found.plot(_plot(record))
    found.section("As fast as they can", CLOSED)
    table(
        ("total, s", "closed", "seconds", 2),
        ("requests/s", "closed", "requests_per_second", 0),
        *((f"{each}, ms", "closed", f"latency_ms.all.{its}", 1) for each, its in SPREAD.items()),
        ("connect p99, ms", "closed", "connect_ms.99", 2),
        ("first reply p99, ms", "closed", "first_reply_ms.99", 1),
    )
    _kinds(found, record, tasks, "closed")
    found.section("At half that rate", OPEN)
    _kinds(found, record, tasks, "open")
    found.section("Pages with and without the database", PAGES)
    table(
        ("requests/s", "open", "rate", 0),
        *((f"p{each} mixed, ms", "open", f"latency_ms.page.{each}", 2) for each in (50, 99)),
        *((f"p{each} alone, ms", "pages", f"latency_ms.page.{each}", 2) for each in (50, 99)),
        more=(("p99, ratio", lambda name: cell(_page_ratios(record, tasks[name]), 2)),),
    )
    found.section("CPU time of a request", CPU)
    for loop, its in LOOPS.items():
        found.text(f"Users {its}:")
        parts = [(name, loop, f"cpu_us.{part}", 1) for part, name in PARTS.items()]
        table(*parts, ("cores", loop, "busy_cores", 2))
    found.section("Where the time goes", PHASES)
    for kind, route in ROUTES.items():
        found.text(f"`{route}`:")
        table(*((f"{step}, ms", "closed", f"server.{kind} {step}", 2) for step in STEPS))
    found.text("The database:")
    table(*((name, "closed", f"server.{name}", 2) for name in DATABASE))
    found.section("How it is measured", METHOD.format(**record.facts))
    return found


def _tasks(record: Record) -> dict[str, Task]:
    """What was measured, by its name in tables."""
    values = product(*map(record.labels, LABELS))
    tasks = [dict(zip(LABELS, each, strict=True)) for each in values]
    return {
        ", ".join(TITLES[value] for value in task.values()): task
        for task in tasks
        if record.select(**task)
    }


def _column(
    record: Record, tasks: dict[str, Task], title: str, loop: str, figure: str, digits: int
) -> Column:
    return (title, lambda name: cell(record.values(figure, **tasks[name], loop=loop), digits))


def _kinds(found: Page, record: Record, tasks: dict[str, Task], loop: str) -> None:
    """The latencies of each kind: a line for each task and kind."""
    lines = {f"{name}: {kind}": (task, kind) for name, task in tasks.items() for kind in KINDS}

    def column(title: str, figure: str) -> Column:
        def text(line: str) -> str:
            task, kind = lines[line]
            return cell(record.values(f"latency_ms.{kind}.{figure}", **task, loop=loop), 2)

        return (f"{title}, ms", text)

    found.table("", list(lines), *(column(*one) for one in SPREAD.items()))


def _page_ratios(record: Record, task: Task) -> list[float]:
    """The p99 of a page among loads and saves in that of pages alone, round by round."""
    return record.ratios("latency_ms.page.99", {"loop": "open"}, {"loop": "pages"}, **task)


def _modes(record: Record) -> Iterator[str]:
    """The time of each mode in that of many lanes with many slots."""
    best = {"mode": "many-many"}
    for mode in ("one-lane", "one-slot"):
        told = []
        for database, path in product(record.labels("database"), record.labels("path")):
            both = {"database": database, "path": path, "loop": "closed"}
            if ratios := record.ratios("seconds", {"mode": mode}, best, **both):
                told.append(f"{cell(ratios, 2)} on {TITLES[database]}, {TITLES[path]}")
        if told:
            yield (
                f"The users need so many times as long with {TITLES[mode]} as with many lanes with many slots: "
                f"{'; '.join(told)}; published are {PUBLISHED[mode] / PUBLISHED['many-many']:.2f}."
            )


def _mixed(record: Record) -> Iterator[str]:
    for name, task in _tasks(record).items():
        if task["mode"] == "many-many" and (ratios := _page_ratios(record, task)):
            mixed = record.values("latency_ms.page.99", **task, loop="open")
            yield (
                f"{name}: the p99 of a page among loads and saves is {cell(mixed, 2)} ms, {cell(ratios, 2)} times "
                "that among as many pages."
            )


def _faults(record: Record) -> Iterator[str]:
    """The failed requests by kind and cause."""
    found: dict[str, int] = {}
    for row in record.rows:
        for fault, count in row["faults"].items():
            found[fault] = found.get(fault, 0) + count
    if found:
        named = ", ".join(f"{fault} {count:,}" for fault, count in sorted(found.items()))
        yield f"Failed requests by kind and cause: {named}."


def _plot(record: Record) -> Plot:
    places = product(record.labels("database"), record.labels("path"), LOOPS)
    panels = [
        Panel(
            [
                Series(TITLES[mode], _curve(record, {**place, "mode": mode}))
                for mode in record.labels("mode")
            ],
            title=f"{TITLES[place['database']]}, {TITLES[place['path']]}, {LOOPS[place['loop']]}",
            x="the slowest of so many requests",
            y="latency, ms",
            kind="lines",
            log="xy",
        )
        for place in (dict(zip(("database", "path", "loop"), each, strict=True)) for each in places)
        if record.select(**place)
    ]
    return Plot("Percentiles of the latency of all requests", panels, columns=2)


def _curve(record: Record, labels: dict[str, str]) -> list[tuple[float, list[float]]]:
    rows = [row["latency_ms"]["all"] for row in record.select(**labels)]
    return [
        (round(1 / (1 - float(each) / 100)), [row[each] for row in rows if each in row])
        for each in CURVE
    ]


LEAD = (
    "{users:,} users at once, each with a connection and a project of its own. Each gets a page of 4 KiB, loads its project "
    "and saves it, {times} times."
)

CLOSED = (
    "A closed loop, as published: all users connect at once, and send the next request when the reply is "
    "there. Everyone is always waiting, so a latency is little else than users ÷ throughput. `connect` ends with TCP's "
    "handshake, which the kernel does before the server accepts. `first reply` counts from the same start. The published "
    "times are {one-lane:g} s with one thread, {one-slot:g} s with many threads of one slot each, and {many-many:g} s with "
    "many threads of many slots. Their standard deviations are 2,421, 1,094 and 719 ms (Pauley, A High Concurrency "
    "HTTP Server Architecture, 2019). They are from other machines and over a network: compare ratios, not seconds."
).format(**PUBLISHED)

OPEN = (
    "An open loop on the same users: Poisson arrivals at half the requests/s that the task has just reached in the closed "
    "loop. A latency counts from when the request was due, even if its user still waits for an earlier reply. Modes "
    "with another throughput have another rate."
)

PAGES = (
    "`mixed` are the pages of the open loop. `alone` is one second at the same rate in which every request is a page. "
    "A lane that waited for its database would make pages wait as long. The rest of a difference is CPU time: a load or "
    "a save takes more of it than a page."
)

CPU = (
    "CPU clocks of the processes (clock_getcpuclockid(3)) per request, kernel time included. SQLite is in the server's. "
    "`cores` is all of them together."
)

PHASES = (
    "Means of the server's own histograms in the closed loop: `queue` is the wait for a slot of the lane, and `handler` "
    "includes the wait for the database. Through the gateway `accept` is mostly the idle time of connections that "
    "Envoy opened for a request that then found another one."
)

METHOD = """\
Server, gateway, PostgreSQL and users share all CPUs of one machine, over loopback. In each round, every task starts its own
server and gateway on an empty database. That is a file of SQLite, or a database in a PostgreSQL that the run starts
(`hack/postgres`), with its default settings for durability. Both sync to disk before a save is acknowledged; a sync of
6 kB takes {sync_ms:.2f} ms here. First each user creates its project and loads it once, unmeasured.

The settings are the defaults, except for the mode (`--lanes 1 --limits.slots 1024`, `--lanes auto --limits.slots 1`,
`--lanes auto`) and for the database. With `--database.queue 1024 --database.wait 30s` all users may wait at once. One lane
gets as many connections to the database as all lanes have together in the other modes. The gateway is Envoy with the
chart's default configuration and one worker.

The users are one thread of `loadtests/bench/generator`, each with a keep-alive connection. A save is a PUT with bearer
token and If-Match of a JSON document of 5,700 bytes, new in each save. Every reply is checked. A page must have the
right length, bytes and ETag. A load must show the user's last save and its ETag, and a save must show what was sent. A reply that
takes 30 s is an error. Percentiles are exact. In the open loop the users run with real-time priority where the system
allows it; `lag_ms` in the JSON shows how late requests left."""
