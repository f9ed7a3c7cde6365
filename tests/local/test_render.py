"""CPU and port assignment, Envoy's configuration, and `render` for any values file."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from charts import local_gateway
from local import commands, render, topology
from local.settings import VARIABLES, Settings
from stack import REPOSITORY, pids
from support.platforms import Platform
from tools.resolve import tool


def rendered(values: str, *flags: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "hack/local", "render", values, *flags]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_envoy_accepts_what_is_printed(tmp_path: Path) -> None:
    result = rendered("gateway/values/local.yaml")
    assert result.returncode == 0, result.stderr
    listeners = yaml.safe_load(result.stdout)["static_resources"]["listeners"]
    assert {listener["name"] for listener in listeners} == {"ingress", "stats"}
    file = tmp_path / "envoy.yaml"
    file.write_text(result.stdout)
    argv = [tool("envoy"), "--mode", "validate", "-c", file]
    check = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stdout + check.stderr


@pytest.mark.fast
def test_the_file_that_names_the_certificate_is_printed() -> None:
    result = rendered("gateway/values/tls-local.yaml", "--certificate")
    assert result.returncode == 0, result.stderr
    (secret,) = yaml.safe_load(result.stdout)["resources"]
    assert secret["tls_certificate"]["private_key"] == {"filename": "/etc/envoy-tls/tls.key"}


@pytest.mark.fast
def test_without_tls_there_is_no_such_file() -> None:
    result = rendered("gateway/values/local.yaml", "--certificate")
    assert (result.returncode, result.stdout) == (1, "")
    assert "no certificate.yaml without TLS: set tls.enabled" in result.stderr


@pytest.mark.fast
@pytest.mark.parametrize("replicas", [1, 3])
def test_the_local_gateway_is_what_the_chart_renders(replicas: int, tmp_path: Path) -> None:
    ports = {"GATEWAY_PORT": 20001, "ENVOY_ADMIN_PORT": 20002, "GATEWAY_STATS_PORT": 20003}
    ports |= {
        "DASHBOARD_PORT": 20005,
        "PROMETHEUS_PORT": 20004,
        "REPLICA_PORT": 20100,
        "REPLICA_ADMIN_PORT": 20200,
    }
    plan = topology.plan(Settings(replicas=replicas, cpus=(0, 1), ports=ports))
    assert render.gateway_configuration(plan, {}, tmp_path) == local_gateway.rendered(plan)


def plan(replicas: int, cpus: tuple[int, ...]) -> topology.Topology:
    return topology.plan(Settings(replicas, cpus, VARIABLES))


def test_the_rules_of_a_checkout_of_any_name_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "a [b] {c} *d? \\e"
    shutil.copytree(REPOSITORY / "dashboards" / "rules", checkout / "dashboards" / "rules")
    monkeypatch.setattr(render, "REPOSITORY", checkout)
    file = tmp_path / "prometheus.yml"
    file.write_text(render.prometheus(plan(1, (0,)), "default"))
    argv = [tool("promtool"), "check", "config", file]
    check = subprocess.run(argv, capture_output=True, text=True, check=True)
    rules = len([*(checkout / "dashboards" / "rules").glob("*.rules.yaml")])
    assert f"{rules} rule files found" in check.stdout


def test_make_passes_a_path_on_as_it_is() -> None:
    path = """no such "a' `b` ;c #d"""
    argv = ["make", "--silent", "up", f"BINARY={path}"]
    result = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert f"{path} is not a program" in result.stderr


@pytest.mark.parametrize(("replicas", "pin"), [(2, "on"), (3, "off")])
def test_lanes_are_pinned_only_on_cpus_of_their_own(replicas: int, pin: str) -> None:
    made = plan(replicas, (0, 1))
    argv = commands.server(made.replicas[0], made.pinned, Path("corelane-server"))
    assert argv[argv.index("--pin") + 1] == pin


def test_port_in_use_names_port_process_and_variable(
    new_platform: Callable[[int], Platform],
) -> None:
    platform = new_platform(2)
    port = int(platform.variables["REPLICA_ADMIN_PORT"]) + 1
    with socket.create_server(("127.0.0.1", port)):
        result = platform.command("up")
    assert result.returncode == 1
    assert f"port {port} for server-1's admin is in use" in result.stderr
    assert f"{pids.name(os.getpid())} (pid {os.getpid()})" in result.stderr
    assert "REPLICA_ADMIN_PORT" in result.stderr
    assert platform.pids() == []


def test_port_in_use_on_all_addresses_is_found(new_platform: Callable[[int], Platform]) -> None:
    platform = new_platform(1)
    with socket.create_server(("0.0.0.0", int(platform.variables["GATEWAY_PORT"]))):
        result = platform.command("up")
    assert result.returncode == 1
    assert f"(pid {os.getpid()})" in result.stderr
    assert "GATEWAY_PORT" in result.stderr


def test_one_port_for_two_parts_is_refused(new_platform: Callable[[int], Platform]) -> None:
    platform = new_platform(1)
    port = platform.variables["GATEWAY_PORT"]
    result = platform.command("up", PROMETHEUS_PORT=port)
    assert result.returncode == 1
    assert f"port {port} is assigned to Prometheus and to the gateway" in result.stderr
