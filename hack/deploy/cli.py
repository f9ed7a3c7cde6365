"""The commands of `python3 hack/deploy`."""

import argparse

from deploy import images, pulls, releases, run
from tools import errors, progress


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 hack/deploy",
        description="Installs the platform on a cluster, with the images of this tree.",
        epilog=f"Environment: {', '.join(run.VARIABLES)}; make help explains them",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("up", help="build and load the images, install the charts, wait")
    commands.add_parser("down", help="uninstall, and delete the namespace if up made it")
    commands.add_parser(
        "test", help="run helm test of RELEASE, and name an image that cannot be pulled"
    )
    options = parser.parse_args(arguments)
    chosen = {"up": _up, "down": _down, "test": _test}[options.command]
    return errors.status_of(chosen)


def _up() -> int:
    kubeconfig = run.kubeconfig()
    # Values for another cluster name the registry of its images.
    built = None if run.cluster() == "current" else images.load(releases.images_named())
    with progress.step("charts", f"installing {run.release()} in {run.namespace()}"):
        releases.install(built)
    print(f"gateway     {releases.address()}")
    print(f"kubectl     export KUBECONFIG={kubeconfig}")
    return 0


def _test() -> int:
    print(pulls.helm("test", run.release(), "--namespace", run.namespace()), end="")
    return 0


def _down() -> int:
    if releases.uninstall():
        print(f"uninstalled {run.release()} from {run.namespace()}")
    else:
        print(f"there is no release {run.release()} in {run.namespace()}")
    return 0
