"""The tables of bench.md: for each workload every contender, with its spread and its ratios."""

from loadtests.bench.field.report import measures
from loadtests.bench.field.report.measures import Measure
from loadtests.bench.field.report.rows import (
    C10K,
    FLOOR,
    GATEWAY,
    IDLE,
    MIXED,
    PROXIES,
    SIZE,
    US,
    WORKLOADS,
    Row,
    of_workload,
    rows,
    samples,
    with_latency,
)
from loadtests.bench.text import spread, table

NONE = "–"


def cell(row: Row | None, name: str) -> str:
    """The median of a contender, with the lowest and the highest."""
    if row is None or name not in row.values:
        return NONE
    values = row.all(name)
    if len(values) == 1:
        return f"{values[0]:,.{row.measure.digits}f}"
    return spread(values, row.measure.digits)


def ratio(row: Row | None, name: str, base: str) -> str:
    """Its value in that of another, taken within each round."""
    found = row.ratios(name, base) if row is not None else []
    if not found:
        return NONE
    return f"{found[0]:.2f}" if len(found) == 1 else spread(found, 2)


def middle(row: Row | None, name: str) -> str:
    """The median alone, of what hardly varies."""
    if row is None or name not in row.values:
        return NONE
    return f"{row.median(name):,.{row.measure.digits}f}"


def workload(record: dict, name: str) -> list[str]:
    """The tables of one workload; none where nobody took it."""
    if name in WORKLOADS:
        return [found for found in (closed(record, name), opened(record, name)) if found]
    found = {MIXED: mixed, IDLE: idle, SIZE: size, C10K: c10k, PROXIES: proxies}[name](record)
    return [found] if found else []


def closed(record: dict, name: str) -> str:
    """CPU time and throughput in a closed loop, the least CPU time first."""
    chosen = (measures.CPU, measures.RATE, measures.BUSY, measures.DATABASE)
    by = _by_measure(record, name, chosen)
    if "cpu" not in by:
        return ""
    cpu, rate, database = by["cpu"], by.get("rate"), by.get("database")
    head = ["closed loop", measures.CPU.head, "× floor", f"× {US}", "requests/s", f"× {US}"]
    lines = [
        [
            contender,
            cell(cpu, contender),
            *(ratio(cpu, contender, base) for base in (FLOOR, US)),
            cell(rate, contender),
            ratio(rate, contender, US),
            middle(by.get("busy"), contender),
            *([cell(database, contender)] if database else []),
        ]
        for contender in cpu.ordered()
    ]
    return table([*head, "CPU busy", *([measures.DATABASE.head] if database else [])], lines)


def opened(record: dict, name: str) -> str:
    """Latencies at a fixed rate, the lowest p99 first."""
    rest = (measures.OPEN_RATE, measures.OPEN_BUSY)
    by = _by_measure(record, name, (*measures.OPEN, measures.LOAD, measures.SAVE, *rest))
    if "p99" not in by:
        return ""
    latencies = [one for one in (*measures.OPEN, measures.LOAD, measures.SAVE) if one.key in by]
    head = ["open loop", *(one.head for one in latencies), f"p99, × {US}", "rate", "CPU busy"]
    lines = [
        [
            contender,
            *(cell(by[one.key], contender) for one in latencies),
            ratio(by["p99"], contender, US),
            *(middle(by.get(one.key), contender) for one in rest),
        ]
        for contender in by["p99"].ordered()
    ]
    return table(head, lines)


def mixed(record: dict) -> str:
    """Brief requests among dear ones, the lowest p99 of the brief first."""
    by = {row.measure.key: row for row in of_workload(record, MIXED)}
    chosen = (*measures.FAST, measures.SLOW[0], measures.SLOW[1])
    return _ranked(by, "fast_p99", chosen, US)


def idle(record: dict) -> str:
    """Start and memory, the least for a connection first."""
    by = {row.measure.key: row for row in of_workload(record, IDLE)}
    first = "connection" if "connection" in by else "start"
    return _ranked(by, first, measures.IDLE, US)


def size(record: dict) -> str:
    """Bytes that must be on disk, the fewest first."""
    chosen = (measures.PROGRAM, measures.RUNTIME, measures.TOTAL)
    by = _by_measure(record, SIZE, chosen)
    if "installed" not in by:
        return ""
    contenders = record["contenders"]
    lines = [
        [
            name,
            *(cell(by.get(one.key), name) for one in chosen),
            ratio(by["installed"], name, US),
            contenders[name]["installed"].get("what", ""),
        ]
        for name in by["installed"].ordered()
    ]
    return table(["", *(one.head for one in chosen), f"× {US}", "what is counted"], lines)


def c10k(record: dict) -> str:
    """ab with 10,000 connections, the lowest p99 first; failures and dropped handshakes are told."""
    found = of_workload(record, C10K)
    by = {row.measure.key: row for row in found}
    if "p99" not in by:
        return ""
    taken = samples(record, C10K)
    chosen = [row.measure for row in found]
    lines = [
        [
            name,
            *(cell(by.get(one.key), name) for one in chosen),
            ratio(by["p99"], name, US),
            f"{sum(one.get('failed', 0) for one in taken[name]):,}",
            _dropped(taken[name]),
        ]
        for name in by["p99"].ordered()
    ]
    published = record.get("published", {}).get(C10K, {})
    for name, sample in published.items():
        values = (one.of(with_latency(sample)) for one in chosen)
        told = (NONE if value is None else f"{value:,.0f}" for value in values)
        lines.append([name, *told, NONE, f"{sample.get('failed', 0):,}", NONE])
    head = ["", *(one.head for one in chosen), f"p99, × {US}", "failed", "handshakes dropped"]
    return table(head, lines)


def _dropped(taken: list[dict]) -> str:
    counts = [one["dropped"] for one in taken if "dropped" in one]
    return f"{sum(counts):,}" if counts else NONE


def proxies(record: dict) -> str:
    """In front of the same replica, the least CPU time first."""
    by = {row.measure.key: row for row in of_workload(record, PROXIES)}
    return _ranked(by, "cpu", measures.PROXIES, GATEWAY)


def contenders(record: dict) -> str:
    """Who takes part, and how it is run."""
    taking = {name: one for name, one in record["contenders"].items() if not one.get("missing")}
    proxies = {
        f"{name}, as a proxy" if name in taking else name: {"family": "proxy", **one}
        for name, one in record.get("proxy_settings", {}).items()
    }
    every = [*taking.items(), *proxies.items()]
    lines = [
        [name, one["family"], one.get("version", NONE), str(one.get("threads", 1))]
        for name, one in every
    ]
    settings = [f"**{name}**: {one['settings']}" for name, one in every if one.get("settings")]
    return table(["", "family", "version", "threads"], lines) + "\n\n" + bullets(settings)


def bullets(sentences: list[str]) -> str:
    """A list."""
    return "\n".join(f"- {sentence}" for sentence in sentences)


def _ranked(by: dict[str, Row], first: str, chosen: tuple[Measure, ...], us: str) -> str:
    """A column for each measure that there is, and the ratio of the one that orders them."""
    if first not in by:
        return ""
    chosen = tuple(one for one in chosen if one.key in by)
    lines = [
        [name, *(cell(by[one.key], name) for one in chosen), ratio(by[first], name, us)]
        for name in by[first].ordered()
    ]
    head = f"{by[first].measure.title}, × {us}"
    return table(["", *(one.head for one in chosen), head], lines)


def _by_measure(record: dict, name: str, chosen: tuple[Measure, ...]) -> dict[str, Row]:
    return {row.measure.key: row for row in rows(samples(record, name), name, chosen)}
