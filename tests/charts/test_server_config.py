"""The server's configuration file, judged by the real server."""

import os
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from support.rendering import default_values, envoy_config, render

Check = Callable[..., dict[str, str]]

EVERY_KEY = [
    "pin=off",
    "cpus=2",
    "config.placement=hashed",
    "config.steering=on",
    "config.load_reports=text",
    "config.backlog=1024",
    "config.limits.connections=1000",
    "config.limits.connection_requests=1000",
    "config.limits.slots=8",
    "config.limits.queue=64",
    "config.limits.blocking_threads=4",
    "config.limits.blocking_queue=16",
    "config.limits.headers=50",
    "config.limits.header_bytes=16KiB",
    "config.limits.uri_bytes=4KiB",
    "config.limits.body_bytes=1MiB",
    "config.timeouts.header=5s",
    "config.timeouts.body=20s",
    "config.timeouts.request=10s",
    "config.timeouts.write=20s",
    "config.timeouts.connection_age=off",
    "config.timeouts.idle=2m",
    "config.timeouts.stall=2s",
    "config.drain.settle=250ms",
    "config.drain.deadline=1h",
    "config.drain.report=1s",
    "config.tls.reload=1m",
    "config.work.max_ops=1000000000",
    "config.log.level=debug",
    "config.log.format=text",
]


def server_toml(*settings: str, **options: Path) -> str:
    return render("server", *settings, **options)["ConfigMap"]["data"]["server.toml"]


@pytest.fixture
def check(binary: Path, tmp_path: Path) -> Check:
    """The settings as `corelane-server --check` shows them, given a configuration file or none."""

    def run(configuration: str = "") -> dict[str, str]:
        file = tmp_path / "server.toml"
        file.write_text(configuration)
        argv = [binary, "--check", "--config", file]
        environment = {"PATH": os.environ["PATH"]}
        result = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        shown = (line.split("  #")[0].split(" = ") for line in result.stdout.splitlines())
        return {key: value.strip('"') for key, value in shown}

    return run


def test_defaults_are_accepted_and_reach_the_server(check: Check) -> None:
    accepted = check(server_toml())
    assert accepted["listen"] == "0.0.0.0:8080"
    assert accepted["admin.listen"] == "0.0.0.0:8081"
    assert accepted["lanes"] == "1"
    assert accepted["pin"] == "auto"
    assert accepted["log.format"] == "json"


def test_every_key_reaches_the_server(check: Check) -> None:
    accepted = check(server_toml(*EVERY_KEY))
    for setting in EVERY_KEY:
        key, value = setting.removeprefix("config.").split("=")
        assert accepted["lanes" if key == "cpus" else key] == value


def test_values_are_the_servers_own_defaults(check: Check) -> None:
    """But for logs, and for what follows from the pod."""
    own, charted = check(), check(server_toml())
    differing = {key for key in own if own[key] != charted[key]}
    assert differing == {"listen", "admin.listen", "lanes", "log.format"}


def test_values_have_every_key_of_the_server(check: Check) -> None:
    config = default_values("server")["config"]
    tables = {key: set(value) for key, value in config.items() if isinstance(value, dict)}
    shown = {f"{table}.{key}" for table, keys in tables.items() for key in keys}
    shown |= config.keys() - tables.keys()
    set_by_chart = {"listen", "admin.listen", "replica", "lanes", "pin", "static.root"}
    set_by_chart |= {"tls.certificate", "tls.key"}
    # It would say nothing without a certificate.
    assert set(check()) == shown | set_by_chart | {"tls.reload"}


def test_schema_has_every_key_of_the_server(check: Check) -> None:
    set_by_chart = {"listen", "admin.listen", "replica", "lanes", "pin", "static.root"}
    set_by_chart |= {"tls.certificate", "tls.key"}
    settable = {s.removeprefix("config.").split("=")[0] for s in EVERY_KEY if "config." in s}
    assert set(check()) == settable | set_by_chart


@pytest.mark.parametrize("form", ["off", "text", "json"])
def test_load_reports_may_be_written_plainly(form: str, tmp_path: Path, check: Check) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(f"config: {{load_reports: {form}}}\n")
    assert check(server_toml(values=values))["load_reports"] == form


@pytest.mark.parametrize("steering", ["on", "off"])
def test_steering_may_be_written_plainly(steering: str, tmp_path: Path, check: Check) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(f"config: {{steering: {steering}}}\n")
    assert check(server_toml(values=values))["steering"] == steering


@pytest.mark.parametrize("pin", ["on", "off", "auto"])
def test_values_files_may_be_written_plainly(pin: str, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(f"pin: {pin}\nconfig: {{limits: {{connections: 2000000}}}}\n")
    rendered = tomllib.loads(server_toml(values=values))
    assert rendered["pin"] == pin
    # Helm reads numbers of a values file as floats, and 2e+06 is no whole number in TOML.
    assert str(rendered["limits"]["connections"]) == "2000000"


def test_static_root_is_where_files_are_served_from() -> None:
    rendered = tomllib.loads(server_toml("static.root=/srv/static"))
    assert rendered["static"] == {"root": "/srv/static"}


def test_a_secret_gives_the_server_its_certificate() -> None:
    rendered = tomllib.loads(server_toml("tls.secret=shop", "config.tls.reload=1m"))
    folder = "/etc/corelane-tls"
    files = {"certificate": f"{folder}/tls.crt", "key": f"{folder}/tls.key"}
    assert rendered["tls"] == {**files, "reload": "1m"}
    assert "tls" not in tomllib.loads(server_toml())


def test_gateway_knows_the_servers_defaults(check: Check) -> None:
    server = check(server_toml())
    gateway = default_values("gateway")
    assert gateway["upstream"]["serverIdleTimeout"] == server["timeouts.idle"]
    assert str(gateway["listener"]["headers"]["count"]) == server["limits.headers"]
    assert f"{gateway['listener']['headers']['kib']}KiB" == server["limits.header_bytes"]
    listening = (server["listen"].split(":")[1], server["admin.listen"].split(":")[1])
    dns = gateway["upstream"]["dns"]
    assert (str(dns["port"]), str(dns["adminPort"])) == listening


@pytest.mark.parametrize(
    ("gateway", "server"),
    [("corelane", "corelane"), ("shop-gateway", "shop-server"), ("gateway", "server")],
)
def test_gateway_looks_for_the_headless_service_of_the_server(gateway: str, server: str) -> None:
    service = render("server", release=server)["Service"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is False
    cluster = envoy_config("upstream.discovery=dns", release=gateway)["static_resources"][
        "clusters"
    ][0]
    (group,) = cluster["load_assignment"]["endpoints"]
    (endpoint,) = group["lb_endpoints"]
    address = endpoint["endpoint"]["address"]["socket_address"]["address"]
    assert address == f"{service['metadata']['name']}.prod.svc.cluster.local."
