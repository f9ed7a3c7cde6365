"""The command `instructions` of `python3 loadtests/bench`."""

import argparse
from pathlib import Path

from loadtests.bench.instructions import run
from loadtests.bench.instructions.count import Length
from loadtests.bench.options import OUT, RESULTS, add_folder, positive

HERE = Path(__file__).resolve().parent
"""Where the budget is kept."""


def add(commands: argparse._SubParsersAction) -> None:
    """Adds it to the commands."""
    parser = commands.add_parser(
        "instructions",
        help="instructions of a request by callgrind: the table that is kept, or a check against it",
        description="Counts the instructions of a request on each of the server's ways, in the build that is put "
        "into its image, and writes the table. With --check it compares with the committed one.",
    )
    parser.add_argument("--check", action="store_true", help="compare with the table, write none")
    parser.add_argument(
        "--rows",
        type=_rows,
        default=run.Plan().rows,
        metavar="NAMES",
        help=f"some only, with semicolons between: {'; '.join(run.Plan().rows)}",
    )
    parser.add_argument(
        "--runs",
        type=positive,
        metavar="N",
        help=f"of each row; default: {run.RUNS}, with --check at most {run.TRIES}",
    )
    parser.add_argument(
        "--requests",
        type=positive,
        metavar="N",
        help=f"counted; default: {Length().long - Length().short}",
    )
    parser.add_argument(
        "--server", type=Path, metavar="PROGRAM", help="another build of corelane-server"
    )
    add_folder(parser)
    parser.set_defaults(run=_instructions)


def _instructions(options: argparse.Namespace) -> int:
    length = Length()
    if options.requests:
        length = Length(length.short, length.short + options.requests)
    plan = run.Plan(
        rows=options.rows,
        runs=options.runs or (run.TRIES if options.check else run.RUNS),
        length=length,
        server=options.server and options.server.resolve(),
    )
    if options.check:
        return run.check(plan, options.out or HERE)
    kept = (RESULTS, HERE) if plan == run.Plan() else (OUT, OUT)
    return run.write(plan, *((options.out, options.out) if options.out else kept))


def _rows(text: str) -> tuple[str, ...]:
    chosen = [name.strip() for name in text.split(";")]
    for name in chosen:
        if name not in run.Plan().rows:
            raise argparse.ArgumentTypeError(f"{name}: there are {'; '.join(run.Plan().rows)}")
    return tuple(name for name in run.Plan().rows if name in chosen)
