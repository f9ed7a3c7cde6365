"""The commands of `python3 hack/local`."""

import argparse
from pathlib import Path

from local import down, render, service, settings, status, up
from local.service import Service
from tools import errors, resolve


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 hack/local",
        description="Runs the platform as local processes.",
        epilog="Environment: "
        + ", ".join(
            [*settings.VARIABLES, "REPLICAS", "DATABASE", "MTLS", "POSTGRES_PORT", "INSTANCE"]
        ),
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    start = commands.add_parser("up", help="start all processes and wait until they are ready")
    _add_service(start)
    others = [
        commands.add_parser("down", help="stop all processes"),
        commands.add_parser("remove", help="stop all processes and remove their data"),
        commands.add_parser(
            "status",
            help="show the state of every process; exit with 1 if one has stopped or keeps failing",
        ),
        commands.add_parser("logs", help="show the last log lines, or follow one process"),
    ]
    others[-1].add_argument("name", nargs="?", metavar="NAME")
    for each in (start, *others):
        each.add_argument(
            "--project",
            type=Path,
            metavar="FOLDER",
            help="keep the files of the instance in FOLDER/.corelane; default: in this repository",
        )
    envoy = commands.add_parser("render", help="print the Envoy configuration of a values file")
    envoy.add_argument("values", type=Path, metavar="VALUES.yaml")
    envoy.add_argument(
        "--certificate", action="store_true", help="print the file for tls.files.sds instead"
    )
    options = parser.parse_args(arguments)
    return errors.status_of(lambda: _run(options))


def _add_service(start: argparse.ArgumentParser) -> None:
    """Options for the service that replicas run; the default is the reference server."""
    start.add_argument(
        "services",
        nargs="*",
        metavar="SERVICE",
        help="folder of a package, or binary of --manifest; several services share the gateway",
    )
    what = start.add_mutually_exclusive_group()
    what.add_argument("--manifest", type=Path, metavar="Cargo.toml", help="build this service")
    what.add_argument(
        "--binary", type=Path, action="append", metavar="PROGRAM", help="run this program"
    )
    start.add_argument("--bin", default="", metavar="NAME", help="binary of the package to run")
    start.add_argument(
        "--runtime",
        choices=service.RUNTIMES,
        default=service.RUNTIMES[0],
        help="other: a program that is not on the crate corelane-service; default: %(default)s",
    )
    start.add_argument(
        "--health",
        default=service.HEALTH,
        metavar="PATH",
        help="with --runtime other: path that replies 200 while a replica works; default: %(default)s",
    )
    start.add_argument(
        "--corelane", type=Path, metavar="PROGRAM", help="the command corelane; default: build it"
    )
    start.add_argument(
        "--watch", action="store_true", help="build and roll out again when sources change"
    )


def _services(options: argparse.Namespace) -> tuple[Service, ...]:
    if options.services:
        found = [service.named(name, options.manifest) for name in options.services]
    elif options.binary:
        found = [service.program(it, options.runtime, options.health) for it in options.binary]
    elif options.manifest:
        found = [service.package(options.manifest, options.bin, options.runtime, options.health)]
    else:
        found = [service.REFERENCE]
    service.require_distinct(found)
    return tuple(found)


def _run(options: argparse.Namespace) -> int:
    if options.command == "render":
        file = "certificate.yaml" if options.certificate else "envoy.yaml"
        programs = resolve.ensure(("helm", "supervisord"))
        print(render.envoy(options.values, programs, file), end="")
        return 0
    run = settings.run_folder(options.project)
    if options.command == "up":
        return up.main(run, _services(options), options.watch, options.corelane)
    if options.command == "down":
        return down.main(run)
    if options.command == "remove":
        return down.remove(run)
    if options.command == "status":
        return status.main(run)
    return status.logs(run, options.name)
