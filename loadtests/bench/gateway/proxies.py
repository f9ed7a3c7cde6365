"""The measured proxies, and the pool of replicas behind them."""

import contextlib
import copy
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loadtests.bench.experiment import builds, servers
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.plan import Plan, TestBed
from loadtests.bench.experiment.servers import Replica, Running, Startable, running
from local import render
from stack import HOST
from stack.credentials import SecretFolder, authority

PORT = "@PORT@"

FREE_PORT = 0
"""Port 0 for listeners that this benchmark never contacts."""

TO_JSON = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)"


@dataclass(frozen=True)
class Endpoint:
    port: int
    admin_port: int


def configuration(
    tools: dict[str, Path],
    pool: Sequence[Endpoint],
    chart: Path = render.CHART,
    more: Mapping[str, object] | None = None,
    beside: Sequence[Path] = (),
) -> dict:
    """The chart's configuration for a pool; the port is a placeholder. `more` contains additional
    values. Also writes these files of the chart's configuration.
    """
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
        for each in beside:
            each.write_text(render.envoy(Path(file.name), tools, each.name, chart))
    argv = [tools["supervisord"].parent / "python", "-c", TO_JSON]
    result = subprocess.run(argv, input=text, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(result.stdout)
    found["admin"]["address"]["socket_address"]["port_value"] = FREE_PORT
    for listener in found["static_resources"]["listeners"]:
        # In protobuf's JSON, numbers may be strings.
        port = PORT if listener["name"] == "ingress" else FREE_PORT
        listener["address"]["socket_address"]["port_value"] = port
    return found


MARK = 60_001


def placeholders(replicas: int) -> list[Endpoint]:
    return [Endpoint(MARK + 2 * index, MARK + 2 * index + 1) for index in range(replicas)]


def pointed(config: dict, pool: Sequence[Endpoint]) -> str:
    """JSON configuration with a pool's ports filled in."""
    text = json.dumps(config)
    for mark, replica in zip(placeholders(len(pool)), pool, strict=True):
        text = text.replace(str(mark.port), str(replica.port))
        text = text.replace(str(mark.admin_port), str(replica.admin_port))
    return text


def connection_manager(config: dict) -> dict:
    listeners = config["static_resources"]["listeners"]
    ingress = next(listener for listener in listeners if listener["name"] == "ingress")
    return ingress["filter_chains"][0]["filters"][-1]["typed_config"]


def without_log(config: dict) -> dict:
    found = copy.deepcopy(config)
    connection_manager(found).pop("access_log", None)
    return found


def with_a_connection_each(config: dict) -> dict:
    found = copy.deepcopy(config)
    (cluster,) = (it for it in found["static_resources"]["clusters"] if it["name"] == "server")
    (options,) = cluster["typed_extension_protocol_options"].values()
    options["common_http_protocol_options"]["max_requests_per_connection"] = 1
    return found


def with_full_log(config: dict) -> dict:
    found = copy.deepcopy(config)
    for sink in connection_manager(found)["access_log"]:
        sink.pop("filter", None)
    return found


REPLICAS = 2
TOOLS = ("helm", "supervisord", "envoy", "nginx", "haproxy")


@dataclass
class PoolBed(TestBed):
    """A pool shared by all proxies. The proxy runs on the first CPU; the generator and the pool
    share the second.
    """

    pool: Sequence[Running] = ()
    endpoints: Sequence[Endpoint] = ()
    rendered: dict = field(default_factory=dict)
    guarded: Sequence[Running] = ()
    """Replicas that accept only the gateway."""
    encrypted: dict = field(default_factory=dict)
    """The chart's configuration with mutual TLS."""


def _pool(replicas: Sequence[Replica], servers: Sequence[Running]) -> list[Endpoint]:
    pairs = zip(servers, replicas, strict=True)
    return [Endpoint(server.port, replica.admin_port) for server, replica in pairs]


@contextlib.contextmanager
def pooled(plan: Plan) -> Iterator[PoolBed]:
    programs = builds.obtain(plan.server, plan.profile, tools=(*TOOLS, "openssl"))
    cpus = servers.first_cpus(2)
    with contextlib.ExitStack() as stack:
        # All replicas share a CPU, so no replica pins its lanes.
        static = ("--static.root", str(servers.STATIC))
        replicas = [Replica(static, pin="off") for _ in range(REPLICAS)]
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        flags = _secrets(folder)
        secret = [Replica((*static, *flags), pin="off", probe=None) for _ in range(REPLICAS)]
        start = lambda one: stack.enter_context(running(one, programs, [cpus[1]]))
        pool, guarded = [start(one) for one in replicas], [start(one) for one in secret]
        endpoints = _pool(replicas, pool)
        mtls = {"enabled": True, "files": {"folder": f"{folder}/gateway", "sds": str(folder)}}
        values = {"mtls": mtls, "upstream": {"identity": "replica"}}
        files = [folder / f"mtls-{name}.yaml" for name in ("certificate", "ca")]
        found = configuration(programs.tools, _pool(secret, guarded), more=values, beside=files)
        yield PoolBed(
            plan,
            cpus,
            programs,
            versions=versions(programs),
            pool=pool,
            endpoints=endpoints,
            rendered=configuration(programs.tools, endpoints),
            guarded=guarded,
            encrypted=found,
        )


def _secrets(folder: Path) -> tuple[str, ...]:
    """Writes a certificate for each side; returns the flags of a replica."""
    ca = authority(folder, "ca")
    for name in ("gateway", "replica"):
        pair = ca.issue(f"DNS:{name}")
        files = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": ca.certificate}
        SecretFolder(folder / name).put(files)
    own = {"certificate": "tls.crt", "key": "tls.key", "clients.ca": "ca.crt"}
    flags = [
        word for key, name in own.items() for word in (f"--tls.{key}", f"{folder}/replica/{name}")
    ]
    return (*flags, "--tls.clients.allow", "gateway")


MINIMAL = "minimal Envoy"
LEAN = "lean Envoy"
GATEWAY = "Corelane's gateway"
NGINX = "nginx"
HAPROXY = "HAProxy"
MUTUAL = f"{GATEWAY} with mutual TLS"
EACH = " on a connection each"
SILENT = f"{GATEWAY} without a log"
LOGS = " with full log"

NAMES = (
    *(MINIMAL, LEAN, SILENT, NGINX, HAPROXY),
    *(
        GATEWAY,
        MUTUAL,
        GATEWAY + EACH,
        MUTUAL + EACH,
        MINIMAL + LOGS,
        GATEWAY + LOGS,
        NGINX + LOGS,
        HAPROXY + LOGS,
    ),
)

HERE = Path(__file__).resolve().parent

HAPROXY_LOG = """\
log stdout format raw local0
  capture response header corelane-replica len 64
  capture response header corelane-lane len 8
  log-format '{"time":"%Tl","client":"%ci","method":"%HM","path":"%HP","protocol":"%HV","status":%ST,"upstream":"%si:%sp","replica":"%[capture.res.hdr(0)]","lane":"%[capture.res.hdr(1)]","flags":"%ts","attempts":"%rc","bytes_received":%U,"bytes_sent":%B,"duration_ms":%Ta,"upstream_ms":%Tr}'"""


@dataclass(frozen=True)
class Proxy(Startable):
    name: str
    program: str
    text: str
    """The configuration; @PORT@ and @FOLDER@ are replaced when it starts."""

    def argv(self, programs: Programs, address: str, folder: Path) -> list[str]:
        text = filled(self.text, {"PORT": address.rpartition(":")[2], "FOLDER": str(folder)})
        # Envoy detects the format from the file extension.
        file = folder / ("config.json" if text.startswith("{") else "config.yaml")
        file.write_text(text)
        program = programs.tools[self.program]
        if self.program == "nginx":
            return [str(program), "-p", str(folder), "-c", str(file)]
        if self.program == "haproxy":
            return ["env", f"LD_LIBRARY_PATH={libraries(program)}", str(program), "-f", str(file)]
        # The chart's command line, but with one worker.
        argv = [str(program), "--config-path", str(file), "--disable-hot-restart"]
        return [*argv, "--log-level", "warn", "--concurrency", "1"]


def libraries(haproxy: Path) -> str:
    folders = haproxy.parent.parent.glob("usr/lib/*-linux-gnu")
    return ":".join(map(str, sorted(folders)))


def filled(text: str, values: dict[str, str]) -> str:
    """Replaces each @NAME@ in the text with its value, but leaves unknown names unchanged."""
    return re.sub(r"@([A-Z_]+)@", lambda found: values.get(found[1], found[0]), text)


def envoy(name: str, config: dict) -> Proxy:
    return Proxy(name, "envoy", json.dumps(config))


def compared(name: str, rendered: dict, pool: Sequence[Endpoint]) -> Proxy:
    kind, logs = name.removesuffix(LOGS), name.endswith(LOGS)
    full = with_full_log(rendered)
    if kind in (GATEWAY, SILENT):
        shown = full if logs else without_log(rendered) if kind == SILENT else rendered
        return envoy(name, shown)
    addresses = [{"address": HOST, "port_value": replica.port} for replica in pool]
    endpoints = [{"endpoint": {"address": {"socket_address": one}}} for one in addresses]
    file, program, log, server = {
        MINIMAL: ("minimal.yaml", "envoy", json.dumps(connection_manager(full)["access_log"]), ""),
        LEAN: ("lean.yaml", "envoy", "", ""),
        # nginx writes its log in blocks, like Envoy.
        NGINX: (
            "nginx.conf",
            "nginx",
            "@FOLDER@/access.log json buffer=64k flush=10s",
            "server {};\n",
        ),
        # HAProxy writes each line separately.
        HAPROXY: ("haproxy.cfg", "haproxy", HAPROXY_LOG, "  server s{0} {0}\n"),
    }[kind]
    none = {"nginx": "off", "haproxy": "no log"}.get(program, "[]")
    values = {
        "ACCESS_LOG": log if logs else none,
        "ENDPOINTS": json.dumps(endpoints),
        "SERVERS": "".join(server.format(f"{HOST}:{replica.port}") for replica in pool),
    }
    return Proxy(name, program, filled((HERE / file).read_text(), values))


def versions(programs: Programs) -> dict[str, str]:
    haproxy = programs.tools["haproxy"]
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries(haproxy)}
    asked = {
        "Envoy": [programs.tools["envoy"], "--version"],
        "nginx": [programs.tools["nginx"], "-v"],
        "HAProxy": [haproxy, "-v"],
    }
    return {name: _version(argv, environment) for name, argv in asked.items()}


def _version(argv: list, environment: dict[str, str]) -> str:
    result = subprocess.run(argv, capture_output=True, text=True, env=environment, check=True)
    number = r"(?<![\w./-])\d+\.\d+\.\d+|(?<=/)\d+\.\d+\.\d+"
    found = re.search(number, result.stdout + result.stderr)
    return found[0] if found else "unknown"
