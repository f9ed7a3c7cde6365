"""Values: their schema, their comments and the guards that refuse what cannot work."""

import json
import re
from collections.abc import Iterator

import pytest

from support.rendering import CHARTS, default_values, helm, template

BOTH = pytest.mark.parametrize("chart", ["gateway", "server"])
EVERY = pytest.mark.parametrize("chart", ["gateway", "server", "node-tuning", "monitoring"])

ENDPOINT = {"address": "::1", "port": 8080, "adminPort": 8081}
RESOURCES = (
    "resources.requests.cpu={},resources.requests.memory={},"
    "resources.limits.cpu={},resources.limits.memory={}"
)
ONE_ENDPOINT = ",".join(f"upstream.endpoints[0].{key}={value}" for key, value in ENDPOINT.items())


def paths(values: dict, prefix: str = "") -> Iterator[str]:
    """The dotted names of all maps in values, with a dot at the end; the first is empty."""
    yield prefix
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from paths(value, f"{prefix}{key}.")


def closed(schema: dict, where: str = "") -> Iterator[tuple[str, dict]]:
    """All parts of a schema that describe a map with known keys."""
    if "properties" in schema:
        yield where, schema
        for key, part in schema["properties"].items():
            yield from closed(part, f"{where}.{key}")
    if "items" in schema:
        yield from closed(schema["items"], f"{where}[]")


@EVERY
def test_lint_is_strict_and_clean(chart: str) -> None:
    result = helm("lint", "--strict", CHARTS / chart)
    assert result.returncode == 0, result.stdout + result.stderr


@EVERY
def test_schema_knows_every_key_and_refuses_others(chart: str) -> None:
    # A parent chart may give all its charts whatever it likes.
    known = [where for where in paths(default_values(chart)) if where != "global."]
    # Labels and the like take any key.
    open_ones = {"labels", "selector", "annotations"}
    surprises = [
        f"{where}surprise=1" for where in known if where.split(".")[-2:][0] not in open_ones
    ]
    result = template(chart, *surprises)
    assert result.returncode != 0
    assert result.stderr.count("'surprise' not allowed") == len(surprises)
    schema = json.loads((CHARTS / chart / "values.schema.json").read_text())
    for where, part in closed(schema):
        assert part.get("additionalProperties") is (where == ".global"), where


@EVERY
def test_every_value_says_what_it_is_for(chart: str) -> None:
    comment: list[str] = []
    for line in (CHARTS / chart / "values.yaml").read_text().splitlines():
        if line.lstrip().startswith("#"):
            # What the schema says of a key is no description.
            comment = [] if line.lstrip() == "# @schema" else [*comment, line.lstrip()]
            continue
        if re.match(r" *[\w.]+: *\S", line):
            assert comment and comment[0].startswith("# -- "), f"{line.strip()!r} has no comment"
        comment.clear()


@pytest.mark.parametrize(
    ("chart", "setting", "words"),
    [
        ("server", "cpus=1.5", "cpus is 1.5: give a whole number"),
        ("server", "cpus=500m", "cpus is 500m: give a whole number"),
        ("server", RESOURCES.format("1500m", "1Gi", "1500m", "1Gi"), "give a whole number of CPUs"),
        ("gateway", RESOURCES.format("1", "1Gi", "2", "1Gi"), "requests.cpu is 1 but"),
        ("gateway", RESOURCES.format("1", "1Gi", "1", "2Gi"), "requests.memory is 1Gi but"),
        ("server", RESOURCES.format("2", "1Gi", "2", "1Gi"), "limits.cpu is 2 but cpus is 1"),
        ("server", "resources.limits.memory=1Gi", "resources.limits.cpu is missing"),
        ("server", "resources.requests.cpu=1", "resources.limits.cpu is missing"),
        ("server", "exclusive=false,pin=on", "pinned to the same CPUs. Set pin to auto"),
        ("server", "cpus=0", "cpus is 0: give a whole number"),
        ("server", "lanes=2", "lanes is 2 but cpus is 1"),
        ("server", "config.drain.deadline=30", "config.drain.deadline is 30: give a whole number"),
        ("server", "config.timeouts.idle=1y", "config.timeouts.idle is 1y: give a whole number"),
        ("server", "config.tls.reload=10", "config.tls.reload is 10: give a whole number"),
        ("server", "config.drain.settle=31s", "must not be longer than config.drain.deadline"),
        ("server", "shutdown.gracePeriodSeconds=30", "must be longer than config.drain.deadline"),
        ("server", "extraEnv[0].name=CORELANE_PIN", "settings of the server belong in config"),
        ("server", "rollout.maxSurge=0", "no pod could ever be replaced: set one of them to 1"),
        ("gateway", "rollout.maxSurge=0%", "no pod could ever be replaced: set one of them to 1"),
        ("server", "autoscaling.enabled=true,autoscaling.cpuPercent=0", "nothing to scale by"),
        ("server", "autoscaling.enabled=true,exclusive=false", "set resources.requests.cpu"),
        ("gateway", "autoscaling.enabled=true,autoscaling.minReplicas=11", "must not be above"),
        ("gateway", "listener.port=10240", "listener.port (10240) is within net.ipv4.ip_local"),
        ("gateway", "stats.port=65535", "stats.port (65535) is within net.ipv4.ip_local"),
        ("gateway", "admin.port=20000", "admin.port (20000) is within net.ipv4.ip_local"),
        ("gateway", "service.nodePort=30080", "but service.type is ClusterIP"),
        ("server", "static.volume.emptyDir.medium=Memory", "static.root is empty"),
        ("gateway", "cpus=0.5", "cpus is 0.5: give a whole number"),
        ("gateway", "shutdown.settle=15", "shutdown.settle is 15: give a whole number"),
        ("gateway", "shutdown.deadline=60", "shutdown.deadline is 60: give a whole number"),
        ("gateway", "shutdown.deadline=14s", "must not be shorter than shutdown.settle (15s)"),
        ("gateway", "shutdown.margin=0s", "shutdown.margin is 0s: it must be longer than 0s"),
        ("gateway", "upstream.timeout=0s", "shutdown.deadline is empty and upstream.timeout is 0s"),
        ("gateway", "upstream.idleTimeout=75s", "must be shorter than the server's timeouts.idle"),
        ("gateway", "upstream.idleTimeout=0s", "must be shorter than the server's timeouts.idle"),
        ("gateway", "upstream.connectTimeout=31s", "must be shorter than upstream.timeout"),
        ("gateway", "upstream.discovery=static", "upstream.endpoints is empty"),
        ("gateway", ONE_ENDPOINT, "upstream.discovery is eds"),
    ],
)
def test_guard_names_the_value_and_what_to_do(chart: str, setting: str, words: str) -> None:
    result = template(chart, setting)
    assert result.returncode != 0
    assert words in result.stderr


def test_idle_timeouts_are_not_compared_when_the_servers_is_unknown() -> None:
    result = template("gateway", "upstream.idleTimeout=10m", "upstream.serverIdleTimeout=")
    assert result.returncode == 0, result.stderr


@BOTH
@pytest.mark.parametrize(
    "setting",
    [
        "replicas=-1",
        "replicas=two",
        "exclusive=yes",
        "memory=256MB",
        "image.digest=sha256:abc",
        "image.pullPolicy=Sometimes",
        "autoscaling.cpuPercent=101",
        "disruptionBudget.maxUnavailable=0",
        "disruptionBudget.maxUnavailable=0%",
        "networkPolicy.clients[0].ports=80",
        "probes.liveness.exec.command=x",
        "resources.claims.name=x",
        r"sysctls.net\.core\.somaxconn=65535",
        r"sysctls.net\.ipv4\.tcp_tw_reuse=1",
        "extraVolumes[0].emptyDir.medium=Memory",
        "podLabels.number=1",
        "rollout.maxSurge=half",
        "affinity.zone.name=a",
    ],
)
def test_schema_refuses(chart: str, setting: str) -> None:
    result = template(chart, setting)
    assert result.returncode != 0
    assert "don't meet the specifications of the schema" in result.stderr


@BOTH
def test_a_default_of_sysctls_can_be_taken_back(chart: str) -> None:
    result = template(chart, r"sysctls.net\.ipv4\.tcp_fin_timeout=null")
    assert result.returncode == 0, result.stderr
    assert "tcp_fin_timeout" not in result.stdout


@BOTH
def test_sysctls_that_are_unsafe_before_1_32_are_refused_there(chart: str) -> None:
    buffers = r"sysctls.net\.ipv4\.tcp_rmem=4096 16384 6291456"
    old, new = (
        helm("template", "x", CHARTS / chart, "--set", buffers, "--kube-version", version)
        for version in ("1.31.9", "1.32.0")
    )
    assert "takes for safe from 1.32 on" in old.stderr
    assert new.returncode == 0, new.stderr
