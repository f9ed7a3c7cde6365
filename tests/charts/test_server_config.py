"""The server's configuration file, judged by the real server."""

import os
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from support.rendering import container, default_values, envoy_config, pod, render

Check = Callable[..., dict[str, str]]

EVERY_KEY = [
    "pin=off",
    "cpus=2",
    "config.placement=hashed",
    "config.steering=on",
    "config.load_reports=text",
    "config.backlog=1024",
    "config.park_after=off",
    "config.moving=active",
    "config.limits.connections=1000",
    "config.limits.connections_per_address=100",
    "config.limits.connection_requests=1000",
    "config.limits.slots=8",
    "config.limits.queue=64",
    "config.limits.blocking_threads=4",
    "config.limits.blocking_queue=16",
    "config.limits.headers=50",
    "config.limits.header_bytes=16KiB",
    "config.limits.uri_bytes=4KiB",
    "config.limits.body_bytes=1MiB",
    "config.limits.unsent_bytes=64MiB",
    "config.limits.unsent_connection_bytes=1MiB",
    "config.limits.send_rate=off",
    "config.limits.receive_rate=1KiB",
    "config.timeouts.header=5s",
    "config.timeouts.body=20s",
    "config.timeouts.request=10s",
    "config.timeouts.write=20s",
    "config.timeouts.slow=1m",
    "config.timeouts.connection_age=off",
    "config.timeouts.idle=2m",
    "config.timeouts.stall=2s",
    "config.drain.settle=250ms",
    "config.drain.deadline=1h",
    "config.drain.report=1s",
    "config.tls.reload=1m",
    "config.proxy_protocol=on",
    "config.trusted_proxies=10.0.0.0/8",
    "config.forwarded_header=forwarded",
    "config.request_ids=off",
    "config.plain_requests=off",
    "config.faults=on",
    "config.static.cache=1MiB",
    "config.static.cache_file=16KiB",
    "config.static.cache_control=*.css: max-age=60",
    "config.database.connections=8",
    "config.database.queue=64",
    "config.database.wait=250ms",
    "config.database.connect_timeout=2s",
    "config.database.statement_timeout=1s",
    "config.database.migrate=off",
    "config.auth.reload=5s",
    "config.otlp.endpoint=http://127.0.0.1:4318",
    "config.otlp.ratio=0.25",
    "config.otlp.timeout=5s",
    "config.work.max_ops=1000000000",
    "config.log.level=debug",
    "config.log.format=text",
    "config.log.client=on",
]

SET_BY_CHART = {"listen", "admin.listen", "replica", "lanes", "pin", "static.root"}
SET_BY_CHART |= {"tls.certificate", "tls.key", "auth.tokens"}
SET_BY_CHART |= {f"database.{key}" for key in ("kind", "path", "url", "password_file", "ca_file")}

POSTGRES = ("database.kind=postgres", "database.postgres.url=postgres://corelane@db.prod/corelane")


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
        key, value = setting.removeprefix("config.").split("=", 1)
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
    # It would say nothing without a certificate.
    assert set(check()) == shown | SET_BY_CHART | {"tls.reload"}


def test_schema_has_every_key_of_the_server(check: Check) -> None:
    settable = {s.removeprefix("config.").split("=")[0] for s in EVERY_KEY if "config." in s}
    assert set(check()) == settable | SET_BY_CHART


@pytest.mark.parametrize("form", ["off", "text", "json"])
def test_load_reports_may_be_written_plainly(form: str, tmp_path: Path, check: Check) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(f"config: {{load_reports: {form}}}\n")
    assert check(server_toml(values=values))["load_reports"] == form


@pytest.mark.parametrize("moving", ["off", "parked-only", "active"])
def test_moving_may_be_written_plainly(moving: str, tmp_path: Path, check: Check) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(f"config: {{moving: {moving}, park_after: off}}\n")
    accepted = check(server_toml(values=values))
    assert (accepted["moving"], accepted["park_after"]) == (moving, "off")


@pytest.mark.parametrize("steering", ["on", "off"])
def test_steering_may_be_written_plainly(steering: str, tmp_path: Path, check: Check) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(f"config: {{steering: {steering}}}\n")
    assert check(server_toml(values=values))["steering"] == steering


@pytest.mark.fast
@pytest.mark.parametrize("pin", ["on", "off", "auto"])
def test_values_files_may_be_written_plainly(pin: str, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(f"pin: {pin}\nconfig: {{limits: {{connections: 2000000}}}}\n")
    rendered = tomllib.loads(server_toml(values=values))
    assert rendered["pin"] == pin
    # Helm reads numbers of a values file as floats, and 2e+06 is no whole number in TOML.
    assert str(rendered["limits"]["connections"]) == "2000000"


@pytest.mark.fast
def test_static_root_is_where_files_are_served_from() -> None:
    rendered = tomllib.loads(server_toml("static.root=/srv/static"))
    assert rendered["static"]["root"] == "/srv/static"
    assert "root" not in tomllib.loads(server_toml())["static"]


@pytest.mark.fast
def test_a_secret_gives_the_server_its_certificate() -> None:
    rendered = tomllib.loads(server_toml("tls.secret=shop", "config.tls.reload=1m"))
    folder = "/etc/corelane-tls"
    files = {"certificate": f"{folder}/tls.crt", "key": f"{folder}/tls.key"}
    assert rendered["tls"] == {**files, "reload": "1m"}
    assert "tls" not in tomllib.loads(server_toml())


def test_projects_are_nowhere_unless_a_database_is_named(check: Check) -> None:
    accepted = check(server_toml())
    assert (accepted["database.kind"], accepted["database.path"]) == ("sqlite", "")


@pytest.mark.fast
def test_postgres_is_reached_with_what_secrets_hold() -> None:
    secrets = ["database.postgres.password.secret=db", "database.postgres.ca.secret=ca"]
    rendered = tomllib.loads(server_toml(*POSTGRES, *secrets))["database"]
    assert rendered["kind"] == "postgres"
    assert rendered["url"] == "postgres://corelane@db.prod/corelane"
    assert rendered["password_file"] == "/etc/corelane-database/password"
    assert rendered["ca_file"] == "/etc/corelane-database/ca.crt"
    alone = tomllib.loads(server_toml(*POSTGRES))["database"]
    assert not {"password_file", "ca_file"} & alone.keys()


@pytest.mark.fast
def test_sqlite_has_its_file_in_the_volume() -> None:
    objects = render(
        "server", "database.kind=sqlite", "replicas=1", "database.sqlite.volume.emptyDir.medium="
    )
    path = tomllib.loads(objects["ConfigMap"]["data"]["server.toml"])["database"]["path"]
    (mount,) = (each for each in container(objects)["volumeMounts"] if each["name"] == "database")
    assert Path(path).parent == Path(mount["mountPath"])
    assert not mount.get("readOnly")
    assert pod(objects)["securityContext"]["fsGroup"] == 65532


@pytest.mark.fast
def test_secrets_are_mounted_whole_and_read_only() -> None:
    """A file that is mounted by subPath never changes, and both may while the server runs."""
    settings = [*POSTGRES, "database.postgres.password.secret=db", "auth.tokensSecret.name=writers"]
    objects = render("server", *settings)
    configuration = tomllib.loads(objects["ConfigMap"]["data"]["server.toml"])
    mounts = {each["mountPath"]: each for each in container(objects)["volumeMounts"]}
    files = (configuration["database"]["password_file"], configuration["auth"]["tokens"])
    for file in map(Path, files):
        mount = mounts[str(file.parent)]
        assert mount["readOnly"] is True
        assert "subPath" not in mount


def test_gateway_knows_the_servers_defaults(check: Check) -> None:
    server = check(server_toml())
    gateway = default_values("gateway")
    assert gateway["upstream"]["serverIdleTimeout"] == server["timeouts.idle"]
    assert str(gateway["listener"]["headers"]["count"]) == server["limits.headers"]
    assert f"{gateway['listener']['headers']['kib']}KiB" == server["limits.header_bytes"]
    listening = (server["listen"].split(":")[1], server["admin.listen"].split(":")[1])
    dns = gateway["upstream"]["dns"]
    assert (str(dns["port"]), str(dns["adminPort"])) == listening


@pytest.mark.fast
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
