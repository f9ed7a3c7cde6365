"""The command `threads` of `python3 loadtests/bench`."""

import argparse
from dataclasses import replace

from loadtests.bench.options import OUT, RESULTS, add_builds, add_folder, positive, some_of
from loadtests.bench.threads import run
from loadtests.bench.threads.backlog import Crowd
from loadtests.bench.threads.matrix import CONNECTIONS, ITERATIONS, Length
from loadtests.bench.threads.shapes import ONE, SHAPES

QUICK = replace(
    run.Plan(),
    rounds=1,
    connections=(1, 20),
    iterations=(0, 10_000),
    length=Length(brief=0.1, dear=0.1, dearest=0.1, warm_up=0.02),
    crowd=Crowd(connections=20, iterations=1_000),
    queue=4_000,
    waiting=(1, 2_000),
)


def add(commands: argparse._SubParsersAction) -> None:
    """Adds it to the commands."""
    parser = commands.add_parser(
        "threads",
        help="threads x connections x iterations: lanes, a shared queue with N threads, one thread",
        description="Measures speed-ups by threads, connections and iterations for lanes, for a shared queue "
        "with N threads and for one thread; then one suspect after the other for speed-ups above the number "
        "of CPUs: the queue, the cache, the measurement. Takes root for network namespaces, and valgrind.",
    )
    parser.add_argument("--rounds", type=positive, metavar="N", help=f"default: {run.ROUNDS}")
    parser.add_argument("--quick", action="store_true", help="a few cells, shorter, once")
    parser.add_argument(
        "--parts",
        type=some_of(run.PARTS),
        default=run.PARTS,
        metavar="NAMES",
        help=f"some only, with commas between: {','.join(run.PARTS)}",
    )
    for flag, known in (("connections", CONNECTIONS), ("iterations", ITERATIONS)):
        parser.add_argument(
            f"--{flag}",
            type=some_of([str(each) for each in known]),
            metavar="NUMBERS",
            help=f"some of the matrix only, with commas between: {','.join(map(str, known))}",
        )
    parser.add_argument(
        "--shapes",
        type=_shapes,
        metavar="NAMES",
        help=f"some of the matrix only, with semicolons between: {'; '.join(SHAPES)}",
    )
    add_folder(parser)
    add_builds(parser)
    parser.set_defaults(run=_threads)


def _threads(options: argparse.Namespace) -> int:
    plan = QUICK if options.quick else run.Plan()
    numbers = {
        name: tuple(map(int, chosen))
        for name in ("connections", "iterations")
        if (chosen := getattr(options, name))
    }
    plan = replace(
        plan,
        rounds=options.rounds or plan.rounds,
        parts=options.parts,
        shapes=options.shapes or plan.shapes,
        server=options.server and options.server.resolve(),
        profile=options.profile,
        **numbers,
    )
    full = plan == run.Plan()
    return run.main(plan, options.out or (RESULTS if full else OUT))


def _shapes(text: str) -> tuple[str, ...]:
    chosen = [name.strip() for name in text.split(";")]
    for name in chosen:
        if name not in SHAPES:
            raise argparse.ArgumentTypeError(f"{name}: there are {'; '.join(SHAPES)}")
    # Speed-ups are over one thread, so it is always there.
    return tuple(name for name in SHAPES if name in (*chosen, ONE.name))
