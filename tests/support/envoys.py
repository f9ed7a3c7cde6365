"""A real Envoy, alone, with the configuration that the gateway chart renders."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from support import PATIENCE, eventually
from support.client import ask
from support.ports import free_ports
from support.rendering import envoy_config, tool


@dataclass(frozen=True)
class Gateway:
    """A running Envoy and where it listens."""

    url: str
    stats: str
    admin: str
    log: Path
    process: subprocess.Popen[bytes]
    errors: Path

    def ready(self) -> bool:
        """Whether the readiness probe would pass."""
        try:
            return ask(self.stats, "/ready").status == 200
        except OSError:
            return False

    def logged(self, path: str) -> dict:
        """The entry of the one request for a path in the access log."""

        def entries() -> list[dict]:
            lines = self.log.read_text().splitlines(keepends=True)
            whole = [json.loads(line) for line in lines if line.endswith("\n")]
            return [entry for entry in whole if entry.get("path") == path]

        eventually(entries)
        (entry,) = entries()
        return entry


def endpoint(url: str, admin: str) -> dict:
    """A replica as the chart's values name it."""
    address = urlsplit(url)
    admin_port = urlsplit(admin).port
    return {"address": address.hostname, "port": address.port, "adminPort": admin_port}


@contextmanager
def gateway_to(
    endpoints: list[dict], folder: Path, upstream: dict | None = None
) -> Iterator[Gateway]:
    """Envoy with one worker in front of these replicas; `upstream` adds to the chart's values."""
    first = free_ports(3)
    values = {
        "listener": {"address": "127.0.0.1", "port": first},
        "stats": {"address": "127.0.0.1", "port": first + 1},
        "admin": {"port": first + 2},
        "upstream": {"discovery": "static", "endpoints": endpoints, **(upstream or {})},
    }
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    configuration = envoy_config(values=folder / "values.yaml")
    (folder / "envoy.yaml").write_text(yaml.safe_dump(configuration))
    log, errors = folder / "access.log", folder / "envoy.log"
    arguments = ["-c", folder / "envoy.yaml", "--concurrency", "1", "--disable-hot-restart"]
    arguments += ["--log-level", "warn", "--file-flush-interval-msec", "50"]
    with log.open("ab") as output, errors.open("ab") as words:
        process = subprocess.Popen([tool("envoy"), *arguments], stdout=output, stderr=words)
    try:
        urls = (f"http://127.0.0.1:{first + index}" for index in range(3))
        running = Gateway(*urls, log=log, process=process, errors=errors)
        eventually(running.ready)
        yield running
    finally:
        process.terminate()
        try:
            process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
