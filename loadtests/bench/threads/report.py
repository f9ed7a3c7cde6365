"""The report of `threads`."""

from loadtests.bench.text import table
from loadtests.bench.threads import method, reading, tables
from loadtests.bench.threads.tables import cpu_us


def wrong(record: dict) -> int:
    """Requests without the right answer."""
    return sum(sample["wrong"] for sample in reading.all_samples(record))


def brief(found: dict) -> str:
    """One measurement in a line, for who watches."""
    if "ll_misses" in found:
        return f"{found['d1_misses']:.2f} misses of D1, {found['ll_misses']:.2f} of LL"
    if "cpu_ns" in found:
        return f"{found['cpu_ns']:,.0f} ns of CPU time"
    (cost,) = cpu_us([found])
    return (
        f"{found['requests_per_second']:,.0f}/s, {cost:,.1f} µs, {found['server_cores']:.2f} cores, "
        f"{found['wrong']} wrong"
    )


SECTIONS = {
    "matrix": (
        ("## Speed-ups", method.MATRIX, tables.speed_up_table),
        ("## CPU time of a request and cores of the server", method.COST, tables.cost_table),
    ),
    "queue": (
        ("## Suspects: the queue and the cache", method.QUEUE, tables.queue_table),
        ("### Threads on that queue", method.OFFLINE, tables.offline_table),
    ),
    "one-cpu": (("## Suspect: threads without CPUs", method.ONE_CPU, tables.one_cpu_table),),
    "backlog": (("## Suspect: the accept queue", method.BACKLOG, tables.backlog_table),),
    "company": (("## Suspect: other programs", method.COMPANY, tables.company_table),),
    "reuse": (("## Suspect: a connection for each request", method.REUSE, tables.reuse_table),),
}
"""By part: title, how it is measured, and the table."""


def markdown(record: dict) -> str:
    """The whole report."""
    rounds = record["plan"]["rounds"]
    parts = [
        "# Threads, connections and iterations: lanes, a shared queue, one thread",
        (
            f"Written by `make bench BENCH=threads`. A figure is the median of {rounds} rounds, with the lowest and "
            "the highest in brackets; a ratio is taken within each round. "
            "[docs/threads.md](../threads.md) says what follows from it."
        ),
        _setting(record),
        "## Reading",
        "\n".join(f"- {sentence}" for sentence in reading.sentences(record)),
    ]
    if "matrix" in record["samples"]:
        parts.append("![Speed-ups, and what a queue costs](bench-threads.svg)")
    parts += ["## The published figures", method.PUBLISHED, tables.beside_published()]
    for part in record["samples"]:
        for title, words, figures in SECTIONS[part]:
            parts += [title, words, figures(record)]
    return "\n\n".join([*parts, "## How it is measured", method.common(record)]) + "\n"


def _setting(record: dict) -> str:
    machine, load = record["machine"], record["load_average"]
    rows = {
        "command": f"`{record['command']}`",
        "date": machine["date"],
        "machine": f"{machine['cpu']}, {machine['cores']} cores, {machine['kernel']}",
        "sources": machine["sources"],
        "versions": ", ".join(f"{name} {version}" for name, version in record["versions"].items()),
        "build": f"cargo's profile {record['plan']['profile']}",
        "rounds": f"{record['plan']['rounds']}; {record['seconds'] / 60:.1f} minutes in all",
        "load average": ", ".join(
            f"{' '.join(f'{average:.2f}' for average in averages)} {when}"
            for when, averages in load.items()
        ),
    }
    return table(["", ""], [[name, text] for name, text in rows.items()])
