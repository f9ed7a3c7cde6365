"""`render` prints what `up` would give Envoy, for any values file."""

import subprocess
import sys
from pathlib import Path

import yaml

from support import REPOSITORY
from support.rendering import tool


def render(values: str, *flags: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "hack/local", "render", values, *flags]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_envoy_accepts_what_is_printed(tmp_path: Path) -> None:
    result = render("gateway/values/local.yaml")
    assert result.returncode == 0, result.stderr
    listeners = yaml.safe_load(result.stdout)["static_resources"]["listeners"]
    assert {listener["name"] for listener in listeners} == {"ingress", "stats"}
    file = tmp_path / "envoy.yaml"
    file.write_text(result.stdout)
    argv = [tool("envoy"), "--mode", "validate", "-c", file]
    check = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stdout + check.stderr


def test_the_file_that_names_the_certificate_is_printed() -> None:
    result = render("gateway/values/tls-local.yaml", "--certificate")
    assert result.returncode == 0, result.stderr
    (secret,) = yaml.safe_load(result.stdout)["resources"]
    assert secret["tls_certificate"]["private_key"] == {"filename": "/etc/envoy-tls/tls.key"}


def test_without_tls_there_is_no_such_file() -> None:
    result = render("gateway/values/local.yaml", "--certificate")
    assert (result.returncode, result.stdout) == (1, "")
    assert "there is no certificate.yaml without TLS: set tls.enabled" in result.stderr


def test_a_missing_file_is_named() -> None:
    result = render("no-such-values.yaml")
    assert result.returncode == 1
    assert "no-such-values.yaml" in result.stderr
