"""The report of `mixed`: the table beside the published one, latencies, CPU, and where time goes."""

from collections.abc import Iterator

from loadtests.bench.machine import others
from loadtests.bench.mixed import method, published, tables
from loadtests.bench.mixed.tables import values
from loadtests.bench.text import spread, table

PARTS = ("closed", "open", "pages")

Sample = dict


def parts(record: dict) -> Iterator[dict]:
    """Every run of the users."""
    for cell in record["cells"]:
        for sample in cell["samples"]:
            yield from (sample[part] for part in PARTS)


def errors(record: dict) -> int:
    """Requests that were no success."""
    return sum(part["errors"] for part in parts(record))


def brief(sample: Sample) -> str:
    """One sample in a line, for who watches."""
    closed, mixed, alone = (sample[part] for part in PARTS)
    page = mixed["latency_ms"].get("page", {}).get("99", 0.0)
    return (
        f"{closed['seconds']:.2f} s, {closed['requests_per_second']:,.0f}/s, "
        f"sd {closed['latency_ms']['all'].get('sd', 0.0):.1f} ms, page p99 {page:.2f} ms at "
        f"{mixed['rate']:,.0f}/s, {closed['errors'] + mixed['errors'] + alone['errors']} errors"
    )


def markdown(record: dict) -> str:
    """The whole report."""
    size = record["plan"]["size"]
    requests = size["users"] * size["rounds"] * 3
    found = [
        "# A page, a load and a save",
        (
            f"Written by `make bench BENCH=mixed`. {size['users']:,} users at once, each with a connection and a "
            f"project of its own: a page of 4 KiB, a load and a save of the project, {size['rounds']} times "
            f"in turn; {requests:,} requests. A figure is the median of the rounds, with the lowest and "
            "the highest in brackets."
        ),
        setting(record),
        "## Reading",
        "\n".join(f"- {sentence}" for sentence in reading(record)),
        "![Percentiles of the latency](bench-mixed.svg)",
        "## As fast as they can, beside the published figures",
        method.closed(record),
        tables.beside_published(record),
        "## Latencies of each kind, as fast as they can",
        tables.kinds(record, "closed"),
        "## Latencies of each kind, at a rate",
        method.open_loop(record),
        tables.kinds(record, "open"),
        "## A page beside the database",
        method.pages(record),
        tables.pages(record),
        "## CPU time of a request",
        method.cpu(),
        "As fast as they can:",
        tables.cpu(record, "closed"),
        "At the rate:",
        tables.cpu(record, "open"),
        "## Where the time goes",
        method.phases(),
        tables.phases(record),
        "## How it is measured",
        method.method(record),
    ]
    return "\n\n".join(found) + "\n"


def reading(record: dict) -> list[str]:
    """What the figures say, in sentences."""
    return [failures(record), *_modes(record), *_pages(record), disturbance(record)]


def failures(record: dict) -> str:
    """Whether every request was a success."""
    total = sum(part["requests"] for part in parts(record))
    found: dict[str, int] = {}
    for part in parts(record):
        for fault, count in part["faults"].items():
            found[fault] = found.get(fault, 0) + count
    named = ", ".join(f"{fault} {count:,}" for fault, count in sorted(found.items()))
    return (
        f"{errors(record) or 'None'} of {total:,} requests failed{f': {named}' if named else ''}."
    )


def _modes(record: dict) -> Iterator[str]:
    """Each mode in the time of many lanes with many slots, round by round."""
    by_place: dict[tuple[str, str], dict[str, list[float]]] = {}
    for cell in record["cells"]:
        place = by_place.setdefault((cell["database"], cell["path"]), {})
        place[cell["mode"]] = values(cell, "closed", "seconds")
    for mode in ("one-lane", "one-slot"):
        told = []
        for (database, path), found in by_place.items():
            if mode in found and "many-many" in found:
                pairs = zip(found[mode], found["many-many"], strict=True)
                ratio = spread([mine / best for mine, best in pairs], 2)
                told.append(f"{ratio} on {tables.place(database, path)}")
        theirs = published.MODES[mode].seconds / published.MODES["many-many"].seconds
        if told:
            title = tables.TITLES[mode]
            yield (
                f"{title[0].upper()}{title[1:]}, took so many times as long as many lanes with many "
                f"slots: {', '.join(told)}; published are {theirs:.2f}."
            )


def _pages(record: dict) -> Iterator[str]:
    for cell in record["cells"]:
        if cell["mode"] == "many-many":
            ratios = spread(tables.page_ratios(cell), 2)
            beside = values(cell, "open", "latency_ms", "page", "99")
            yield (
                f"{tables.place(cell['database'], cell['path'])}, many lanes, many slots: the p99 of a page "
                f"beside loads and saves is {spread(beside, 2)} ms, {ratios} of that among as many pages."
            )


def disturbance(record: dict) -> str:
    """How quiet the machine was."""
    return others([part["others_cores"] + part["stolen_cores"] for part in parts(record)])


def setting(record: dict) -> str:
    """What it was measured on."""
    machine, load = record["machine"], record["load_average"]
    versions = ", ".join(f"{name} {text}" for name, text in record["versions"].items())
    rows = {
        "command": f"`{record['command']}`",
        "date": machine["date"],
        "machine": f"{machine['cpu']}, {machine['cores']} cores, {machine['kernel']}",
        "file system": record["sync"]["file_system"],
        "a sync of 6 kB": f"{record['sync']['p50_ms']:.2f} ms in the median, p99 {record['sync']['p99_ms']:.2f} ms",
        "sources": machine["sources"],
        "versions": versions,
        "build": f"profile {record['profile']}",
        "rounds": f"{record['plan']['rounds']}; {record['seconds'] / 60:.1f} minutes in all",
        "load average": ", ".join(
            f"{' '.join(f'{average:.2f}' for average in averages)} {when}"
            for when, averages in load.items()
        ),
    }
    return table(["", ""], [[name, text] for name, text in rows.items() if text])
