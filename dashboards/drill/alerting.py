"""The real configuration of Alertmanager with its durations divided, and a webhook that receives alerts."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

from dashboards.drill import factor
from local.settings import REPOSITORY
from local.topology import HOST

CONFIGURATION = REPOSITORY / "dashboards" / "alertmanager" / "alertmanager.yaml"

FIELDS = ("group_wait", "group_interval", "repeat_interval")


def write(file: Path, url: str, by: int) -> None:
    """Writes it, with this address for every webhook."""
    document = yaml.safe_load(CONFIGURATION.read_text())
    receivers = [
        {
            **receiver,
            "webhook_configs": [{**hook, "url": url} for hook in receiver["webhook_configs"]],
        }
        for receiver in document["receivers"]
    ]
    changed = {**document, "route": route(document["route"], by), "receivers": receivers}
    file.write_text(yaml.safe_dump(changed, sort_keys=False))


def route(entry: dict, by: int) -> dict:
    """A route and those below it, their durations divided."""
    made = {
        name: factor.divided(value, by) if name in FIELDS else value
        for name, value in entry.items()
    }
    below = [route(each, by) for each in entry.get("routes", [])]
    return {**made, **({"routes": below} if below else {})}


@dataclass
class Webhook:
    """Keeps the notifications of Alertmanager."""

    url: str = ""
    _told: list[Mapping[str, str]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def told(self) -> list[Mapping[str, str]]:
        """The labels of all alerts that were notified as firing."""
        with self._lock:
            return list(self._told)

    def take(self, message: dict) -> None:
        """Receives a message (prometheus.io/docs/alerting, "webhook_config")."""
        firing = [each["labels"] for each in message["alerts"] if each["status"] == "firing"]
        with self._lock:
            self._told += firing


@contextmanager
def listening() -> Iterator[Webhook]:
    """A webhook on loopback."""
    webhook = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            webhook.take(json.loads(self.rfile.read(length)))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    with ThreadingHTTPServer((HOST, 0), Handler) as server:
        webhook.url = f"http://{HOST}:{server.server_port}/"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield webhook
        finally:
            server.shutdown()
