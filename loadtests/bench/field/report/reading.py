"""What a record says of itself: how quiet the machine was, what went wrong, what took how long."""

from collections import Counter, defaultdict

from loadtests.bench import machine
from loadtests.bench.field.report.rows import C10K, IDLE, MIXED, PROXIES
from loadtests.bench.text import spread, table

REST = (MIXED, IDLE, C10K, PROXIES)
"""Parts without loops."""

BUSY = 0.9
"""Of its CPU; a server that was less busy in the closed loop was waiting for the generator."""


def facts(record: dict) -> str:
    """Machine, versions and plan."""
    about, plan, load = record["machine"], record["plan"], record.get("load_average", {})
    pairs = [
        ("date", about["date"]),
        ("machine", f"{about['cpu']}, {about['cores']} cores, {about['kernel']}"),
        ("sources", about["sources"]),
        ("versions", ", ".join(f"{name} {text}" for name, text in record["versions"].items())),
        ("rounds", str(plan["rounds"]) + (", quick" if plan.get("quick") else "")),
    ]
    if isinstance(load, dict) and load:
        told = (f"{' '.join(f'{one:.2f}' for one in found)} {name}" for name, found in load.items())
        pairs.append(("load average", ", ".join(told)))
    if record.get("parts"):
        minutes = sum(record["parts"].values()) / 60
        each = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in record["parts"].items())
        pairs.append(("measuring took", f"{minutes:.1f} minutes: {each}"))
    return table(["", ""], [list(pair) for pair in pairs])


def quiet(record: dict) -> list[str]:
    """How much others took, and where the generator was the limit."""
    samples = list(_samples(record))
    others = [
        one["closed"]["others_cores"]
        for _, _, one in samples
        if "others_cores" in (one.get("closed") or {})
    ]
    told = [machine.others(others)] if others else []
    limited = {
        name
        for workload, name, one in samples
        if workload != "projects" and (one.get("closed") or {}).get("busy", 1.0) < BUSY
    }
    if limited:
        told.append(
            f"The generator was the limit, or near it, of {', '.join(sorted(limited))}: their CPUs were less than "
            f"{BUSY:.0%} busy in a closed loop, their throughput is a lower bound, and waking up is part of their CPU time."
        )
    return told


def compiled(record: dict) -> list[str]:
    """How much of what was measured was the compiler's, where code is compiled while it runs."""
    shares = defaultdict(list)
    for _, name, one in _samples(record):
        if "compiling" in (one.get("closed") or {}):
            shares[name].append(100 * one["closed"]["compiling"])
    return [
        f"The compiler of {name} took {spread(found, 1)}% of the CPU time that was measured in closed loops."
        for name, found in shares.items()
    ]


def wrong(record: dict) -> int:
    """Requests that got a wrong answer or none, in all parts."""
    return sum(one.get("wrong", 0) for _, one in _counted(record))


def answers(record: dict) -> list[str]:
    """Whether all replies were right; that ab got none from a server is a finding, and told beside it."""
    bad, failed, grown = Counter(), Counter(), Counter()
    for name, one in _counted(record):
        bad[name] += one.get("wrong", 0)
    for name, taken in record.get(C10K, {}).items():
        failed[name] += sum(one.get("failed", 0) for one in taken)
    for part in record.get("scaling", {}).values():
        grown.update(part.get("failed", {}))
    bad, failed = +bad, +failed
    total = sum(one.get("requests", 0) for _, one in _counted(record))
    found = f"{bad.total():,} got a wrong answer or none ({_told(bad)})" if bad else ""
    told = f"Every reply was checked: of {total:,} requests {found or 'none got a wrong answer or none'}."
    without = f"Of ab's requests at 10,000 connections at once failed: {_told(failed)}."
    carried = f"Where load grew, peers gave no right reply to {_told(grown)}."
    return [told, *([without] if failed else []), *([carried] if grown else [])]


def absent(record: dict) -> list[str]:
    """Who could not be built or did not start, and who did not carry a workload."""
    told = [
        f"{name} did not take part, or not to the end: {one['missing']}"
        for name, one in record.get("contenders", {}).items()
        if one.get("missing")
    ]
    every = {**record.get("cells", {}), **{part: record.get(part, {}) for part in REST}}
    told += [
        f"{name} did not carry {part} in round {one.get('round', '?')}: {one['error']}"
        for part, by_name in every.items()
        for name, taken in by_name.items()
        for one in taken
        if "error" in one
    ]
    return told


def _samples(record: dict) -> list[tuple[str, str, dict]]:
    return [
        (workload, name, one)
        for workload, by_name in record.get("cells", {}).items()
        for name, taken in by_name.items()
        for one in taken
    ]


def _counted(record: dict) -> list[tuple[str, dict]]:
    """Whatever counts requests, with who answered them."""
    loops = [
        (name, loop)
        for _, name, one in _samples(record)
        for loop in (one.get("closed"), one.get("open"))
        if loop
    ]
    rest = [
        (name, one)
        for part in REST
        for name, taken in record.get(part, {}).items()
        for one in taken
    ]
    grown = [(f"how cost grows, {name}", one) for name, one in record.get("scaling", {}).items()]
    return loops + rest + grown


def _told(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())
