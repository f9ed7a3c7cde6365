"""A disposable PostgreSQL for developers and benchmarks: `python3 hack/postgres.py up`."""

import argparse
import ipaddress
import os
import shutil
import sys
from pathlib import Path

sys.path[1:1] = [str(Path(__file__).resolve().parent.parent)]

from local import ports
from local import settings as local
from stack import HOST, pids, postgres
from stack.postgres import Postgres, Settings
from tools import errors
from tools.errors import ToolError


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 hack/postgres.py",
        description="Runs a disposable PostgreSQL.",
        epilog="Environment: " + ", ".join(VARIABLES),
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("up", help="start PostgreSQL and wait until it accepts connections")
    commands.add_parser("down", help="stop it and remove its data")
    commands.add_parser("status", help="show its address; exit 1 unless it runs")
    commands.add_parser("psql", help="run psql as the superuser: psql -c 'SELECT 1'")
    options, words = parser.parse_known_args(arguments)
    if words and options.command != "psql":
        parser.error(f"unrecognized arguments: {' '.join(words)}")
    return errors.status_of(lambda: _run(options.command, words))


def _run(command: str, words: list[str]) -> int:
    folder = _instance()
    if command == "up":
        return _up(folder)
    if command == "down":
        return _down(folder)
    running = postgres.read(folder) if postgres.pid(folder) else None
    if running is None:
        print(f"No PostgreSQL is up (instance {folder.name}).")
        return 1
    if command == "status":
        print(describe(running))
        return 0
    environment = {**os.environ, **running.programs.environment(), **running.client()}
    program = running.programs["psql"]
    # psql searches for itself, by path or in PATH.
    os.execve(program, [str(program), *words], environment)


def _up(folder: Path) -> int:
    with pids.lock(folder):
        if postgres.pid(folder):
            print("PostgreSQL is up already.")
            print(describe(postgres.read(folder)))
            return 0
        wanted = _settings()
        ports.require_free_port(wanted.port, "PostgreSQL", "POSTGRES_PORT", wanted.address)
        started = postgres.make(folder, wanted)
        started.start()
        print("PostgreSQL is up.")
        print(describe(started))
    return 0


def _down(folder: Path) -> int:
    if not folder.exists():
        print(f"No PostgreSQL is up (instance {folder.name}).")
        return 0
    with pids.lock(folder):
        postgres.stop(folder, keep=False)
        postgres.remove(folder)
        shutil.rmtree(folder)
    print("PostgreSQL is down, and its data are removed.")
    return 0


def describe(running: Postgres) -> str:
    lines = [
        "",
        f"  process        pid {running.pid}, data in {running.home}",
        f"  database.url   {running.url()}",
        f"  password_file  {running.password_file}",
    ]
    if running.settings.tls:
        lines.append(f"  ca_file        {running.ca_file}")
    lines += [
        f"  log            {running.log}",
        "",
        "Try:",
        "  python3 hack/postgres.py psql -c '\\l'",
    ]
    return "\n".join(lines)


VARIABLES = ("POSTGRES_PORT", "POSTGRES_ADDRESS", "POSTGRES_TLS", "INSTANCE")


def _instance() -> Path:
    """Folders of `make up` do not start with a dot."""
    return local.REPOSITORY / ".run" / ".postgres" / local.run_folder().name


def _settings() -> Settings:
    address = os.environ.get("POSTGRES_ADDRESS") or HOST
    try:
        ipaddress.ip_address(address)
    except ValueError:
        raise ToolError(
            f"POSTGRES_ADDRESS={address}: must be an IP address of this machine"
        ) from None
    tls = os.environ.get("POSTGRES_TLS") or "off"
    if tls not in ("on", "off"):
        raise ToolError(f"POSTGRES_TLS={tls}: must be on or off")
    port = local.number("POSTGRES_PORT", local.POSTGRES_PORT, 1, 65535)
    return Settings(port, address, tls=tls == "on")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
