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

from local import commands, database, supervisor
from local.service import REFERENCE
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


def render(topology: Topology, programs: dict[str, Path], run: Path) -> None:
    (run / "envoy.yaml").write_text(gateway_configuration(topology, programs))
    (run / "prometheus.yml").write_text(prometheus(topology, run.name))
    if topology.service == REFERENCE:
        make_token(run)
    postgres = database.make(topology, run)
    # The file may contain the database password.
    _write(run / "supervisord.conf", supervisord(topology, programs, postgres, run))


def gateway_values(topology: Topology) -> dict:
    endpoints = [
        {"address": HOST, "port": replica.port, "adminPort": replica.admin_port}
        for replica in topology.replicas
    ]
    return {
        "listener": {"address": HOST, "port": topology.gateway_port},
        "admin": {"port": topology.envoy_admin_port},
        "stats": {"address": HOST, "port": topology.gateway_stats_port},
        "upstream": {
            "discovery": "static",
            "endpoints": endpoints,
            # Well below the local replicas' drain.settle.
            "health": {"interval": "200ms"},
        },
        # Log every request, for users who try it out.
        "accessLog": {"percent": 100},
    }


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
        raise ToolError(f"{values}: no {file} without TLS: set tls.enabled")
    return text


def prometheus(topology: Topology, namespace: str) -> str:
    """Scrapes every part with the target labels of a cluster, and applies the rules."""
    gateway = {"gateway": topology.gateway_stats_port}
    replicas = {replica.name: replica.admin_port for replica in topology.replicas}
    configuration = {
        "global": {"scrape_interval": "5s", "scrape_timeout": "4s", "evaluation_interval": "15s"},
        "rule_files": [f"{_pattern(REPOSITORY / 'dashboards' / 'rules')}/*.rules.yaml"],
        "scrape_configs": [
            # Other programs may export metrics, but no setting shows where.
            _job(
                "service",
                replicas if topology.service.chassis else {},
                namespace,
                topology.service.name,
            ),
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


def _job(name: str, pods: dict[str, int], namespace: str, service: str = "") -> dict:
    common = {"namespace": namespace, "service": service or name}
    targets = [
        {"targets": [f"{HOST}:{port}"], "labels": {**common, "pod": pod}}
        for pod, port in pods.items()
    ]
    return {"job_name": name, "static_configs": targets}


def supervisord(
    topology: Topology, programs: dict[str, Path], postgres: Postgres | None, run: Path
) -> str:
    replicas = _replicas(topology, programs["server"], postgres, run)
    parts: dict[str, list[str]] = {}
    parts["dashboard"] = commands.dashboard(topology, programs["corelane"], run)
    parts["prometheus"] = commands.prometheus(topology, programs["prometheus"], run)
    parts["gateway"] = commands.gateway(programs["envoy"], run)
    sections = [
        _section(
            "supervisord",
            nodaemon="true",
            silent="true",
            # Relative to the run folder, supervisord's working directory: it would expand some of
            # these paths twice.
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
        # A separate group starts first, and stops once no process needs it.
        sections.append(_section("group:database", programs=database.PART, priority=1))
        sections.append(
            _program(database.PART, database.argv(postgres), **database.program(postgres))
        )
    return "\n".join(sections)


def _replicas(
    topology: Topology, program: Path, postgres: Postgres | None, run: Path
) -> dict[str, tuple[list[str], dict[str, str]]]:
    if topology.service == REFERENCE:
        more = database.flags(topology, postgres, run)
        more += ["--auth.tokens", str(hashed_token(run))]
        return {
            replica.name: (commands.server(replica, topology.pinned, program, more), {})
            for replica in topology.replicas
        }
    shared = database.environment(topology, postgres, run)
    return {
        replica.name: (
            commands.service(replica, program),
            commands.environment(replica, topology) | shared,
        )
        for replica in topology.replicas
    }


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


def gateway_configuration(topology: Topology, programs: dict[str, Path]) -> str:
    """Rendered by Helm if the service defines gateway values."""
    service = topology.service
    text = _chosen(topology, programs) if service.gateway else _usual(topology)
    if service.chassis:
        return text
    return text.replace(READY, f"http_health_check: {{path: {json.dumps(service.health)}}}")


def _chosen(topology: Topology, programs: dict[str, Path]) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(_merged(gateway_values(topology), topology.service.gateway), file)
        file.flush()
        return envoy(Path(file.name), programs)


def _merged(values: dict, more: dict) -> dict:
    """Merges values like Helm, which merges maps key by key and replaces other values entirely."""
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
