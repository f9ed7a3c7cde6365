"""Values: their schema, their comments and the guards that refuse what cannot work."""

import json
import re
from collections.abc import Iterator

import pytest

from support.rendering import CHARTS, default_values, helm, template

BOTH = pytest.mark.parametrize("chart", ["gateway", "server"])

ENDPOINT = {"address": "::1", "port": 8080, "adminPort": 8081}
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


@BOTH
def test_lint_is_strict_and_clean(chart: str) -> None:
    result = helm("lint", "--strict", CHARTS / chart)
    assert result.returncode == 0, result.stdout + result.stderr


@BOTH
def test_schema_knows_every_key_and_refuses_others(chart: str) -> None:
    for where in paths(default_values(chart)):
        result = template(chart, f"{where}surprise=1")
        assert result.returncode != 0, f"{where}surprise was accepted"
        assert "'surprise' not allowed" in result.stderr
    schema = json.loads((CHARTS / chart / "values.schema.json").read_text())
    for where, part in closed(schema):
        assert part.get("additionalProperties") is False, where


@BOTH
def test_every_value_says_what_it_is_for(chart: str) -> None:
    comment: list[str] = []
    for line in (CHARTS / chart / "values.yaml").read_text().splitlines():
        if line.lstrip().startswith("#"):
            comment.append(line.lstrip())
            continue
        if re.match(r" *\w+: *\S", line):
            assert comment and comment[0].startswith("# -- "), f"{line.strip()!r} has no comment"
        comment.clear()


@pytest.mark.parametrize(
    ("chart", "setting", "words"),
    [
        ("server", "cpus=1.5", "cpus is 1.5: give a whole number"),
        ("server", "cpus=500m", "cpus is 500m: give a whole number"),
        ("server", "cpus=0", "cpus is 0: give a whole number"),
        ("server", "lanes=2", "lanes is 2 but cpus is 1"),
        ("server", "config.drain.deadline=30", "config.drain.deadline is 30: give a whole number"),
        ("server", "config.timeouts.idle=1y", "config.timeouts.idle is 1y: give a whole number"),
        ("server", "config.tls.reload=10", "config.tls.reload is 10: give a whole number"),
        ("server", "config.drain.settle=31s", "must not be longer than config.drain.deadline"),
        ("server", "shutdown.gracePeriodSeconds=30", "must be longer than config.drain.deadline"),
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
        ("gateway", ONE_ENDPOINT, "upstream.discovery is dns"),
    ],
)
def test_guard_names_the_value_and_what_to_do(chart: str, setting: str, words: str) -> None:
    result = template(chart, setting)
    assert result.returncode != 0
    assert words in result.stderr


def test_idle_timeouts_are_not_compared_when_the_servers_is_unknown() -> None:
    result = template("gateway", "upstream.idleTimeout=10m", "upstream.serverIdleTimeout=")
    assert result.returncode == 0, result.stderr
