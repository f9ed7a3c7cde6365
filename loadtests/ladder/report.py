"""The result as Markdown."""

from collections.abc import Callable, Sequence

from loadtests.bench.text import spread, table
from loadtests.ladder import at_once
from loadtests.ladder.summary import asked, wrong

PUBLISHED = "30 ms in the median and none over 300 ms (Pauley, A High Concurrency HTTP Server Architecture, 2019)"
PUBLISHED_P50, PUBLISHED_MAX = 30.0, 300.0

MANNERS = {"slow-head": "slow headers", "slow-read": "slow readers"}

Cell = dict
Column = tuple[str, Callable[[list[Cell]], str]]


def markdown(record: dict) -> str:
    """The whole page."""
    cells, plan = record["cells"], record["plan"]
    parts = [
        "# The connection ladder",
        (
            "Written by `make ladder`. A figure is the median of the rounds, with the lowest and the highest in brackets; "
            "a ratio is taken within each round. What is held and how: [connections](../connections.md)."
        ),
        _head(record),
        "## Reading\n\n" + "\n".join(f"- {line}" for line in _reading(record)),
    ]
    if idle := cells.get("idle"):
        parts += [
            "## Idle connections",
            _idle_text(plan),
            _rows(idle, ("path", "connections"), IDLE),
        ]
        parts += ["Memory of each connection, and live requests beside all of them:"]
        parts += [_rows(idle, ("path", "connections"), BESIDE)]
    if slow := cells.get("slow"):
        parts += ["## Slow clients", _slow_text(plan), _rows(slow, ("path", "manner"), SLOW)]
        parts += [_rows(slow, ("path", "manner"), BESIDE)]
    if rush := cells.get("at-once"):
        parts += [f"## {plan['requests']:,} requests at once", _rush_text(plan)]
        parts += [
            _rows(rush, ("target", "connections", "come"), RUSH),
            "What the kernel counted meanwhile:",
        ]
        parts += [_rows(rush, ("target", "connections", "come"), KERNEL)]
    return "\n\n".join(parts) + "\n"


def _head(record: dict) -> str:
    machine = record["machine"]
    own = "a network namespace of its own, with the settings of the profile web-10k"
    rows = [
        ["date", machine["date"]],
        ["machine", f"{machine['cpu']}, {machine['cores']} cores, {machine['kernel']}"],
        ["sources", machine["sources"]],
        ["build", f"cargo's profile {record['profile']}"],
        ["network", own if record["own_network"] else "the machine's loopback, with its settings"],
        ["connections of a process", f"at most {record['files']:,}, for its limit of open files"],
        ["load before", " ".join(f"{value:.2f}" for value in record["load_average_before"])],
        ["duration", f"{record['seconds']:.0f} s"],
    ]
    return table(["", ""], rows)


def _reading(record: dict) -> list[str]:
    cells = record["cells"]
    lines = [f"{_wrong(cells)} of {asked(cells):,} connections and requests failed."]
    for path, group in _groups(cells.get("idle", []), ("path",)).items():
        most = max(cell["connections"] for cell in group)
        top = [cell for cell in group if cell["connections"] == most]
        lines.append(
            f"{path[0].capitalize()}, {most:,} idle connections: all open after "
            f"{spread([cell['opened']['seconds'] for cell in top], 2)} s, p99 of live requests "
            f"{spread([cell['p99_ratio'] for cell in top], 2)} times that without them."
        )
    for target, group in _groups(cells.get("at-once", []), ("target",)).items():
        first = [
            cell for cell in group if (cell["connections"], cell["come"]) == ("new", at_once.MOMENT)
        ]
        if first:
            lines.append(
                f"At once on new connections, {target[0]}: p50 {_times(first, 'answer_ms', 'p50')} ms, longest "
                f"{_times(first, 'answer_ms', 'max')} ms; {narrowest(group)}."
            )
    if "at-once" in cells:
        lines.append(f"Published for 20,000 simultaneous requests of 4 KiB: {PUBLISHED}.")
    return lines


def _wrong(cells: dict) -> str:
    found = wrong(cells)
    return f"{found:,}" if found else "None"


def narrowest(group: list[Cell]) -> str:
    """The narrowest window in which every round is within the published figures."""
    spread_out = [
        cell for cell in group if cell["connections"] == "new" and cell["come"] != at_once.FAST
    ]
    windows = _groups(spread_out, ("window_s",))
    within = [
        window
        for (window,), cells in windows.items()
        if all(
            cell["failed"] == 0
            and cell["answer_ms"].get("p50", 0) <= PUBLISHED_P50
            and cell["answer_ms"].get("max", 0) <= PUBLISHED_MAX
            for cell in cells
        )
    ]
    if not within:
        return "the published figures are not met in every round, however they are spread here"
    first = min(within)
    spread_over = f"spread over {first:g} s" if first else "in the same moment"
    return f"the published figures are met in every round when they come {spread_over}"


def _times(cells: list[Cell], name: str, percentile: str, digits: int = 0) -> str:
    found = [cell[name][percentile] for cell in cells if cell[name]]
    return spread(found, digits) if found else "–"


def _of(*keys: str, digits: int = 0) -> Callable[[list[Cell]], str]:
    def told(cells: list[Cell]) -> str:
        found = []
        for cell in cells:
            value = cell
            for key in keys:
                value = value.get(key) if isinstance(value, dict) else None
            if value is not None:
                found.append(value)
        return spread(found, digits) if found else "–"

    return told


def _processes(cells: list[Cell]) -> str:
    cell = cells[0]
    gateways = f", {cell['gateways']} gateways" if cell["gateways"] else ""
    return f"{cell['servers']} replicas{gateways}"


def _success(cells: list[Cell]) -> str:
    share = [100 * (1 - cell["opened"]["failed"] / cell["connections"]) for cell in cells]
    return spread(share, 2)


def _gateway_memory(cells: list[Cell]) -> str:
    return _of("kib_per_connection", "gateway", digits=1)(cells) if cells[0]["gateways"] else "–"


def _refusals(cells: list[Cell]) -> str:
    found = {status for cell in cells for status in cell["refusals"]}
    return ", ".join(sorted(found)) or "–"


IDLE: Sequence[Column] = (
    ("processes", _processes),
    ("opened, %", _success),
    ("all open after, s", _of("opened", "seconds", digits=2)),
    ("connect p50, ms", _of("opened", "connect_ms", "p50", digits=2)),
    ("p99, ms", _of("opened", "connect_ms", "p99", digits=2)),
    ("longest, ms", _of("opened", "connect_ms", "max", digits=1)),
    ("still open after", _of("left")),
)

BESIDE: Sequence[Column] = (
    ("server, KiB", _of("kib_per_connection", "server", digits=1)),
    ("gateway, KiB", _gateway_memory),
    ("kernel's objects, KiB", _of("kib_per_connection", "slab", digits=1)),
    ("its buffers, KiB", _of("kib_per_connection", "buffers", digits=1)),
    ("p50 alone, ms", _of("alone", "p50", digits=2)),
    ("p50 beside, ms", _of("beside", "p50", digits=2)),
    ("p99 alone, ms", _of("alone", "p99", digits=2)),
    ("p99 beside, ms", _of("beside", "p99", digits=2)),
    ("p99 ×", _of("p99_ratio", digits=2)),
)

SLOW: Sequence[Column] = (
    ("connections", _of("connections")),
    ("opened, %", _success),
    ("open beside the live requests", _of("open_beside")),
    ("open at the end", _of("left")),
    ("refused with", _refusals),
    ("lasted p50, s", _of("lasted_s", "p50", digits=1)),
    ("longest, s", _of("lasted_s", "max", digits=1)),
)

RUSH: Sequence[Column] = (
    ("failed", _of("failed")),
    ("p50, ms", _of("answer_ms", "p50")),
    ("p99, ms", _of("answer_ms", "p99")),
    ("longest, ms", _of("answer_ms", "max")),
    ("p50 since due, ms", _of("since_due_ms", "p50")),
    ("longest, ms", _of("since_due_ms", "max")),
    ("connect p99, ms", _of("connect_ms", "p99")),
    ("most at once", _of("most_at_once")),
    ("all answered after, s", _of("seconds", digits=2)),
)

KERNEL: Sequence[Column] = (
    ("SYNs sent again", _of("kernel", "TCPSynRetrans")),
    ("segments sent again", _of("kernel", "RetransSegs")),
    ("accept queue full", _of("kernel", "ListenOverflows")),
    ("packets dropped", _of("kernel", "dropped_packets")),
    ("CPU of the generator, s", _of("cpu_seconds", "generator", digits=2)),
    ("CPU of servers, s", _of("cpu_seconds", "server", digits=2)),
    ("CPU of gateways, s", _of("cpu_seconds", "gateway", digits=2)),
)


def _groups(cells: list[Cell], keys: tuple[str, ...]) -> dict[tuple, list[Cell]]:
    found: dict[tuple, list[Cell]] = {}
    for cell in cells:
        found.setdefault(tuple(cell[key] for key in keys), []).append(cell)
    return found


ORDER = ("direct", at_once.FLOOR, at_once.MEMORY, at_once.DISK, "gateway")


def _rows(cells: list[Cell], keys: tuple[str, ...], columns: Sequence[Column]) -> str:
    groups = sorted(_groups(cells, keys).items(), key=lambda group: ORDER.index(group[0][0]))
    rows = [
        [
            *(_label(name, value) for name, value in zip(keys, key, strict=True)),
            *(column(group) for _, column in columns),
        ]
        for key, group in groups
    ]
    heads = {"path": "", "target": "", "manner": ""}
    return table([*(heads.get(key, key) for key in keys), *(name for name, _ in columns)], rows)


def _label(key: str, value: object) -> str:
    if key == "manner":
        return MANNERS[str(value)]
    return f"{value:,}" if isinstance(value, int) else str(value)


def _idle_text(plan: dict) -> str:
    return (
        f"Each connection asks once and is then silent; {plan['opened_per_second']:,.0f} are begun each second. Beside them "
        f"are {plan['rate']:,.0f} requests of `/hello` each second, open loop, on connections of their own: for "
        f"{plan['seconds']:g} s before the others are opened, and for as long beside them."
    )


def _slow_text(plan: dict) -> str:
    return (
        f"{plan['slow']:,} clients. A slow header grows by one byte each second and never ends; server and gateway allow "
        "10 s for a whole one. A slow reader has the smallest receive buffer, asks for 4 MiB and takes 512 bytes each second."
    )


def _rush_text(plan: dict) -> str:
    return (
        "A file of 4 KiB. A time is from the request's own first SYN, or where the connections are open already from its own "
        "sending, to the last byte of the reply; “since due” counts from the moment in which it was to begin, so that the "
        "generator's own work is in it. Generator, servers and gateways share both CPUs. floor is one epoll loop that sends "
        "the file from an array: what the kernel and the generator alone take."
    )
