"""charts/service: settings that the real server accepts, assumptions shared with gateways, and the
output of `corelane capacity --hpa`.
"""

import json
import os
import shlex
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from stack import REPOSITORY
from stack.apiserver import Api
from stack.rendering import CHARTS, container, default_values, envoy_config, render, template
from tools import resolve

Check = Callable[..., dict[str, str]]

SET_BY_CHART = {"listen", "admin.listen", "replica", "lanes", "pin"}


@pytest.fixture
def check(binary: Path, tmp_path: Path) -> Check:
    """Runs `corelane-server --check` in the environment of a rendered replica."""

    def run(*settings: str, values: Path | None = None) -> dict[str, str]:
        objects = render("service", *settings, values=values)
        given = {each["name"]: each.get("value", "shop-0") for each in container(objects)["env"]}
        (name, text), *others = objects["ConfigMap"]["data"].items()
        assert not others
        assert Path(given["CORELANE_CONFIG"]).name == name
        file = tmp_path / name
        file.write_text(text)
        environment = {"PATH": os.environ["PATH"], **given, "CORELANE_CONFIG": str(file)}
        return shown(binary, environment)

    return run


def shown(binary: Path, environment: dict[str, str]) -> dict[str, str]:
    result = subprocess.run(
        [binary, "--check"], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    lines = (line.split("  #")[0].split(" = ") for line in result.stdout.splitlines())
    return {key: value.strip('"') for key, value in lines}


def test_the_reference_values_change_nothing_but_logs_and_what_follows_from_the_pod(
    check: Check, binary: Path
) -> None:
    own, charted = shown(binary, {"PATH": os.environ["PATH"]}), check()
    differing = {key for key in own if own[key] != charted[key]}
    assert differing - SET_BY_CHART == {"log.format"}


def test_settings_reach_the_server(check: Check, tmp_path: Path) -> None:
    wanted = {
        "cpus": 2,
        "ports": {"traffic": 9080, "admin": 9081},
        "drain": {"settle": "250ms", "deadline": "1h"},
        "config": {
            "backlog": 1024,
            "load_reports": "text",
            "limits": {"connections": 2_000_000, "unsent_bytes": "64MiB"},
            "otlp": {"ratio": 0.25},
            "static": {"cache_control": "*.css: max-age=60"},
        },
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(wanted))
    accepted = check(values=tmp_path / "values.yaml")
    expected = {
        "listen": "0.0.0.0:9080",
        "admin.listen": "0.0.0.0:9081",
        "replica": "shop-0",
        "lanes": "2",
        "pin": "off",
        "drain.settle": "250ms",
        "drain.deadline": "1h",
        "backlog": "1024",
        "load_reports": "text",
        "limits.connections": "2000000",
        "limits.unsent_bytes": "64MiB",
        "otlp.ratio": "0.25",
        "static.cache_control": "*.css: max-age=60",
    }
    assert {key: accepted[key] for key in expected} == expected


def test_on_and_off_may_be_written_plainly(check: Check, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(
        "config: {proxy_protocol: on, request_ids: off, park_after: off}\n"
    )
    accepted = check(values=tmp_path / "values.yaml")
    assert [accepted[key] for key in ("proxy_protocol", "request_ids", "park_after")] == [
        "on",
        "off",
        "off",
    ]


def test_a_setting_that_is_null_has_its_default(check: Check, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(
        "config:\n  limits:\n    queue:\n    body_bytes: null\n  otlp: {ratio: ~}\n"
    )
    accepted, usual = check(values=tmp_path / "values.yaml"), check()
    for key in ("limits.queue", "limits.body_bytes", "otlp.ratio"):
        assert accepted[key] == usual[key]


READERS = {"toml": tomllib.loads, "yaml": yaml.safe_load, "json": json.loads}
ODD = {
    "zero": 0,
    "negative": -5,
    "million": 1_000_000,
    "largest": 2**53 - 1,
    "part": 0.25,
    "yes": True,
    "words": ["no", "off", "null", "1.10", "0755", "2026-01-02", "12:30:45", "~", ""],
    "text": " Grüße 😀 <&> 'single' \"double\" \\ \t\n\r\u2028 # no comment: ",
    "dotted.key": {"Ünï": 1, "": 2, "a b": {}},
    "lists": [[], [1, 2], [[3]], {"a": {"b": [{"c": "d"}]}}],
    "empty": {},
}


@pytest.mark.fast
@pytest.mark.parametrize("form", READERS)
def test_configuration_is_the_same_in_every_format(form: str, tmp_path: Path) -> None:
    nulls = {"gone": None, "map": {"gone": None}, "lists": [{"gone": None}]}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({"config": {"odd": ODD, "null": nulls}}))
    settings = ("runtime=other", f"configFile.format={form}")
    objects = render("service", *settings, values=tmp_path / "values.yaml")
    (text,) = objects["ConfigMap"]["data"].values()
    found = READERS[form](text)
    assert (found["odd"], found["null"]) == (ODD, {"map": {}, "lists": [{}]})


@pytest.mark.fast
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (2**53, "config.app.key is 9.007199254740992e+15: Helm rounds"),
        (-(2**63), "config.app.key is -9.223372036854776e+18: Helm rounds"),
        ([1, None], "config.app.key[1] is null"),
        ([{"text": "\x7f"}], 'config.app.key[0].text is "\\x7f"'),
    ],
)
def test_what_no_format_can_have_is_refused(value: object, words: str, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(json.dumps({"config": {"app": {"key": value}}}))
    refused = template("service", values=tmp_path / "values.yaml")
    assert refused.returncode != 0
    assert words in refused.stderr


def test_gateway_knows_the_servers_defaults(check: Check) -> None:
    server = check()
    gateway = default_values("gateway")
    assert gateway["upstream"]["serverIdleTimeout"] == server["timeouts.idle"]
    assert str(gateway["listener"]["headers"]["count"]) == server["limits.headers"]
    assert f"{gateway['listener']['headers']['kib']}KiB" == server["limits.header_bytes"]
    listening = (server["listen"].split(":")[1], server["admin.listen"].split(":")[1])
    dns = gateway["upstream"]["dns"]
    assert (str(dns["port"]), str(dns["adminPort"])) == listening


@pytest.mark.parametrize("database", ["postgres", "sqlite"])
def test_the_examples_are_accepted(check: Check, database: str, tmp_path: Path) -> None:
    (tmp_path / "tokens").touch()
    example = CHARTS / "service" / f"values-reference-{database}.yaml"
    # The Secret exists only in a pod.
    accepted = check(f"config.auth.tokens={tmp_path}/tokens", values=example)
    assert accepted["database.kind"] == database


@pytest.mark.fast
@pytest.mark.parametrize("quotes", ["", '"'])
def test_a_tag_of_digits_needs_no_quotes(quotes: str, tmp_path: Path) -> None:
    # If Helm parsed the tag as a float, it would be wrong.
    (tmp_path / "values.yaml").write_text(f"image: {{tag: {quotes}20260504{quotes}}}\n")
    pod = container(render("service", values=tmp_path / "values.yaml"))
    assert pod["image"].endswith(":20260504")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("gateway", "server"),
    [("corelane", "corelane"), ("shop-gateway", "shop-server"), ("gateway", "server")],
)
def test_gateway_looks_for_the_service_of_the_reference(gateway: str, server: str) -> None:
    service = render("service", "nameOverride=corelane-server", release=server)["Service"]
    cluster = envoy_config("upstream.discovery=dns", release=gateway)["static_resources"][
        "clusters"
    ][0]
    (group,) = cluster["load_assignment"]["endpoints"]
    (endpoint,) = group["lb_endpoints"]
    address = endpoint["endpoint"]["address"]["socket_address"]["address"]
    assert address == f"{service['metadata']['name']}.prod.svc.cluster.local."


SHIPPED = REPOSITORY / "charts" / "service" / "values-autoscaling.yaml"
WRITTEN_BY = "# Written by: "
FEW = "--requests=20000"
"""Fewer simulated requests, because unoptimised builds are slow."""


@pytest.fixture
def corelane(command: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([command, *arguments], capture_output=True, text=True, check=False)

    return run


def autoscaler(file: Path) -> dict:
    return render("service", values=file)["HorizontalPodAutoscaler"]


def test_the_shipped_values_are_what_the_command_writes(corelane: Callable) -> None:
    (line,) = (line for line in SHIPPED.read_text().splitlines() if line.startswith(WRITTEN_BY))
    program, *arguments = shlex.split(line.removeprefix(WRITTEN_BY))
    assert program == "corelane"
    written = corelane(*arguments)
    assert written.returncode == 0, written.stderr
    assert yaml.safe_load(written.stdout) == yaml.safe_load(SHIPPED.read_text())


ADAPTER = REPOSITORY / "charts" / "service" / "prometheus-adapter.yaml"
MEASURED = {
    # Two lanes, one of them twice as busy. One scrape of the second replica failed.
    "corelane_lane_busy_seconds_total": {
        "pod='shop-0',lane='0'": "0+7.5x8",
        "pod='shop-0',lane='1'": "0+3.75x8",
        "pod='shop-1',lane='0'": "0+3x6 _ 24",
    },
    "corelane_lane_expected_seconds": {
        "pod='shop-0',lane='0'": "0.25x8",
        "pod='shop-0',lane='1'": "0.5x8",
    },
    "service:corelane_replicas_required:count": {"service='shop'": "3x8"},
}
READ = {
    "corelane_lane_busy_ratio": {"shop-0": 0.375, "shop-1": 0.2},
    "corelane_expected_wait_seconds": {"shop-0": 0.375},
    "corelane_replicas_required": {"shop": 3},
}
"""Adapter values after two minutes, per replica or service."""


def test_the_adapter_reads_the_mean_of_the_lanes(tmp_path: Path) -> None:
    rules = yaml.safe_load(ADAPTER.read_text())["rules"]
    matchers = {"<<.LabelMatchers>>": 'namespace="own"', "<<.GroupBy>>": "pod"}
    records, asked = [], []
    for rule in (*rules["custom"], *rules["external"]):
        name, query = rule["name"]["as"], rule["metricsQuery"]
        for placeholder, text in matchers.items():
            query = query.replace(placeholder, text)
        records.append({"record": name, "expr": query})
        label = "service" if rule in rules["external"] else "pod"
        wanted = [
            {"labels": f"{name}{{{label}='{of}'}}", "value": value}
            for of, value in READ[name].items()
        ]
        asked.append({"expr": name, "eval_time": "2m", "exp_samples": wanted})
    series = [
        {"series": f"{name}{{namespace='{space}',{labels}}}", "values": values}
        for name, found in MEASURED.items()
        for labels, own in found.items()
        for space, values in (("own", own), ("other", "0+15x8"))
    ]
    groups = {"groups": [{"name": "adapter", "interval": "15s", "rules": records}]}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(groups))
    tests = [{"interval": "15s", "input_series": series, "promql_expr_test": asked}]
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": tests}))
    promtool = resolve.tool("promtool")
    told = subprocess.run(
        [promtool, "test", "rules", file], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("target", "most"), [("40ms", {"busy": 650, "max": 10}), ("100ms", {"busy": 750, "max": 9})]
)
def test_an_api_server_takes_what_is_written(
    api: Api, corelane: Callable, tmp_path: Path, target: str, most: dict[str, int]
) -> None:
    mix = "GET /hello=90%, GET /work=10%:7ms"
    # Fewer simulated requests would increase the error to 5%.
    written = corelane("capacity", "--mix", mix, "--rps=7000", "--p99", target, "--hpa=busy")
    assert written.returncode == 0, written.stderr
    values = tmp_path / "values.yaml"
    values.write_text(written.stdout)
    hpa = autoscaler(values)
    hpa["metadata"].pop("namespace", None)
    with api.namespace("restricted") as namespace:
        arguments = ["apply", "--dry-run=server", "--validate=strict", "--namespace", namespace]
        result = api.kubectl(*arguments, "--filename", "-", text=yaml.safe_dump(hpa))
        assert (result.returncode, result.stderr) == (0, "")
    (metric,) = hpa["spec"]["metrics"]
    assert metric["pods"]["metric"] == {"name": "corelane_lane_busy_ratio"}
    busy = int(metric["pods"]["target"]["averageValue"].removesuffix("m"))
    # A higher limit allows busier lanes and thus fewer replicas.
    assert most["busy"] - 100 < busy <= most["busy"]
    assert 2 == hpa["spec"]["minReplicas"] < hpa["spec"]["maxReplicas"] <= most["max"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--mix", "GET /work=100%:10ms", "--p99", "1ms"), "no number of replicas"),
        (("--mix", "GET /work=100%:1ms+50ms", "--slots", "4", "--p99", "100ms"), "slots"),
    ],
)
def test_what_no_autoscaler_can_mend_is_said_instead(
    corelane: Callable, arguments: tuple[str, ...], words: str
) -> None:
    refused = corelane("capacity", FEW, *arguments, "--rps", "100", "--hpa=busy")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert words in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
