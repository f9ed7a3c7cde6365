"""The proxies under measurement, what each is started with, and the replicas behind them."""

import contextlib
import copy
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loadtests.bench.experiment import builds, servers
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.generator import Place
from loadtests.bench.experiment.plan import Plan, Stand
from loadtests.bench.experiment.servers import HOST, Running, running
from local import render
from stack.ports import free_ports

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


REPLICAS = 2
TOOLS = ("helm", "supervisord", "envoy", "nginx", "haproxy")


@dataclass(frozen=True)
class Replica:
    """One server of the pool."""

    name: str
    admin_port: int
    lanes: int = 1

    def argv(self, programs: Programs, address: str, _folder: Path) -> list[str]:
        """How it is started. All replicas share a CPU, so none pins its lanes."""
        argv = [
            str(programs.server),
            "--listen",
            address,
            "--lanes",
            str(self.lanes),
            "--pin",
            "off",
        ]
        argv += ["--admin.listen", f"{HOST}:{self.admin_port}"]
        return [*argv, "--replica", self.name, "--log.level", "warn"]


@dataclass
class PoolStand(Stand):
    """A pool that all proxies share. The proxy has the first CPU, generator and pool the second."""

    programs: Programs | None = None
    pool: Sequence[Running] = ()
    endpoints: Sequence[Endpoint] = ()
    rendered: dict = field(default_factory=dict)
    """The configuration that the gateway's chart renders for the pool."""

    def place(self, *, first: bool = False) -> Place:
        """The generator's; `first` for an open loop, which could not send in time otherwise."""
        return Place([self.cpus[1]], first)


@contextlib.contextmanager
def pooled(plan: Plan, lanes: int = 1) -> Iterator[PoolStand]:
    """Builds everything and starts the pool, which is the same for all proxies and all rounds."""
    programs = builds.obtain(plan.server, plan.profile, tools=TOOLS)
    cpus = servers.first_cpus(2)
    with replicas(programs, cpus[1], lanes) as (pool, endpoints):
        yield PoolStand(
            plan,
            cpus,
            versions=versions(programs),
            programs=programs,
            pool=pool,
            endpoints=endpoints,
            rendered=configuration(programs.tools, endpoints),
        )


@contextlib.contextmanager
def replicas(
    programs: Programs, cpu: int, lanes: int = 1
) -> Iterator[tuple[list[Running], list[Endpoint]]]:
    """The pool, on one CPU."""
    with contextlib.ExitStack() as stack:
        pool, endpoints = [], []
        for number in range(REPLICAS):
            replica = Replica(f"bench-{number}", free_ports(), lanes)
            server = stack.enter_context(running(replica, programs, [cpu]))
            pool.append(server)
            port = int(server.address.rpartition(":")[2])
            endpoints.append(Endpoint(port, replica.admin_port))
        yield pool, endpoints


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
    log = log_of_all(rendered)
    without_log(silent)
    connection_manager(full)["access_log"] = log
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
