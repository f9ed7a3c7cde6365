"""Reads Envoy's access log while Envoy writes it."""

import json
from pathlib import Path


def entries(log: Path, path: str) -> list[dict]:
    """The entries of the requests for a path; other words may be between them."""
    lines = log.read_text().splitlines(keepends=True)
    # The last line may not be whole yet.
    whole = [json.loads(line) for line in lines if line.startswith('{"') and line.endswith("\n")]
    return [entry for entry in whole if entry.get("path") == path]
