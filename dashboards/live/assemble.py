"""Assembles a platform's parts: files in the run folder, command lines, readiness checks, scrapes."""

import json
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dashboards.live import node
from dashboards.live.platform import REPLICAS, Options, Plan, Platform, draw
from local import commands, database, processes, render
from local.service import REFERENCE
from local.topology import Replica
from stack import HOST, apiserver
from stack.credentials import certificate
from stack.http import ask, replies
from stack.postgres import Postgres
from stack.process import Process
from stack.programs import program
from stack.replica import Server, command, with_flags
from tools import resolve
from tools.resolve import tool

TARGETS = {"gateway": {"metrics_path": "/stats/prometheus"}, "node-tuning": {"honor_labels": True}}
"""Additional job settings. The `pod` label of a node's agent identifies the checked pod."""


SERVICES = {"service": "server", "gateway-agent": "gateway"}


def scrape_configuration(options: Options, jobs: Mapping[str, Mapping[str, int]]) -> str:
    every = _duration(options.interval)
    scrapes = [
        {
            "job_name": job,
            "static_configs": [_target(options.name, job, pod, port) for pod, port in pods.items()],
            **TARGETS.get(job, {}),
        }
        for job, pods in jobs.items()
    ]
    whole = {
        "global": {
            "scrape_interval": every,
            "scrape_timeout": every,
            "evaluation_interval": every,
        },
        "rule_files": [str(path) for path in options.rules],
        "scrape_configs": scrapes,
    }
    # JSON is YAML (YAML 1.2, section 1.3).
    return json.dumps(whole, indent=2) + "\n"


def paced(folder: Path, files: Sequence[Path], seconds: float) -> list[Path]:
    folder.mkdir()
    for pattern in files:
        for file in pattern.parent.glob(pattern.name):
            text = re.sub(r"(\n +interval:) \S+", rf"\1 {_duration(seconds)}", file.read_text())
            (folder / file.name).write_text(text)
    return [folder / "*.yaml"]


def _target(namespace: str, job: str, name: str, port: int) -> dict:
    """An agent's target has its node's label; all other targets have their pod's label."""
    agent = job == "node-tuning"
    labels = {"node": name} if agent else {"node": node.NAME, "pod": name}
    labels |= {"namespace": namespace, "service": SERVICES.get(job, job)}
    return {"targets": [f"{HOST}:{port}"], "labels": labels}


def _duration(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


ENDPOINTS = "/run/corelane"


TOOLS = ("helm", "envoy", "prometheus", "supervisord", "k6", "openssl")

LIMIT = 20
"""Endpoints in the agent's file. The agent accepts four times as many endpoints."""


def assemble(options: Options, run: Path) -> Platform:
    """Assembles all parts without starting them."""
    resolve.ensure([*TOOLS, *apiserver.PROGRAMS])
    plan = draw()
    render.make_token(run)
    certificate(run, "tls", "ec")
    known = {REFERENCE.name: processes.variables(run, program("corelane-server"))}
    env = processes.make(run, [REFERENCE], known)
    # Proxies from the environment must not apply to loopback.
    env = {name: value for name, value in env.items() if "proxy" not in name.lower()}
    tree = node.make(run / node.NAME, cpus=REPLICAS + 6)
    api, servers = apiserver.make(run / "kubernetes", plan.kubernetes)
    cluster = node.Cluster(api, options.name)
    platform = Platform(options, run, plan, env, {}, tree, cluster)
    for part in [
        *servers,
        *_database(platform),
        *_gateway(platform),
        *_tuners(platform),
        _prometheus(platform),
    ]:
        platform.parts[part.name] = part
    return platform


def _part(platform: Platform, name: str, argv: list, url: str) -> Process:
    return Process(name, argv, platform.run, lambda: replies(url), platform.environment)


def _database(platform: Platform) -> list[Process]:
    options, run, plan = platform.options, platform.run, platform.plan
    address = apiserver.own_address()
    postgres = database.make(plan.topology, run)
    found: list[Process] = [_postgres(platform, postgres)]
    for replica in plan.topology.replicas:
        argv = _gated(replica, plan, options, program("corelane-server"), run)
        found.append(_server(platform, replica, argv, address))
    argv = _edge(plan, options, program("corelane-server"), run, postgres)
    return [*found, _server(platform, plan.edge, argv, HOST, secure=True)]


def _postgres(platform: Platform, postgres: database.Postgres) -> Process:
    env = platform.environment | postgres.programs.environment()
    made = Process(
        "postgres",
        postgres.argv(),
        platform.run,
        lambda: database.ready(platform.run, made.pid),
        env,
        cwd=postgres.home,
        # On SIGTERM, it would wait until all connections are closed (PostgreSQL, Shutting Down the
        # Server).
        ending=signal.SIGINT,
        **postgres.account.popen(),
    )
    return made


def _server(
    platform: Platform, replica: Replica, argv: list, address: str, *, secure: bool = False
) -> Server:
    ports = replica.port, replica.admin_port
    scheme, more = "https" if secure else "http", {"environment": platform.environment}
    return Server(replica.name, argv, platform.run, ports, address=address, scheme=scheme, **more)


def _gateway(platform: Platform) -> list[Process]:
    """Envoy with its chart's configuration; with an API server, its agent discovers the replicas."""
    run, plan = platform.run, platform.plan
    found = resolve.ensure(TOOLS)
    values, file = run / "gateway-values.json", run / "envoy.yaml"
    values.write_text(json.dumps(_values(platform), indent=2))
    folder = run / "endpoints"
    folder.mkdir()
    file.write_text(render.envoy(values, found).replace(ENDPOINTS, str(folder)))
    (run / "certificate.yaml").write_text(render.envoy(values, found, "certificate.yaml"))
    stats = f"http://{HOST}:{plan.topology.gateway_stats_port}"
    gateway = _part(platform, "gateway", commands.gateway(found["envoy"], run), f"{stats}/ready")
    argv = [
        *(program("gateway-agent"), "endpoints"),
        f"--kubeconfig={platform.cluster.api.kubeconfig}",
        f"--service=server={platform.options.name}/{node.SERVICE}:http:admin",
        f"--folder={folder}",
        # Low enough for one slice of a drill to exceed it.
        f"--limit={LIMIT}",
        f"--listen={HOST}:{plan.gateway_agent}",
        "--log-format=json",
    ]
    ready = f"http://{HOST}:{plan.gateway_agent}/readyz"
    return [_part(platform, "gateway-agent", argv, ready), gateway]


def _values(platform: Platform) -> dict:
    run = platform.run
    values = render.gateway_values(platform.plan.topology)
    values["upstream"] |= {"discovery": "eds", "endpoints": []}
    # Logging every request would produce a huge file.
    values["accessLog"] = {"percent": 1}
    files = {"certificate": run / "tls.crt", "key": run / "tls.key"}
    files["sds"] = run / "certificate.yaml"
    values["tls"] = {
        "enabled": True,
        "port": platform.plan.gateway_tls,
        "plain": "serve",
        "files": {name: str(file) for name, file in files.items()},
    }
    return values


def _tuners(platform: Platform) -> list[Process]:
    """Agents of two nodes, on disposable trees only: one applies settings, the other audits."""
    tree, other = platform.tree, node.make(platform.run / node.OTHER, platform.tree.cpus)
    apply = [
        *("--agent.mode=apply", f"--housekeeping={tree.housekeeping}"),
        *(f"--agent.node={node.NAME}", f"--agent.kubeconfig={platform.cluster.api.kubeconfig}"),
    ]
    port = platform.plan.node_tuning
    return [
        _tuner(platform, "node-tuner", tree, port, apply),
        _tuner(platform, "node-tuner-1", other, port + 1, ["--agent.mode=audit"]),
    ]


def _tuner(platform: Platform, name: str, tree: node.Tree, port: int, more: list[str]) -> Process:
    argv = [
        *(program("node-tuner"), "agent"),
        f"--root={tree.root}",
        f"--journal={tree.journal}",
        f"--agent.cgroups={tree.cgroups}",
        f"--agent.listen={HOST}:{port}",
        *("--agent.interval=1s", "--log.format=json", *more),
    ]
    return _part(platform, name, argv, f"http://{HOST}:{port}/readyz")


def _prometheus(platform: Platform) -> Process:
    plan, run, options = platform.plan, platform.run, platform.options
    topology = plan.topology
    servers = [*topology.replicas, plan.edge]
    jobs = {
        "service": {replica.name: replica.admin_port for replica in servers},
        "gateway": {"gateway": topology.gateway_stats_port},
        "gateway-agent": {"gateway": plan.gateway_agent},
        "node-tuning": {node.NAME: plan.node_tuning, node.OTHER: plan.node_tuning + 1},
        "prometheus": {"prometheus": topology.prometheus_port},
    }
    if options.pace:
        rules = paced(run / "rules", options.rules, options.pace)
        options = replace(options, rules=rules)
    (run / "prometheus.yml").write_text(scrape_configuration(options, jobs))
    argv = commands.prometheus(topology, tool("prometheus"), run)
    argv += ["--web.enable-lifecycle"]
    url = f"http://{HOST}:{topology.prometheus_port}"
    return Process("prometheus", argv, run, lambda: _scrapes_all(url), platform.environment)


def _scrapes_all(url: str) -> bool:
    if not replies(url, "/-/ready"):
        return False
    targets = ask(url, "/api/v1/targets?state=active").json()["data"]["activeTargets"]
    return bool(targets) and all(target["health"] == "up" for target in targets)


def _gated(replica: Replica, plan: Plan, options: Options, program: Path, run: Path) -> list[str]:
    """A replica behind the gateway: one pinned lane, and the shared SQLite file."""
    own = ["--database.path", str(run / "projects.db"), *_common(plan, run)]
    argv = commands.server(replica, plan.topology.pinned, program, own)
    # An EndpointSlice must not contain a loopback address.
    own = ["--listen", f"0.0.0.0:{replica.port}", "--admin.listen", f"0.0.0.0:{replica.admin_port}"]
    return with_flags(argv, [*own, *_chosen(options, replica.name)])


def _edge(plan: Plan, options: Options, program: Path, run: Path, server: Postgres) -> list[object]:
    """The replica for direct clients: TLS, two lanes fed by an acceptor, and PostgreSQL."""
    replica = plan.edge
    ports = replica.port, replica.admin_port
    flags = [
        *("--lanes", "2", "--placement", "least-loaded"),
        *("--tls.certificate", run / "tls.crt", "--tls.key", run / "tls.key", "--tls.reload", "1s"),
        *server.flags(),
        *("--drain.settle", "1s", "--drain.deadline", "15s", "--log.format", "json"),
        *_common(plan, run),
    ]
    argv = command(program, replica.name, ports, *flags)
    return with_flags(argv, _chosen(options, replica.name))


def _common(plan: Plan, run: Path) -> list[str]:
    spans = ["--otlp.endpoint", f"http://{HOST}:{plan.collector}"]
    return ["--auth.tokens", str(render.hashed_token(run)), *spans, "--faults", "on"]


def _chosen(options: Options, name: str) -> list[str]:
    return [*options.servers.get(name, ())]
