"""Projects that wrk loads and saves: made before it starts, and removed after."""

import json
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loadtests.target import Target
from tools.errors import ToolError

SIZE = 5_700
"""Bytes of a document; the saves of the published test sent about as many."""

TASKS = 20


@contextmanager
def projects(target: Target, count: int) -> Iterator[Path]:
    """A folder with the ids of so many projects, and the body of a save."""
    task = {"title": "lane", "done": False, "notes": "x" * (SIZE // TASKS - 45)}
    body = json.dumps(
        {"name": "wrk", "description": "", "status": "active", "tags": [], "tasks": [task] * TASKS}
    )
    ids: list[str] = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            ids.extend(_ask(target, "POST", "/projects", body)["id"] for _ in range(count))
            (Path(folder) / "ids").write_text("".join(f"{each}\n" for each in ids))
            (Path(folder) / "body").write_text(body)
            yield Path(folder)
    finally:
        for each in ids:
            _ask(target, "DELETE", f"/projects/{each}")


def _ask(target: Target, method: str, path: str, body: str = "") -> dict:
    request = urllib.request.Request(target.gateway + path, method=method)
    request.add_header("Authorization", f"Bearer {target.token}")
    if body:
        request.data = body.encode()
        request.add_header("Content-Type", "application/json")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as reply:
            text = reply.read()
    except OSError as error:
        raise ToolError(f"{method} {target.gateway}{path}: {error}") from None
    return json.loads(text) if text else {}
