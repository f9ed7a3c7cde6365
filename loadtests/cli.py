"""The commands of `python3 loadtests`: every scenario is one."""

import os
import signal
import sys

from loadtests import runs, scenario, suite
from loadtests.cluster import command as cluster
from loadtests.usage import Parser, UsageError
from tools.errors import ToolError

COMMANDS = (
    scenario,
    suite,
    cluster,
    runs,
)
"""Modules with `add(commands)`, which sets `run`: from the parsed options to the exit status."""


def main(arguments: list[str]) -> int:
    """Runs one command: 0, 99 when a threshold does not hold, 1 when nothing could be tested."""
    parser = Parser(
        prog="python3 loadtests",
        description="Runs a scenario through the gateway, or another command; keeps what it found.",
        epilog="Environment: GATEWAY_URL (else the instance that make up started, INSTANCE), "
        "REPLICAS (how many must answer behind GATEWAY_URL)",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add(commands)
    options = parser.parse_args(arguments)
    # Ended like by Ctrl-C, so that nothing that was started is left.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return options.run(options)
    except UsageError as error:
        print(f"loadtests: {error}", file=sys.stderr)
        return os.EX_USAGE
    except ToolError as error:
        print(f"loadtests: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
