"""Real processes expose exactly the series of the catalogue."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from dashboards.metrics import catalogue
from stack import eventually
from stack import node as trees
from stack.apiserver import Api
from stack.credentials import SecretFolder, authority, certificate, issuer, token
from stack.gateway import endpoint, gateway_to
from stack.http import ask
from stack.ports import free_ports
from stack.prometheus import lately, prometheus
from stack.rendering import template
from stack.replica import Server
from support.cgroups import Cgroups, Machine
from support.exposition import births, differences, families
from support.node_agents import Agents as NodeAgents
from support.node_agents import node, pod
from support.projects import Writer
from support.slices import READY, SERVICE, Slices, Wire
from support.slices import Agents as GatewayAgents
from tools.errors import ToolError

PARTS = catalogue.read()
SERVER = [PARTS[name] for name in ("server", "settings", "service")]
GATEWAY = PARTS["gateway"]

READS = (
    "/",
    "/hello",
    "/div/4",
    "/work?ops=1",
    "/work/a?ops=1",
    "/static/",
    "/static/4k.txt",
    "/openapi.json",
)
READS += ("/docs", "/projects", "/none")
"""One path per route that needs no setup."""


def agrees(parts: list[catalogue.Part], read: Callable[[], bytes]) -> None:
    """Waits until a target's page matches the catalogue."""
    found: list[str] = []

    def same() -> bool:
        found[:] = differences(parts, read().decode())
        return not found

    try:
        eventually(same, pause=0.1)
    except ToolError as error:
        # The differences are more helpful than the timeout.
        pytest.fail("\n".join(found) or str(error))


def test_server(start: Callable[..., Server], tmp_path: Path) -> None:
    writer = Writer.new(tmp_path)
    trusted, key = certificate(tmp_path, "tls", "ec")
    flags = ["--lanes", "2", "--placement", "least-loaded", *writer.flags()]
    flags += ["--tls.certificate", trusted, "--tls.key", key, "--faults", "on"]
    flags += ["--slow-lanes.mode", "on"]
    flags += ["--database.path", tmp_path / "projects.db"]
    server = start(*flags, "--otlp.endpoint", f"http://127.0.0.1:{free_ports(1)}")
    url = f"https://localhost:{urlsplit(server.url).port}"
    new = ask(server.admin, "/metrics").body.decode()

    def everywhere(path: str, method: str = "GET", **more: object) -> bytes:
        """Repeats a request on new connections until every lane has answered; returns the last
        reply.
        """
        lanes, replies = set(), []

        def answered() -> bool:
            reply = ask(url, path, method, authority=trusted, **more)
            assert reply.status == (404 if path == "/none" else 201 if method == "POST" else 200)
            lanes.add(reply.headers["corelane-lane"])
            replies.append(reply.body)
            return lanes == {"0", "1"}

        eventually(answered, f"an answer of each lane to {path}")
        return replies[-1]

    for path in READS:
        everywhere(path)
    saved = everywhere("/projects", "POST", body=b'{"name": "n"}', headers=writer.headers())
    everywhere(f"/projects/{json.loads(saved)['id']}")
    agrees(SERVER, lambda: ask(server.admin, "/metrics").body)
    assert births(SERVER, new, ask(server.admin, "/metrics").body.decode()) == []
    counts = samples(server, tmp_path)
    assert 400 < counts["low"] <= 600 < counts["full"]


def samples(server: Server, folder: Path) -> dict[str, float]:
    """Stored samples of a replica for each detail level of charts/monitoring."""
    jobs = []
    for detail in ("low", "full"):
        rendered = template(
            "monitoring", "mode=standalone", "grafana.enabled=false", f"scrape.detail={detail}"
        )
        (file,) = re.findall(r"\n  prometheus.yml: \|\n((?:    .*\n|\n)+)", rendered.stdout)
        configured = yaml.safe_load(file)["scrape_configs"]
        (job,) = [each for each in configured if each["job_name"] == "service"]
        labels = {"job": "service", "detail": detail}
        made = {"static_configs": [{"targets": [urlsplit(server.admin).netloc], "labels": labels}]}
        made |= {"job_name": detail, "scrape_timeout": "1s", "scrape_interval": "1s"}
        made["metric_relabel_configs"] = job.get("metric_relabel_configs", [])
        jobs.append(made)
    # The series is missing if the scrape timed out.
    query = "max_over_time(scrape_samples_post_metric_relabeling[1m]) > 0"
    with prometheus(folder, {}, scrape_configs=jobs) as found:

        def both() -> dict[str, float]:
            series = found.instant(query, lately()).series
            counts = {each.labels["detail"]: each.numbers[0] for each in series}
            return counts if len(counts) == len(jobs) else {}

        return eventually(both, "a scrape by each job")


def test_gateway(start: Callable[..., Server], tmp_path: Path) -> None:
    trusted, key = certificate(tmp_path, "tls", "ec")
    known = issuer(tmp_path)
    (tmp_path / "jwks.json").write_text(known.keys())
    (tmp_path / "token").write_text(token())
    files = {"jwks": f"{tmp_path}/jwks.json", "token": f"{tmp_path}/token"}
    secret = SecretFolder(tmp_path / "mtls")
    tls = {"certificate": str(trusted), "key": str(key), "sds": f"{tmp_path}/certificate.yaml"}
    jwt = {"enabled": True, "issuer": known.name, "audiences": ["corelane"], "files": files}
    jwt["requireClaims"] = [{"claim": "sub"}]
    values = {
        "tls": {"enabled": True, "files": tls},
        "authentication": {"jwt": jwt},
        "cors": {"origins": ["*"]},
        "rateLimit": {"enabled": True},
        "tracing": {"enabled": True, "host": "127.0.0.1", "port": free_ports(1)},
        "mtls": {"enabled": True, "files": {"folder": str(secret.path)}},
    }
    values["upstream"] = {"identity": "localhost"}
    # Both sides use the same certificate.
    ca = authority(tmp_path, "ca")
    pair = ca.issue("DNS:localhost")
    own = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": ca.certificate}
    secret.put(own)
    paths = [secret.path / name for name in own]
    names = ("--tls.certificate", "--tls.key", "--tls.clients.ca")
    mutual = [word for both in zip(names, paths, strict=True) for word in both]
    server = start(*mutual, "--tls.clients.allow", "localhost", scheme="https")
    with gateway_to([endpoint(server.url, server.admin)], tmp_path, values) as gateway:
        new = ask(gateway.stats, "/stats/prometheus").body.decode()

        def answers() -> bool:
            return ask(gateway.tls, "/hello", authority=trusted).status == 200

        # Its first health check may have been too late.
        eventually(answers, "a reply of the server")
        agrees([GATEWAY], lambda: ask(gateway.stats, "/stats/prometheus").body)
        last = ask(gateway.stats, "/stats/prometheus").body.decode()
        assert births([GATEWAY], new, last) == []
        shown = families(last)
        assert sum(len(family.samples) for family in shown.values()) <= GATEWAY.most
    configuration = yaml.safe_load((tmp_path / "envoy.yaml").read_text())
    matcher = configuration["stats_config"]["stats_matcher"]["inclusion_list"]["patterns"]
    patterns = [pattern["prefix"] for pattern in matcher]
    assert sorted(patterns) == sorted(prefix.pattern for prefix in GATEWAY.prefixes)
    for prefix in GATEWAY.prefixes:
        assert any(name.startswith(prefix.name) for name in shown), prefix.name


def test_gateway_agent(api: Api, wire: Wire, tmp_path: Path) -> None:
    with api.namespace() as namespace:
        Slices(api, namespace).put("a", ("192.0.2.1", READY))
        own = {"corelane": {"service": f"{namespace}/{SERVICE}:http"}}
        clusters = [{"name": "server", "metadata": {"filter_metadata": own}}]
        data = {"clusters": clusters, "routes": {"virtual_hosts": []}, "rate-limits": {}}
        (tmp_path / "data").mkdir()
        for name, value in data.items():
            (tmp_path / "data" / f"{name}.json").write_text(json.dumps(value))
        made = ("routes", "--namespace", namespace, f"--from-file={tmp_path / 'data'}")
        assert api.kubectl("create", "configmap", *made).returncode == 0
        (tmp_path / "keys").mkdir()
        filters = {"corelane.api_keys": {"folder": f"{tmp_path}/keys", "config": {}}}
        (tmp_path / "filters").write_text(json.dumps(filters))
        flags = (
            f"--credentials={tmp_path}/filters",
            f"--routes={namespace}/routes",
            f"--envoy-admin=127.0.0.1:{free_ports(1)}",
        )
        with GatewayAgents(tmp_path, namespace, wire).run(None, *flags) as agent:
            agent.wait_until_ready()
            agrees([PARTS["gateway-agent"]], lambda: ask(agent.url, "/metrics").body)


def test_node_tuner(api: Api, tmp_path: Path) -> None:
    tree = trees.make(tmp_path, trees.node())
    machine, cgroups = Machine(tree.root), Cgroups(tmp_path / "cgroups", unified=True, systemd=True)
    machine.process(100, "1")
    knobs = "net.core.netdev_max_backlog=5000;net.core.netdev_budget=600"
    flags = [f"--root={tree.root}", f"--journal={tree.journal}", "--agent.mode=apply"]
    flags += ["--profile=custom", f"--knobs={knobs}", f"--agent.cgroups={cgroups.mounted}"]
    with api.namespace() as namespace, node(api) as made:
        flags += [f"--agent.kubeconfig={api.kubeconfig}", f"--agent.node={made.name}"]
        looked_at = pod(api, (namespace, made), "server")
        cgroups.put(looked_at, "1", 100)
        cgroups.used(looked_at, 1_000_000)
        with NodeAgents(tmp_path).run(*flags) as agent:
            agrees([PARTS["node-tuning"]], lambda: agent.ask("/metrics").body)
