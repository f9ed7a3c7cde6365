"""The commands of `python3 hack/skaffold`; Skaffold runs them."""

import argparse
import os

from skaffold import local, push
from tools import ending


def main(arguments: list[str]) -> int:
    """Runs one command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="python3 hack/skaffold", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("push", help="build the image of $IMAGE for $PLATFORMS and push it")
    commands.add_parser("local", help="build all images and load them into the local cluster")
    options = parser.parse_args(arguments)
    return ending.status_of(
        "skaffold", lambda: push.main(os.environ) if options.command == "push" else local.main()
    )
