"""The commands of `python3 hack/local`."""

import argparse
from pathlib import Path

from local import down, render, settings, status, up
from tools import ending, resolve


def main(arguments: list[str]) -> int:
    """Runs one command and returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python3 hack/local",
        description="Runs the platform as local processes.",
        epilog="Environment: "
        + ", ".join([*settings.VARIABLES, "REPLICAS", "DATABASE", "POSTGRES_PORT", "INSTANCE"]),
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("up", help="start all processes and wait until they are ready")
    commands.add_parser("down", help="stop all processes")
    commands.add_parser("remove", help="stop all processes and remove their data")
    commands.add_parser(
        "status", help="show the state of every process; exit with 1 unless all run"
    )
    show = commands.add_parser("logs", help="show the last log lines, or follow one process")
    show.add_argument("name", nargs="?", metavar="NAME")
    envoy = commands.add_parser("render", help="print the Envoy configuration of a values file")
    envoy.add_argument("values", type=Path, metavar="VALUES.yaml")
    envoy.add_argument(
        "--certificate", action="store_true", help="print the file for tls.files.sds instead"
    )
    options = parser.parse_args(arguments)
    return ending.status_of("local", lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    if options.command == "render":
        file = "certificate.yaml" if options.certificate else "envoy.yaml"
        programs = resolve.ensure(("helm", "supervisord"))
        print(render.envoy(options.values, programs, file), end="")
        return 0
    run = settings.run_folder()
    if options.command == "up":
        return up.main(run)
    if options.command == "down":
        return down.main(run)
    if options.command == "remove":
        return down.remove(run)
    if options.command == "status":
        return status.main(run)
    return status.logs(run, options.name)
