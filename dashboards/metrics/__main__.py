"""Writes docs/metrics.md from the catalogue, or checks that it is up to date."""

import argparse
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

from dashboards.metrics import catalogue, page

FILE = Path(__file__).resolve().parent.parent.parent / "docs" / "metrics.md"


def main(arguments: list[str]) -> int:
    """Runs one command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="python3 dashboards/metrics", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if the file is not up to date"
    )
    try:
        options = parser.parse_args(arguments)
    except SystemExit as ended:
        # Bad usage is 64 everywhere here (EX_USAGE of sysexits.h); argparse says 2.
        return 64 if ended.code else 0
    wanted = page.text(catalogue.read())
    if not options.check:
        FILE.write_text(wanted)
        return 0
    if FILE.exists() and FILE.read_text() == wanted:
        return 0
    print("docs/metrics.md is not up to date. Run: make metrics", file=sys.stderr)
    return 1


sys.exit(main(sys.argv[1:]))
