"""The commands of `python3 hack/cluster`."""

import argparse
import os
import signal
import sys
from pathlib import Path

from cluster import down, settings, up
from tools.errors import ToolError


def main(arguments: list[str]) -> int:
    """Runs one command and returns its exit status."""
    options = _parser().parse_args(arguments)
    try:
        result = _run(options)
        sys.stdout.flush()
        return result
    except ToolError as error:
        print(f"hack/cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 hack/cluster",
        description="Two Kubernetes nodes on this machine, without Docker.",
        epilog="Environment: " + ", ".join(settings.VARIABLES),
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("up", help="start the cluster and wait until it can be used")
    commands.add_parser("down", help="end the cluster, and check that nothing is left")
    commands.add_parser("status", help="show components, nodes and pods")
    commands.add_parser("kubeconfig", help="print the path of the kubeconfig to use")
    load = commands.add_parser("load", help="make images known to all nodes")
    load.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE")
    return parser


def _run(options: argparse.Namespace) -> int:
    ours = settings.load()
    if options.command == "up":
        return up.main(ours)
    if options.command == "down":
        return down.main(ours)
    raise ToolError("not yet")
