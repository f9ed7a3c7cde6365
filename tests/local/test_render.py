"""What `up` gives Envoy, and what `render` prints for any values file."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from charts import local_gateway
from local import render, topology
from local.settings import Settings
from support import REPOSITORY
from support.rendering import tool


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
def test_a_missing_file_is_named() -> None:
    result = rendered("no-such-values.yaml")
    assert result.returncode == 1
    assert "no-such-values.yaml" in result.stderr


@pytest.mark.fast
@pytest.mark.parametrize("replicas", [1, 3])
def test_the_local_gateway_is_what_the_chart_renders(replicas: int) -> None:
    ports = {"GATEWAY_PORT": 20001, "ENVOY_ADMIN_PORT": 20002, "GATEWAY_STATS_PORT": 20003}
    ports |= {
        "DASHBOARD_PORT": 20005,
        "PROMETHEUS_PORT": 20004,
        "REPLICA_PORT": 20100,
        "REPLICA_ADMIN_PORT": 20200,
    }
    plan = topology.plan(Settings(replicas=replicas, cpus=(0, 1), ports=ports))
    assert render.gateway_configuration(plan, {}) == local_gateway.rendered(plan)
