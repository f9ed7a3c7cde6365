"""What `field` writes: bench.json, bench.md and its pictures."""

import json
from pathlib import Path

from loadtests.bench.field.report import page, plots
from loadtests.bench.field.report.reading import wrong
from tools.errors import ToolError

__all__ = ["markdown", "render", "write", "wrong"]

RECORD = "bench.json"


def markdown(record: dict) -> str:
    """The text of bench.md."""
    return page.markdown(record, set(plots.pictures(record)))


def write(record: dict, folder: Path) -> str:
    """Writes record, report and pictures into a folder, and gives the report."""
    text, pictures = markdown(record), plots.pictures(record)
    files = {RECORD: json.dumps(record, indent=1) + "\n", "bench.md": text, **pictures}
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("bench-field-*.svg"):
        old.unlink()
    for name, content in files.items():
        (folder / name).write_text(content)
    return text


def render(file: Path) -> str:
    """The same from a record that was written before, beside it."""
    try:
        record = json.loads(file.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise ToolError(f"--render {file}: give a {RECORD} of this benchmark ({error})") from None
    return write(record, file.parent)
