"""Writes docs/metrics.md and its parts from the catalogue, or checks that they are current."""

import argparse
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

from dashboards.metrics import catalogue, page

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 dashboards/metrics", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if a file is not up to date"
    )
    try:
        options = parser.parse_args(arguments)
    except SystemExit as ended:
        # Bad usage exits with 64 (EX_USAGE of sysexits.h) in all commands, but with 2 in argparse.
        return 64 if ended.code else 0
    wanted = page.texts(catalogue.read())
    written = {file.name: file.read_text() for file in DOCS.glob("metrics*.md")}
    if options.check:
        stale = sorted(name for name in wanted | written if wanted.get(name) != written.get(name))
        for name in stale:
            print(f"docs/{name} is not up to date. Run: make metrics", file=sys.stderr)
        return 1 if stale else 0
    for name in written.keys() - wanted:
        (DOCS / name).unlink()
    for name, text in wanted.items():
        (DOCS / name).write_text(text)
    return 0


sys.exit(main(sys.argv[1:]))
