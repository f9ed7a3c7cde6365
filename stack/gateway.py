"""A real Envoy without its agent, with the configuration that the gateway chart renders."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from stack import eventually
from stack.http import ask, replies
from stack.ports import free_ports
from stack.process import Process, running
from stack.rendering import DUMPER, LOADER, config_maps, envoy_files
from tools.resolve import tool


def entries(log: Path, path: str) -> list[dict]:
    """Log entries of the requests for a path; the log may contain other lines."""
    # The last line may still be incomplete.
    whole = log.read_text().rpartition("\n")[0].splitlines()
    found = [json.loads(line) for line in whole if line.startswith('{"') and path in line]
    return [entry for entry in found if entry.get("path") == path]


@dataclass(frozen=True)
class Gateway:
    url: str
    stats: str
    admin: str
    log: Path
    process: Process
    tls: str = ""
    """URL of the TLS listener, if the values define one; HTTP/3 uses the same port over UDP."""

    @property
    def errors(self) -> Path:
        return self.process.log

    def ready(self) -> bool:
        return replies(self.stats, "/ready")

    def logged(self, path: str) -> dict:
        """Waits for the access log entry of the only request for a path."""
        (entry,) = eventually(lambda: entries(self.log, path), f"an entry for {path}")
        return entry

    def counted(self, name: str) -> int:
        """The statistic with this full name; 0 before the first count.

        Envoy counts a request to a replica, a retry, a limit and a rejection before it sends the
        reply, so one read after the reply is enough. Envoy counts closed connections and finished
        requests afterwards.
        """
        lines = ask(self.admin, f"/stats?filter=^{name}$").body.decode().splitlines()
        return int(lines[0].rpartition(" ")[2]) if lines else 0

    def sent_to(self, url: str, cluster: str = "server") -> int:
        """Attempts sent to a replica, without health checks."""
        line = f"{cluster}::{urlsplit(url).netloc}::rq_total::"
        lines = ask(self.admin, "/clusters").body.decode().splitlines()
        (count,) = (it.removeprefix(line) for it in lines if it.startswith(line))
        return int(count)


def endpoint(url: str, admin: str) -> dict:
    address = urlsplit(url)
    admin_port = urlsplit(admin).port
    return {"address": address.hostname, "port": address.port, "adminPort": admin_port}


def peak(gateway: Gateway) -> int:
    """Peak memory in KiB."""
    status = Path(f"/proc/{gateway.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1])


def merged(values: dict, more: dict) -> dict:
    both = {
        key: merged(values[key], more[key])
        for key in values.keys() & more.keys()
        if isinstance(values[key], dict) and isinstance(more[key], dict)
    }
    return {**values, **more, **both}


@contextmanager
def gateway_to(
    endpoints: list[dict],
    folder: Path,
    values: dict | None = None,
    change: Callable[[dict], None] | None = None,
    *,
    dynamic: bool = False,
    within: Sequence[str] = (),
) -> Iterator[Gateway]:
    """Starts Envoy with one worker in front of these replicas; it logs every request and sends each
    span immediately.

    The health check timeout exceeds any delay on a busy machine, so only a missing replica fails
    the check. `values` are chart values that override the fixture's values. `change` edits settings
    without a chart value. A `dynamic` Envoy reads routes from an agent's files, which must exist.
    `within` is a command that runs Envoy.
    """
    first = free_ports(4)
    own = {
        "listener": {"address": "127.0.0.1", "port": first},
        "stats": {"address": "127.0.0.1", "port": first + 1},
        "admin": {"port": first + 2},
        "tls": {"port": first + 3, "files": {"sds": f"{folder}/certificate.yaml"}},
        "http3": {"port": first + 3},
        "authentication": {
            "jwt": {"files": {"sds": f"{folder}/credential.yaml"}},
            "oidc": {"files": {"sds": str(folder)}},
        },
        "upstream": {
            "discovery": "static",
            "endpoints": endpoints,
            "health": {"timeout": "1m"},
        },
        "accessLog": {"percent": 100},
        "runtime": {"tracing.opentelemetry.min_flush_spans": 1},
    }
    if "mtls" in (values or {}):
        own["mtls"] = {"files": {"sds": str(folder)}}
    own = merged(own, values or {})
    (folder / "values.yaml").write_text(yaml.safe_dump(own))
    values_file = folder / "values.yaml"
    data = config_maps(values=values_file)[0] if dynamic else envoy_files(values=values_file)
    # The path of the agent's file in a pod.
    text = data.pop("envoy.yaml").replace("/run/corelane", str(folder))
    if change:
        configuration = yaml.load(text, LOADER)
        change(configuration)
        text = yaml.dump(configuration, Dumper=DUMPER)
    for name, content in {**data, "envoy.yaml": text}.items():
        (folder / name).write_text(content)
    arguments = ["-c", folder / "envoy.yaml", "--concurrency", "1", "--disable-hot-restart"]
    arguments += ["--log-level", "warn", "--file-flush-interval-msec", "50"]
    ports = (first, first + 1, own["admin"]["port"])
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    argv, log = [*within, tool("envoy"), *arguments], folder / "access.log"
    with running("envoy", argv, folder, lambda: replies(urls[1], "/ready"), output=log) as process:
        yield Gateway(*urls, log=log, process=process, tls=f"https://localhost:{first + 3}")
