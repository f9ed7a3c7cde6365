"""`instructions`: counts the rows, and writes the table or compares with it."""

import platform
import re
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from images import platforms, rust
from loadtests.bench import machine
from loadtests.bench.instructions import count, table
from loadtests.bench.instructions.rows import ROWS, Row
from tools import progress, versions
from tools import table as tools

RUNS = 5
"""Of each row in the table."""

TRIES = 3
"""Most runs of a row that is over the limit."""

AT_ONCE = 2


@dataclass(frozen=True)
class Plan:
    """What is counted, and how often."""

    rows: tuple[str, ...] = tuple(row.name for row in ROWS)
    runs: int = RUNS
    length: count.Length = field(default_factory=count.Length)
    server: Path | None = None
    """Another build of corelane-server."""

    def chosen(self) -> list[Row]:
        """The rows by their names."""
        return [row for row in ROWS if row.name in self.rows]


def write(plan: Plan, out: Path, budget: Path) -> int:
    """Counts, shows and writes the page and the budget."""
    if reason := _unfit():
        return _skipped(reason)
    rows = plan.chosen()
    with count.with_tools(_server(plan)) as programs:
        pairs: dict[str, list[count.Pair]] = {row.name: [] for row in rows}
        for number in range(1, plan.runs + 1):
            for row, found in _counted(rows, programs, plan.length):
                pairs[row.name].append(found)
                each = count.per_request([found], plan.length)
                progress.say(f"run {number}/{plan.runs}", f"{row.name}: {each:,} instructions")
        valgrind = versions.remembered(programs.valgrind, tools.find("valgrind"))
    record = {
        "runs": plan.runs,
        "length": asdict(plan.length),
        "toolchain": toolchain(),
        "valgrind": valgrind,
        "machine": machine.describe(),
        "rows": {
            row.name: {
                "what": row.what,
                "instructions": count.per_request(pairs[row.name], plan.length),
                "runs": [count.per_request([each], plan.length) for each in pairs[row.name]],
            }
            for row in rows
        },
    }
    print(table.write(record, out, budget))
    progress.say("results", f"in {out / table.MARKDOWN} and {budget / table.BUDGET}")
    return 0


def check(plan: Plan, kept: Path) -> int:
    """Compares with the table of a folder; 1 when a row takes more than it may."""
    if reason := _unfit():
        return _skipped(reason)
    record, rows = table.read(kept), plan.chosen()
    pairs: dict[str, list[count.Pair]] = {row.name: [] for row in rows}
    over = rows
    with count.with_tools(_server(plan)) as programs:
        for _ in range(plan.runs):
            for row, found in _counted(over, programs, plan.length):
                pairs[row.name].append(found)
            counts = {name: count.per_request(found, plan.length) for name, found in pairs.items()}
            over = [row for row in rows if not table.fits(row.name, counts[row.name], record)]
            if not over:
                break
    print(table.comparison(counts, record))
    other = [
        f"{name} {version} where the table has {record['toolchain'].get(name)}"
        for name, version in toolchain().items()
        if version != record["toolchain"].get(name)
    ]
    if other:
        print(f"Built with another toolchain: {', '.join(other)}.")
    if over and toolchain()["rustc"] != record["toolchain"]["rustc"]:
        print("Another compiler makes other instructions: shown, and not judged.")
        return 0
    if over:
        names = ", ".join(row.name for row in over)
        print(
            f"More than {table.LIMIT} times what is committed: {names}. If that is wanted: make bench "
            f"BENCH=instructions, and commit {table.BUDGET} and {table.MARKDOWN} with the change."
        )
    return 1 if over else 0


def toolchain() -> dict[str, str]:
    """What the server is built with: its own compiler, that of the allocator and the database, and the C library."""
    return {
        "rustc": _version("rustc", "--version"),
        "cc": _version("cc", "-dumpfullversion"),
        "glibc": platform.libc_ver()[1],
    }


def _version(*argv: str) -> str:
    result = subprocess.run(argv, capture_output=True, text=True, check=True)
    return re.search(r"\d+(\.\d+)+", result.stdout)[0]


def _unfit() -> str:
    """Why the table is not of this machine, if so."""
    if platform.machine() != "x86_64":
        return f"the table is of x86-64, this machine is {platform.machine()}"
    if not re.search(r"^flags\b.* avx2\b", Path("/proc/cpuinfo").read_text(), re.MULTILINE):
        return "the table is of CPUs with AVX2, which this one lacks"
    return ""


def _skipped(reason: str) -> int:
    progress.say("instructions", f"skipped: {reason}")
    return 0


def _server(plan: Plan) -> Path:
    return plan.server or rust.build(rust.SERVER, platforms.native())


def _counted(
    rows: Sequence[Row], programs: count.Programs, length: count.Length
) -> Iterator[tuple[Row, count.Pair]]:
    """The rows with their counts, as they are ready: so many at a time as there are CPUs for."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from zip(
            rows, pool.map(lambda row: count.pair(row, programs, length), rows), strict=True
        )
