"""Writes the dashboards, or checks that the files are current."""

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path[:1] = [str(HERE), str(HERE.parent / "hack")]

from grafana import capacity, connections, gateway, lanes, load_test, nodes, overview, service

FOLDER = HERE / "json"

DASHBOARDS = (overview, lanes, connections, gateway, service, nodes, load_test, capacity)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="dashboards/grafana", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if a file is not up to date"
    )
    try:
        options = parser.parse_args(arguments)
    except SystemExit as ended:
        # Bad usage exits with 64 (EX_USAGE of sysexits.h) everywhere here, but with 2 in argparse.
        return 64 if ended.code else 0
    wanted = {FOLDER / f"{it.BOARD.uid}.json": it.BOARD.text() for it in DASHBOARDS}
    present = {file: file.read_text() for file in FOLDER.glob("*.json")}
    if not options.check:
        _write(wanted, present)
        return 0
    stale = [
        file.name for file in sorted(wanted | present) if wanted.get(file) != present.get(file)
    ]
    if stale:
        print(
            f"dashboards: not up to date: {', '.join(stale)}. Run: make dashboards", file=sys.stderr
        )
    return 1 if stale else 0


def _write(wanted: dict[Path, str], present: dict[Path, str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    for file in present.keys() - wanted.keys():
        file.unlink()
    for file, text in wanted.items():
        file.write_text(text)


sys.exit(main(sys.argv[1:]))
