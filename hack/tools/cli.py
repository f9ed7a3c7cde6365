"""The commands of `python3 hack/tools`."""

import argparse
import os

from tools import errors, pythonlock, resolve, table, versions


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 hack/tools", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    ensure = commands.add_parser("ensure", help="obtain the named tools that are missing")
    ensure.add_argument("names", nargs="+", metavar="NAME")
    run = commands.add_parser("run", help="run a tool, obtained first if missing")
    run.add_argument("name", metavar="NAME")
    run.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...")
    path = commands.add_parser("path", help="print the path of a tool, obtained if missing")
    path.add_argument("name", metavar="NAME")
    commands.add_parser("list", help="show which tools are here, and where")
    lock = commands.add_parser("lock", help="write the lock files of Python tools again")
    lock.add_argument("names", nargs="*", choices=[*pythonlock.requirements(), []], metavar="NAME")
    options = parser.parse_args(arguments)
    return errors.status_of(lambda: _COMMANDS[options.command](options))


def _ensure(options: argparse.Namespace) -> int:
    resolve.ensure(options.names)
    return 0


def _run(options: argparse.Namespace) -> int:
    program = resolve.tool(options.name)
    os.execv(program, [str(program), *options.arguments])


def _path(options: argparse.Namespace) -> int:
    print(resolve.tool(options.name))
    return 0


def _list(_options: argparse.Namespace) -> int:
    for tool in table.load().values():
        program = resolve.locate(tool)
        version = versions.remembered(program, tool) if program and tool.version else "-"
        print(f"{tool.name:<14} {version:<9} {program or 'not here yet'}")
    return 0


def _lock(options: argparse.Namespace) -> int:
    for name in options.names or pythonlock.requirements():
        pythonlock.write(name)
    return 0


_COMMANDS = {"ensure": _ensure, "run": _run, "path": _path, "list": _list, "lock": _lock}
