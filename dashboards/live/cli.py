"""The commands of `python3 dashboards/live`."""

import argparse
import sys

from dashboards.live import check
from tools.errors import ToolError


def _screenshots() -> int:
    # Only here: it takes matplotlib, which `make screenshots` has.
    from dashboards.live import screenshots

    return screenshots.main()


COMMANDS = {"check": check.main, "screenshots": _screenshots}

USAGE = 64
"""EX_USAGE of sysexits.h."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:
        self.exit(USAGE, f"{self.prog}: {message}\n")


def main(arguments: list[str]) -> int:
    """Runs one command and returns its exit status."""
    parser = _Parser(
        prog="python3 dashboards/live",
        description="Runs the whole platform for a while, and looks at its dashboards.",
        epilog="Environment: PROFILE (of the build; dev), BINARIES (a folder of built programs "
        "instead), TEST_PORTS (LOW-HIGH, the range that ports are drawn from)",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser(
        "check", help="ask every query of every dashboard; exit 1 unless all answer"
    )
    commands.add_parser("screenshots", help="draw every dashboard into docs/images")
    options = parser.parse_args(arguments)
    try:
        return COMMANDS[options.command]()
    except ToolError as error:
        print(f"dashboards/live: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
