"""The commands of `python3 loadtests/bench`."""

import signal
import sys

from loadtests.bench.compare import simulation
from loadtests.bench.experiment import command
from loadtests.bench.registry import EXPERIMENTS
from loadtests.usage import Parser
from tools.errors import ToolError


def main(arguments: list[str]) -> int:
    """Runs one benchmark; 1 when a request failed or nothing could be measured."""
    parser = Parser(prog="python3 loadtests/bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for experiment in EXPERIMENTS.values():
        command.add(commands, experiment)
    command.add_report(commands, EXPERIMENTS)
    simulation.add(commands)
    options = parser.parse_args(arguments)
    # Ended like by Ctrl-C, so that nothing that was started is left. A shell without jobs ignores both for
    # what it starts in the background.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    try:
        return options.run(options)
    except ToolError as error:
        print(f"loadtests/bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
