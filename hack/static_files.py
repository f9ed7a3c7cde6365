"""Writes the static files of the reference service, always with the same bytes.

`index.html` has 10,831 bytes and `4k.txt` 4,096: the sizes of the published static-file and
high-concurrency tests that Corelane is measured with.

    python3 hack/static_files.py [FOLDER]     # default: services/server/static
"""

import random
import sys
from pathlib import Path

SIZES = {"index.html": 10_831, "4k.txt": 4_096}
SEED = 1
WORDS = [
    "lane",
    "core",
    "queue",
    "gateway",
    "replica",
    "drain",
    "backlog",
    "socket",
    "latency",
    "quantile",
    "thread",
    "event",
    "loop",
    "cache",
    "accept",
    "listener",
    "upstream",
    "probe",
    "load",
    "table",
    "placement",
    "request",
    "reply",
    "header",
    "body",
]
HEAD = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Corelane</title></head>
<body>
<h1>Corelane</h1>
<p>This page is filler of an exact size: a static file to measure with.</p>
<p>
"""
FOOT = "\n</p>\n</body>\n</html>\n"


def filler(length: int) -> str:
    """Words in lines of up to 100 characters, exactly this long."""
    chooser = random.Random(SEED)
    lines, line = [], ""
    while sum(len(line) + 1 for line in lines) < length:
        word = chooser.choice(WORDS)
        if len(line) + 1 + len(word) > 100:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n".join(lines)[:length]


def contents() -> dict[str, bytes]:
    page = HEAD + filler(SIZES["index.html"] - len(HEAD) - len(FOOT)) + FOOT
    text = filler(SIZES["4k.txt"] - 1) + "\n"
    return {"index.html": page.encode(), "4k.txt": text.encode()}


def main() -> None:
    default = Path(__file__).resolve().parent.parent / "services/server/static"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents().items():
        if len(content) != SIZES[name]:
            raise SystemExit(f"{name}: {len(content)} bytes, wanted {SIZES[name]}")
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
