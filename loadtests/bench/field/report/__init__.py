"""What is written of a run."""

import json
from pathlib import Path


def write(record: dict, out: Path) -> None:
    """Everything that was measured."""
    (out / "bench.json").write_text(json.dumps(record, indent=1) + "\n")


def markdown(record: dict) -> str:
    """The parts, and how long each took."""
    return "\n".join(f"- {part}: {seconds:.0f} s" for part, seconds in record["parts"].items())


def render(file: Path) -> None:
    """Writes the report of a run that was written before."""
    write(json.loads(file.read_text()), file.parent)


def wrong(record: dict) -> int:
    """Requests without the right answer."""
    samples = (one for row in record["cells"].values() for all in row.values() for one in all)
    halves = (one.get(loop) for one in samples for loop in ("closed", "open"))
    return sum(half["wrong"] for half in halves if half)
