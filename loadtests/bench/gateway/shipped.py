"""What the gateway's chart renders with its default values, for the pool under measurement."""

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from local import render
from local.topology import HOST

PORT = "@PORT@"
"""Where the port of a listener comes to stand."""

TO_JSON = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)"
"""For the Python of supervisord, which has PyYAML."""

FREE_PORT = 0
"""Of listeners that nobody asks here: the kernel chooses."""


@dataclass(frozen=True)
class Endpoint:
    """A replica of the pool."""

    port: int
    admin_port: int


def configuration(
    tools: dict[str, Path],
    pool: Sequence[Endpoint],
    chart: Path = render.CHART,
    more: dict[str, object] | None = None,
) -> dict:
    """The configuration as a dictionary; its ports are placeholders. `more` are other values."""
    endpoints = [
        {"address": HOST, "port": replica.port, "adminPort": replica.admin_port} for replica in pool
    ]
    values = {
        "listener": {"address": HOST},
        "stats": {"address": HOST},
        "upstream": {"discovery": "static", "endpoints": endpoints},
    }
    for name, value in (more or {}).items():
        values[name] = {**values.get(name, {}), **value} if isinstance(value, dict) else value
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(values, file)
        file.flush()
        text = render.envoy(Path(file.name), tools, chart=chart)
    found = _parsed(text, tools)
    found["admin"]["address"]["socket_address"]["port_value"] = FREE_PORT
    for listener in found["static_resources"]["listeners"]:
        address = listener["address"]["socket_address"]
        # Numbers may be strings in protobuf's JSON.
        address["port_value"] = PORT if listener["name"] == "ingress" else FREE_PORT
    return found


def _parsed(text: str, tools: dict[str, Path]) -> dict:
    python = tools["supervisord"].parent / "python"
    argv = [python, "-c", TO_JSON]
    result = subprocess.run(argv, input=text, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout)


def connection_manager(config: dict) -> dict:
    """What turns the connections of clients into requests."""
    listeners = config["static_resources"]["listeners"]
    ingress = next(listener for listener in listeners if listener["name"] == "ingress")
    return ingress["filter_chains"][0]["filters"][-1]["typed_config"]


def without_log(config: dict) -> None:
    """Logs nothing."""
    connection_manager(config).pop("access_log", None)


def log_of_all(config: dict) -> list[dict]:
    """The access log, of every request."""
    log = json.loads(json.dumps(connection_manager(config)["access_log"]))
    for sink in log:
        sink.pop("filter", None)
    return log
