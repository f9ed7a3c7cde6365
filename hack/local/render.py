"""Writes the configuration files of all processes into the run folder.

Envoy's configuration comes from envoy.yaml, which `make charts` renders from the gateway's chart
for one replica, with placeholders for ports. `make up` therefore needs no Helm. The token for
writing projects is kept across restarts.
"""

import hashlib
import json
import re
import secrets
import shlex
import subprocess
import tempfile
from pathlib import Path
from string import Template

from local import build, commands, database, settings, supervisor
from local.service import REFERENCE, Service
from local.topology import Topology
from stack import HOST, REPOSITORY
from stack.postgres import Postgres
from tools.errors import ToolError

STOP = 20
"""Seconds from SIGTERM to SIGKILL; more than the drain.deadline of local replicas."""

FILE_OF_CONFIGMAP = (
    "import sys, yaml; print(yaml.safe_load(sys.stdin)['data'].get(sys.argv[1], ''), end='')"
)

CHART = REPOSITORY / "charts" / "gateway"


def render(
    topology: Topology, programs: dict[str, Path], known: dict[str, set[str]], run: Path
) -> None:
    """`known` contains the CORELANE_ variables that each service reads."""
    (run / "envoy.yaml").write_text(gateway_configuration(topology, programs, run))
    (run / "prometheus.yml").write_text(prometheus(topology, run.name))
    if topology.service == REFERENCE:
        make_token(run)
    postgres = database.make(topology, run)
    # The file may contain the database password.
    _write(run / "supervisord.conf", supervisord(topology, programs, known, postgres, run))


def gateway_values(topology: Topology) -> dict:
    several = len(topology.services) > 1
    return {
        "listener": {"address": HOST, "port": topology.gateway_port},
        "admin": {"port": topology.envoy_admin_port},
        "stats": {"address": HOST, "port": topology.gateway_stats_port},
        "upstream": {
            "discovery": "static",
            "endpoints": [] if several else _endpoints(topology, topology.service),
            # Well below the local replicas' drain.settle.
            "health": {"interval": "200ms"},
        },
        # Log every request, for users who try it out.
        "accessLog": {"percent": 100},
        "routes": _routes(topology) if several else [],
    }


def _mutual_tls(topology: Topology, run: Path) -> dict:
    """Gateway values for mutual TLS."""
    if not topology.mtls:
        return {}
    files = {"folder": f"{topology.mtls}/gateway", "sds": str(run)}
    upstream = {"identity": settings.identity("server")}
    return {"mtls": {"enabled": True, "files": files}, "upstream": upstream}


def _endpoints(topology: Topology, service: Service) -> list[dict]:
    return [
        {"address": HOST, "port": replica.port, "adminPort": replica.admin_port}
        for replica in topology.replicas_of(service)
    ]


def host(service: Service) -> str:
    """The host whose requests the gateway sends to one of several services. curl and browsers
    resolve it to this machine (RFC 6761, section 6.3).
    """
    return f"{service.name.lower().replace('_', '-')}.localhost"


def _routes(topology: Topology) -> list[dict]:
    """The first service also gets the requests for all other hosts."""
    routes = []
    for service in topology.services:
        upstream = service.gateway.get("upstream", {})
        chosen = {key: upstream[key] for key in ("protocol", "upgrade") if key in upstream}
        name = service.name.lower().replace("_", "-")
        route = {"service": {"name": name, "endpoints": _endpoints(topology, service)}, **chosen}
        if not service.chassis:
            route["health"] = {"path": service.health}
        routes.append({"name": name, "hosts": [host(service)], **route})
    rest = {key: value for key, value in routes[0].items() if key != "hosts"}
    return [*routes, {**rest, "name": "default"}]


def envoy(
    values: Path, programs: dict[str, Path], file: str = "envoy.yaml", chart: Path = CHART
) -> str:
    """A file of the Envoy configuration that the gateway's chart renders for a values file."""
    argv = [programs["helm"], "template", "gateway", chart, "-f", values]
    # The chart requires images for its pods, which this command does not show.
    argv += ["--show-only", "templates/configmap.yaml", "--set", "global.registry=none.invalid"]
    helm = subprocess.run(argv, capture_output=True, text=True, check=False)
    if helm.returncode != 0:
        raise ToolError(f"helm template {chart} failed:\n{helm.stderr.strip()}")
    python = programs["supervisord"].parent / "python"
    text = subprocess.run(
        [python, "-c", FILE_OF_CONFIGMAP, file],
        input=helm.stdout,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    if not text:
        raise ToolError(f"{values}: no {file} without TLS: set tls.enabled or mtls.enabled")
    return text


def prometheus(topology: Topology, namespace: str) -> str:
    """Scrapes every part with the target labels of a cluster, and applies the rules."""
    gateway = {"gateway": topology.gateway_stats_port}
    # Other programs may export metrics, but no setting shows where.
    chassis = [service for service in topology.services if service.chassis]
    replicas = [
        _target(replica.name, replica.admin_port, namespace, service.name)
        for service in chassis
        for replica in topology.replicas_of(service)
    ]
    configuration = {
        "global": {"scrape_interval": "5s", "scrape_timeout": "4s", "evaluation_interval": "15s"},
        "rule_files": [f"{_pattern(REPOSITORY / 'dashboards' / 'rules')}/*.rules.yaml"],
        "scrape_configs": [
            {"job_name": "service", "static_configs": replicas},
            _job("gateway", gateway, namespace) | {"metrics_path": "/stats/prometheus"},
            _job("prometheus", {"prometheus": topology.prometheus_port}, namespace),
        ],
    }
    # JSON is YAML (YAML 1.2, section 1.3).
    return json.dumps(configuration, indent=2) + "\n"


def _pattern(folder: Path) -> str:
    """A folder as a pattern for Go's filepath.Glob, because Prometheus expands the paths of rule
    files.

    Prometheus rejects a star in a folder, even an escaped one. A question mark matches a star.
    """
    return re.sub(r"[?\[\\]", r"\\\g<0>", str(folder)).replace("*", "?")


def _job(name: str, pods: dict[str, int], namespace: str) -> dict:
    targets = [_target(pod, port, namespace, name) for pod, port in pods.items()]
    return {"job_name": name, "static_configs": targets}


def _target(pod: str, port: int, namespace: str, service: str) -> dict:
    labels = {"namespace": namespace, "service": service, "pod": pod}
    return {"targets": [f"{HOST}:{port}"], "labels": labels}


def supervisord(
    topology: Topology,
    programs: dict[str, Path],
    known: dict[str, set[str]],
    postgres: Postgres | None,
    run: Path,
) -> str:
    replicas = _replicas(topology, known, postgres, run)
    parts: dict[str, list[str]] = {}
    parts["dashboard"] = commands.dashboard(topology, programs["corelane"], run)
    parts["prometheus"] = commands.prometheus(topology, programs["prometheus"], run)
    parts["gateway"] = commands.gateway(programs["envoy"], run)
    sections = [
        _section(
            "supervisord",
            nodaemon="true",
            silent="true",
            # These paths are relative to the run folder, which is supervisord's working directory,
            # because supervisord would expand some absolute paths twice.
            logfile="supervisord.log",
            pidfile="supervisord.pid",
            childlogdir=".",
        ),
        _section("unix_http_server", file=supervisor.socket_path(run), chmod="0700"),
        _section(
            "rpcinterface:supervisor",
            **{"supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"},
        ),
        # supervisord stops groups in sequence, and the processes within a group in parallel.
        _section(f"group:{supervisor.GROUP}", programs=",".join([*replicas, *parts])),
    ]
    sections += [
        # With PostgreSQL, `up` starts the replicas once the database is ready.
        _program(name, argv, environment=_pairs(own), autostart=postgres is None)
        for name, (argv, own) in replicas.items()
    ]
    sections += [_program(name, argv) for name, argv in parts.items()]
    if postgres is not None:
        # A separate group, which starts first and stops once no process needs it.
        sections.append(_section("group:database", programs=database.PART, priority=1))
        sections.append(
            _program(database.PART, database.argv(postgres), **database.program(postgres))
        )
    return "\n".join(sections)


def _replicas(
    topology: Topology, known: dict[str, set[str]], postgres: Postgres | None, run: Path
) -> dict[str, tuple[list[str], dict[str, str]]]:
    if topology.service == REFERENCE:
        program = build.installed(REFERENCE, run)
        more = database.flags(topology, postgres, run)
        more += ["--auth.tokens", str(hashed_token(run))]
        for name, value in commands.tls(topology.mtls).items():
            more += [f"--{name}", value]
        return {
            replica.name: (commands.server(replica, topology.pinned, program, more), {})
            for replica in topology.replicas
        }
    found = {}
    for replica in topology.replicas:
        service = topology.of(replica)
        own = commands.environment(replica, topology) | commands.calls(
            topology, known[service.name]
        )
        own |= database.environment(topology, service, postgres, run)
        found[replica.name] = (commands.service(replica, build.installed(service, run)), own)
    return found


def _pairs(variables: dict[str, str]) -> str:
    """supervisord's syntax has no escapes, so values must not contain quotes."""
    return ",".join(f'{name}="{value}"' for name, value in variables.items())


def _program(name: str, argv: list[str], **more: object) -> str:
    return _section(
        f"program:{name}",
        command=shlex.join(argv),
        autorestart="true",
        startsecs=1,
        startretries=100,
        stdout_logfile=f"{name}.log",
        stdout_logfile_maxbytes="50MB",
        stdout_logfile_backups=1,
        redirect_stderr="true",
        stopwaitsecs=STOP,
        **more,
    )


def _section(title: str, **options: object) -> str:
    lines = [f"{key}={_escaped(str(value))}" for key, value in options.items()]
    return "\n".join([f"[{title}]", *lines, ""])


def _escaped(value: str) -> str:
    """supervisord expands %(name)s and treats text after a space and ; or # as a comment.

    These two characters have no escape, so an empty expansion precedes them.
    """
    return re.sub(r"(?<=\s)[;#]", r"%(here).0s\g<0>", value.replace("%", "%%"))


ENVOY_TEMPLATE = Path(__file__).with_name("envoy.yaml")

FIRST = "        - endpoint:\n"
LAST = "$REPLICA_ADMIN_PORT}\n"
"""Start of a replica's first line in the configuration, and end of its last line."""

READY = 'http_health_check: {path: "/readyz"}'


def gateway_configuration(topology: Topology, programs: dict[str, Path], run: Path) -> str:
    """Rendered by Helm if there are several services or mutual TLS, or the service defines gateway
    values.
    """
    service = topology.service
    if len(topology.services) > 1 or topology.mtls:
        return _chosen(topology, programs, run)
    text = _chosen(topology, programs, run) if service.gateway else _usual(topology)
    if service.chassis:
        return text
    return text.replace(READY, f"http_health_check: {{path: {json.dumps(service.health)}}}")


def _chosen(topology: Topology, programs: dict[str, Path], run: Path) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        values = gateway_values(topology)
        if len(topology.services) == 1:
            values = _merged(values, topology.service.gateway)
        json.dump(_merged(values, _mutual_tls(topology, run)), file)
        file.flush()
        for name in ("mtls-certificate.yaml", "mtls-ca.yaml") if topology.mtls else ():
            (run / name).write_text(envoy(Path(file.name), programs, name))
        return envoy(Path(file.name), programs)


def _merged(values: dict, more: dict) -> dict:
    """Merges values as Helm does: maps are merged key by key, and other values are replaced."""
    return values | {
        key: _merged(values[key], value)
        if isinstance(value, dict) and isinstance(values.get(key), dict)
        else value
        for key, value in more.items()
    }


def _usual(topology: Topology) -> str:
    text = ENVOY_TEMPLATE.read_text()
    begin = text.index(FIRST)
    end = text.index(LAST, begin) + len(LAST)
    endpoint = Template(text[begin:end])
    endpoints = "".join(
        endpoint.substitute(REPLICA_PORT=replica.port, REPLICA_ADMIN_PORT=replica.admin_port)
        for replica in topology.replicas
    )
    ports = {
        "GATEWAY_PORT": topology.gateway_port,
        "ENVOY_ADMIN_PORT": topology.envoy_admin_port,
        "GATEWAY_STATS_PORT": topology.gateway_stats_port,
    }
    before, after = (Template(part).substitute(ports) for part in (text[:begin], text[end:]))
    return before + endpoints + after


TOKEN_NAME = "local"


def clear_token(run: Path) -> Path:
    """File with the token itself, for `curl -H "Authorization: Bearer $(cat ...)"`."""
    return run / "token"


def hashed_token(run: Path) -> Path:
    return run / "tokens"


def make_token(run: Path) -> None:
    """Also writes the file with the token's hash. An existing token stays."""
    file = clear_token(run)
    if not file.exists():
        _write(file, secrets.token_urlsafe(32))
    digest = hashlib.sha256(file.read_text().strip().encode()).hexdigest()
    _write(hashed_token(run), f"{TOKEN_NAME} sha256:{digest}\n")


def _write(file: Path, text: str) -> None:
    """Writes a file that other users can never read."""
    fresh = file.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    fresh.touch(mode=0o600)
    fresh.write_text(text)
    fresh.rename(file)
