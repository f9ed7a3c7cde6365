"""The commands of `python3 hack/release`."""

import argparse
import sys
from pathlib import Path

from release import version
from tools.errors import ToolError

REPOSITORY = Path(__file__).resolve().parent.parent.parent


def main(arguments: list[str]) -> int:
    """Runs one command and returns its exit status."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
        return 0
    except ToolError as error:
        print(f"hack/release: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 hack/release", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    number = commands.add_parser("version", help="print the version, check it or set it")
    number.set_defaults(run=lambda _: print(version.current(REPOSITORY)))
    actions = number.add_subparsers(metavar="ACTION")
    check = actions.add_parser("check", help="fail where a file says another version")
    check.add_argument("--tag", help="fail too unless this is the tag of the version")
    check.set_defaults(run=_check)
    write = actions.add_parser("set", help="write it everywhere; keep the outgoing charts")
    write.add_argument("version", metavar="X.Y.Z")
    write.set_defaults(run=lambda options: version.write(REPOSITORY, options.version))
    return parser


def _check(options: argparse.Namespace) -> None:
    version.check(REPOSITORY)
    if options.tag:
        version.check_tag(REPOSITORY, options.tag)
