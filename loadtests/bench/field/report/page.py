"""bench.md: the whole comparison as tables."""

from loadtests.bench.field.report import growth, method, reading, summary, tables
from loadtests.bench.field.report.rows import TITLES

OVERALL = ("cpu", "footprint")
"""The pictures of several parts, which are shown first."""

AFTER = {
    "hello": ("latency-hello",),
    "file-4k": ("latency-file-4k",),
    "projects": ("latency-projects",),
    "mixed": ("mixed",),
    "c10k": ("c10k",),
    "proxies": ("proxies",),
}
"""The pictures below the tables of each workload."""


def markdown(record: dict, pictures: set[str]) -> str:
    """The report; it shows the pictures that there are."""
    found = [
        "# Corelane beside the field",
        (
            "Written by `make bench`. A figure is the median of the rounds, with the lowest and the highest in brackets; "
            "ratios are taken within a round. [benchmarks.md](../benchmarks.md) says why and how."
        ),
        reading.facts(record),
        "## Reading",
        tables.bullets([*summary.sentences(record), *notes(record)]),
        *(_image(one, pictures) for one in OVERALL),
    ]
    if places := summary.first(record):
        found += ["## Who is first", method.first(record), places]
        found += ["## Where Corelane is behind", summary.losses(record)]
    for name, title in TITLES.items():
        made = tables.workload(record, name)
        if made:
            found += [f"## {title[0].upper()}{title[1:]}", method.of(record, name), *made]
            found += [image for one in AFTER.get(name, ()) if (image := _image(one, pictures))]
    grown = growth.parts(record)
    if grown:
        found.append("## How cost grows")
    for name, part in grown.items():
        found += [f"### {growth.TITLES[name]}", part.get("about", "")]
        found += [_image(f"scaling-{name}", pictures), *growth.tables(part)]
        found.append(tables.bullets(part.get("notes", [])))
    found += ["## Contenders", tables.contenders(record)]
    return "\n\n".join(one for one in found if one) + "\n"


def notes(record: dict) -> list[str]:
    """What the record says of itself."""
    return [
        *reading.quiet(record),
        *reading.compiled(record),
        *reading.answers(record),
        *reading.absent(record),
    ]


def _image(name: str, pictures: set[str]) -> str:
    file = f"bench-field-{name}.svg"
    words = {"cpu": "CPU time per request", "footprint": "Memory, start and size"}
    return f"![{words.get(name, name)}]({file})" if file in pictures else ""
