"""The commands of `python3 loadtests/bench`."""

import signal
import sys

from loadtests.bench.balancing.experiment import Balancing
from loadtests.bench.capacity.experiment import Capacity
from loadtests.bench.compare.experiment import Compare
from loadtests.bench.competitors.experiment import Competitors
from loadtests.bench.connections.experiment import Connections
from loadtests.bench.experiment import command
from loadtests.bench.experiment.base import Experiment
from loadtests.bench.gateway.experiment import Gateway
from loadtests.bench.instructions.experiment import Instructions
from loadtests.bench.mixed.experiment import Mixed
from loadtests.bench.soak.experiment import Soak
from loadtests.bench.threads.experiment import Threads
from loadtests.usage import Parser
from tools.errors import ToolError

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Competitors(),
        Gateway(),
        Balancing(),
        Capacity(),
        Connections(),
        Mixed(),
        Threads(),
        Compare(),
        Instructions(),
        Soak(),
    )
}


def main(arguments: list[str]) -> int:
    """Returns 1 if a request failed or nothing could be measured."""
    parser = Parser(prog="python3 loadtests/bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for experiment in EXPERIMENTS.values():
        command.add(commands, experiment)
    command.add_report(commands, EXPERIMENTS)
    options = parser.parse_args(arguments)
    # Both signals act like Ctrl-C, so that no process remains. A shell without job control makes
    # background processes ignore both.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    try:
        return options.run(options)
    except ToolError as error:
        print(f"loadtests/bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
