"""The commands `compare` and `compare-simulated` of `python3 loadtests`."""

import argparse
from pathlib import Path

from loadtests.bench.options import positive, some_of
from loadtests.compare import records, report, run, simulation, verdict
from loadtests.compare.measures import MARGINS, MEASURES
from loadtests.scenario import add_out
from loadtests.usage import UsageError
from tools import progress

SLOWER = 99
"""As of a threshold that does not hold."""

BY_NAME = {measure.name: measure for measure in MEASURES}


def add(commands: argparse._SubParsersAction) -> None:
    """Adds both."""
    parser = commands.add_parser(
        "compare",
        help="whether this tree is slower than another commit",
        description="Builds server and gateway of BASE and of this tree, and measures both alternately on the same "
        "CPUs. Exit status: 0 if this tree is not slower, 99 if it is, 1 if undecided or if nothing "
        "could be measured.",
    )
    parser.add_argument("base", metavar="BASE", help="a commit, branch or tag")
    parser.add_argument(
        "--rounds",
        type=_rounds,
        default=run.LOOKS,
        metavar="N[,N...]",
        help="rounds after which to judge; more follow while it is undecided; default: "
        + ",".join(map(str, run.LOOKS)),
    )
    parser.add_argument(
        "--only",
        type=some_of(BY_NAME),
        default=tuple(BY_NAME),
        metavar="MEASURES",
        help=f"some only, with commas between: {','.join(BY_NAME)}",
    )
    parser.add_argument(
        "--margin",
        type=_margins,
        default=MARGINS,
        metavar="KIND=PERCENT[,...]",
        help="how much slower does not matter; default: "
        + ",".join(f"{kind}={percent:g}" for kind, percent in MARGINS.items()),
    )
    parser.add_argument("--quick", action="store_true", help="shorter slices, for a first look")
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of the order of both builds"
    )
    parser.add_argument("--profile", default="release", help="cargo's; default: release")
    parser.add_argument("--server", type=Path, metavar="PROGRAM", help="another server as head's")
    parser.add_argument("--base-server", type=Path, metavar="PROGRAM", help="and as base's")
    parser.add_argument(
        "--allow-undecided", action="store_true", help="exit status 0 when that is the verdict"
    )
    parser.add_argument("--build-only", action="store_true", help="build both, and stop")
    add_out(parser)
    parser.set_defaults(run=_compare)
    _add_simulated(commands)


def _compare(options: argparse.Namespace) -> int:
    given = {"head": options.server, "base": options.base_server}
    for program in filter(None, given.values()):
        if not program.is_file():
            raise UsageError(f"{program}: no such program")
    plan = run.Plan(
        base=options.base,
        looks=options.rounds,
        measures=tuple(BY_NAME[name] for name in options.only),
        margins=options.margin,
        seconds=run.QUICK if options.quick else run.SECONDS,
        seed=options.seed,
        profile=options.profile,
        servers={name: program.resolve() for name, program in given.items() if program},
    )
    if options.build_only:
        run.prepare(plan)
        return 0
    _warn_of_few_rounds(plan)
    result = run.compare(plan)
    status = _status(result.look.verdict, options.allow_undecided)
    folder = records.write(result, status, options.out)
    print(report.markdown(result))
    print(f"report      {folder}")
    return status


def _status(found: str, allow_undecided: bool) -> int:
    """Undecided is neither "slower" nor "no slower"."""
    if found == verdict.SLOWER:
        return SLOWER
    return 1 if found == verdict.UNDECIDED and not allow_undecided else 0


def _warn_of_few_rounds(plan: run.Plan) -> None:
    least = verdict.fewest_rounds(len(plan.measures), len(plan.looks))
    if plan.looks[-1] < least:
        progress.say(
            "rounds", f"{plan.looks[-1]} cannot show that it is slower: that takes {least}"
        )


def _rounds(text: str) -> tuple[int, ...]:
    looks = tuple(positive(part) for part in text.split(","))
    if list(looks) != sorted(set(looks)):
        raise argparse.ArgumentTypeError(f"{text}: each number has to be above the one before")
    return looks


def _margins(text: str) -> dict[str, float]:
    found = dict(MARGINS)
    for part in text.split(","):
        kind, _, percent = part.partition("=")
        try:
            found[kind], known = float(percent), kind in MARGINS
        except ValueError:
            known = False
        if not known or not 0 < found[kind] < 1000:
            allowed = ", ".join(MARGINS)
            raise argparse.ArgumentTypeError(f"{part}: give KIND=PERCENT; kinds are {allowed}")
    return found


def _add_simulated(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "compare-simulated",
        help="how often compare is right, on invented comparisons whose truth is known",
        description="Judges invented rounds by the rules of compare, and prints how often each verdict was given.",
    )
    parser.add_argument(
        "--comparisons", type=positive, default=1000, metavar="N", help="of each row"
    )
    parser.add_argument("--rounds", type=_rounds, default=run.LOOKS, metavar="N[,N...]")
    parser.set_defaults(run=_simulated)


def _simulated(options: argparse.Namespace) -> int:
    print(simulation.table_of_verdicts(options.comparisons, options.rounds))
    return 0
