"""The proxies under measurement: what each is started with."""

import copy
import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.experiment.builds import Programs
from loadtests.bench.gateway import shipped
from loadtests.bench.gateway.shipped import Endpoint
from local.topology import HOST

MINIMAL = "minimal Envoy"
LEAN = "lean Envoy"
GATEWAY = "Corelane's gateway"
NGINX = "nginx"
HAPROXY = "HAProxy"
SILENT = f"{GATEWAY} without log"
LOGS = " with full log"

NAMES = (
    *(MINIMAL, LEAN, SILENT, NGINX, HAPROXY),
    *(GATEWAY, MINIMAL + LOGS, GATEWAY + LOGS, NGINX + LOGS, HAPROXY + LOGS),
)
"""Of all that are compared."""

HERE = Path(__file__).resolve().parent

HAPROXY_LOG = """\
log stdout format raw local0
  capture response header corelane-replica len 64
  capture response header corelane-lane len 8
  log-format '{"time":"%Tl","client":"%ci","method":"%HM","path":"%HP","protocol":"%HV","status":%ST,"upstream":"%si:%sp","replica":"%[capture.res.hdr(0)]","lane":"%[capture.res.hdr(1)]","flags":"%ts","attempts":"%rc","bytes_received":%U,"bytes_sent":%B,"duration_ms":%Ta,"upstream_ms":%Tr}'"""


@dataclass(frozen=True)
class Proxy:
    """A program with a configuration."""

    name: str
    program: str
    text: str
    """The configuration; @PORT@ and @FOLDER@ are replaced when it starts."""

    def argv(self, programs: Programs, address: str, folder: Path) -> list[str]:
        """How it is started."""
        text = filled(self.text, {"PORT": address.rpartition(":")[2], "FOLDER": str(folder)})
        # Envoy knows the format by the name's end.
        file = folder / ("config.json" if text.startswith("{") else "config.yaml")
        file.write_text(text)
        program = programs.tools[self.program]
        if self.program == "nginx":
            return [str(program), "-p", str(folder), "-c", str(file)]
        if self.program == "haproxy":
            return ["env", f"LD_LIBRARY_PATH={libraries(program)}", str(program), "-f", str(file)]
        # As the chart starts it, with one worker.
        argv = [str(program), "--config-path", str(file), "--disable-hot-restart"]
        return [*argv, "--log-level", "warn", "--concurrency", "1"]


def libraries(haproxy: Path) -> str:
    """The folders of the libraries that are unpacked next to HAProxy."""
    folders = haproxy.parent.parent.glob("usr/lib/*-linux-gnu")
    return ":".join(map(str, sorted(folders)))


def filled(text: str, values: dict[str, str]) -> str:
    """The text with @NAME@ replaced by the value; names without one stay."""
    return re.sub(r"@([A-Z_]+)@", lambda found: values.get(found[1], found[0]), text)


def envoy(name: str, config: dict) -> Proxy:
    """Envoy with a configuration."""
    return Proxy(name, "envoy", json.dumps(config))


def compared(rendered: dict, pool: Sequence[Endpoint]) -> list[Proxy]:
    """What the benchmark compares, each with a log of all requests and without."""
    silent, full = copy.deepcopy(rendered), copy.deepcopy(rendered)
    log = shipped.log_of_all(rendered)
    shipped.without_log(silent)
    shipped.connection_manager(full)["access_log"] = log
    found = [
        minimal(pool),
        lean(pool),
        envoy(SILENT, silent),
        _nginx(pool, logs=False),
        _haproxy(pool, logs=False),
        envoy(GATEWAY, rendered),
        minimal(pool, log),
        envoy(GATEWAY + LOGS, full),
        _nginx(pool, logs=True),
        _haproxy(pool, logs=True),
    ]
    assert tuple(proxy.name for proxy in found) == NAMES
    return found


def minimal(pool: Sequence[Endpoint], log: Sequence[dict] = ()) -> Proxy:
    """Envoy with the least that proxies."""
    values = {"ACCESS_LOG": json.dumps(log), "ENDPOINTS": _endpoints(pool)}
    text = filled((HERE / "minimal.yaml").read_text(), values)
    return Proxy(MINIMAL + LOGS * bool(log), "envoy", text)


def lean(pool: Sequence[Endpoint]) -> Proxy:
    """Envoy without anything that costs."""
    text = filled((HERE / "lean.yaml").read_text(), {"ENDPOINTS": _endpoints(pool)})
    return Proxy(LEAN, "envoy", text)


def _endpoints(pool: Sequence[Endpoint]) -> str:
    addresses = ({"address": HOST, "port_value": replica.port} for replica in pool)
    return json.dumps([{"endpoint": {"address": {"socket_address": one}}} for one in addresses])


def _nginx(pool: Sequence[Endpoint], *, logs: bool) -> Proxy:
    values = {
        # Written in blocks, as Envoy does.
        "ACCESS_LOG": "@FOLDER@/access.log json buffer=64k flush=10s" if logs else "off",
        "SERVERS": " ".join(f"server {HOST}:{replica.port};" for replica in pool),
    }
    text = filled((HERE / "nginx.conf").read_text(), values)
    return Proxy(NGINX + LOGS * logs, "nginx", text)


def _haproxy(pool: Sequence[Endpoint], *, logs: bool) -> Proxy:
    servers = (f"  server {number} {HOST}:{replica.port}" for number, replica in enumerate(pool))
    values = {
        # It writes each line alone.
        "ACCESS_LOG": HAPROXY_LOG if logs else "no log",
        "SERVERS": "\n".join(servers),
    }
    text = filled((HERE / "haproxy.cfg").read_text(), values)
    return Proxy(HAPROXY + LOGS * logs, "haproxy", text)


def versions(programs: Programs) -> dict[str, str]:
    """What each program says of itself."""
    haproxy = programs.tools["haproxy"]
    library = {**os.environ, "LD_LIBRARY_PATH": libraries(haproxy)}
    asked = {
        "Envoy": ([programs.tools["envoy"], "--version"], None),
        "nginx": ([programs.tools["nginx"], "-v"], None),
        "HAProxy": ([haproxy, "-v"], library),
    }
    return {name: _version(argv, environment) for name, (argv, environment) in asked.items()}


def _version(argv: list, environment: dict[str, str] | None) -> str:
    result = subprocess.run(argv, capture_output=True, text=True, env=environment, check=True)
    number = r"(?<![\w./-])\d+\.\d+\.\d+|(?<=/)\d+\.\d+\.\d+"
    found = re.search(number, result.stdout + result.stderr)
    return found[0] if found else "unknown"
