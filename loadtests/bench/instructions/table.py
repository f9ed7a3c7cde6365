"""The table that is kept, and what a new count says beside it."""

import tomllib
from pathlib import Path

from loadtests.bench import text

MARKDOWN = "instructions.md"
BUDGET = "budget.toml"
"""What a request may take, by row, and the toolchain that it is of: what the check reads."""

LIMIT = 1.03
"""Most instructions of a request, in those of the table."""


def read(folder: Path) -> dict:
    """The budget of a folder."""
    return tomllib.loads((folder / BUDGET).read_text())


def write(record: dict, pages: Path, budget: Path) -> str:
    """Writes the page for readers and the budget; the page."""
    shown = markdown(record)
    for folder, name, content in ((pages, MARKDOWN, shown), (budget, BUDGET, _toml(record))):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return shown


def _toml(record: dict) -> str:
    versions = [f'{name} = "{version}"' for name, version in record["toolchain"].items()]
    rows = [f'"{name}" = {row["instructions"]}' for name, row in record["rows"].items()]
    head = (
        "# Written by `make bench BENCH=instructions`; `make check-instructions` compares with it."
    )
    return "\n".join([head, "[toolchain]", *versions, "", "[instructions]", *rows]) + "\n"


def fits(name: str, count: int, record: dict) -> bool:
    """Whether a row's count is within the limit of the table's; a row that is not there does not fit."""
    known = record["instructions"].get(name)
    return known is not None and count <= LIMIT * known


def comparison(counts: dict[str, int], record: dict) -> str:
    """Both counts of each row."""
    rows = []
    for name, count in counts.items():
        known = record["instructions"].get(name)
        ratio = f"{count / known:.3f}" if known else "not committed"
        rows.append([name, f"{known:,}" if known else "", f"{count:,}", ratio])
    return text.table(["row", "committed", "now", "ratio"], rows)


def markdown(record: dict) -> str:
    """The table for readers."""
    rows = [
        [name, row["what"], f"{row['instructions']:,}", f"{_spread(row):.2f}%"]
        for name, row in record["rows"].items()
    ]
    built = ", ".join(f"{name} {version}" for name, version in record["toolchain"].items())
    length, found = record["length"], record["machine"]
    worst = max(map(_spread, record["rows"].values()))
    parts = [
        "# Instructions of a request",
        (
            "Written by `make bench BENCH=instructions`. `make check-instructions` counts again and fails where a row "
            f"takes more than {LIMIT} times what stands here; CI does so. Where that is wanted, "
            "`make bench BENCH=instructions` writes the new table, to be committed with the change."
        ),
        text.table(["row", "what is asked", "instructions", "spread"], rows),
        (
            f"The lowest of {record['runs']} runs of each length, because what disturbs a run adds to it; the "
            f"spread is from the lowest difference to the highest, {worst:.2f}% at most."
        ),
        "## How it is counted",
        _method(length),
        (
            f"Built with {built}; valgrind {record['valgrind']}. {found['cpu']}, {found['kernel']}, "
            f"{found['date']}; sources {found['sources']}."
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _spread(row: dict) -> float:
    runs = row["runs"]
    return 100 * (max(runs) - min(runs)) / row["instructions"]


def _method(length: dict) -> str:
    return f"""\
The server as it is put into its image: a release build, linked statically, the same bytes wherever that toolchain
builds it. It runs under callgrind with one lane, {length["short"]:,} requests in one run and {length["long"]:,} in
another; what the second has more, per request, is the figure. So start and end count in none. Counted is what the
lane's thread executes, of `project` also the thread that reads the database. The kernel's instructions are not
seen, and the clock is read by a system call here, because valgrind hides the vDSO.

One connection, one request at a time, each sent when the lane sleeps: so every request takes the same way, and
each pays for a turn of the event loop, which under load many share. `pipelined` is what remains without it.

What would differ from run to run or from machine to machine is fixed: the environment, the files' times, the
document, the lengths of names and ports, and the copies of `memcpy` and the like, by `GLIBC_TUNABLES`: the next
slower ones add 6% to `hello`. Valgrind shows a program the same CPU on every machine with AVX2, and 3.24 counts
within 0.5% of what 3.19 does. What is left is chance: keys of hash maps, request ids,
and what is done by the clock (a kept file is looked at on disk again, the date is written anew, deadlines are
looked at), and the speed of the machine: the lane measures how long its handlers hold it, and one that seems dear,
as on a machine that is busy with others, waits for its turn. So the server runs before ordinary processes where
that is allowed, and a row that is over the limit is counted up to three times."""
