"""Publishes a release to a temporary registry on loopback, signed with a temporary key."""

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from release import provenance, publish, signer
from release.artefacts import Artefact
from tools import progress, resolve
from tools.errors import ToolError

DEADLINE = 30.0


@contextmanager
def throw_away(folder: Path) -> Iterator[str]:
    crane = resolve.tool("crane")
    blobs = folder / "registry"
    blobs.mkdir()
    log = folder / "registry.log"
    argv = [crane, "registry", "serve", "--address", "127.0.0.1:0", "--disk", blobs]
    with open(log, "w") as output:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield f"127.0.0.1:{_port(process, log)}"
    finally:
        process.terminate()
        process.wait()


def _port(process: subprocess.Popen, log: Path) -> int:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline and process.poll() is None:
        if match := re.search(r"serving on port (\d+)", log.read_text()):
            return int(match[1])
        time.sleep(0.05)
    said = "\n".join(f"    {line}" for line in progress.tail(log, 10))
    raise ToolError(f"the registry did not start; the end of {log}:\n{said}")


PLAIN = ["--plain-http"]


def run(root: Path, folder: Path) -> list[Artefact]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    publish.build(root, folder)
    key = signer.throw_away(folder / "key")
    with throw_away(folder) as host:
        found = publish.publish(root, f"{host}/corelane", folder, key, PLAIN)
        publish.verify(found, provenance.commit(root), key, PLAIN)
    return found
