"""CLUSTER=kind and CLUSTER=current, as far as they go without their clusters."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import kind
from stack import REPOSITORY
from tools import resolve

# Only developers use these clusters.
pytestmark = pytest.mark.nightly


def run(command: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "hack/cluster", command, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_kind_accepts_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "kind.yaml"
    file.write_text(kind.configuration({0, 1, 2, 3}))
    assert 'value: "0,1"}' in file.read_text()
    assert 'value: "2,3"}' in file.read_text()
    result = create(file)
    # It reads the file before it looks for Docker.
    assert "decode" not in result.stderr
    assert "docker" in result.stderr
    file.write_text(file.read_text().replace("extraPortMappings", "portMappings"))
    assert "field portMappings not found" in create(file).stderr


def create(file: Path) -> subprocess.CompletedProcess[str]:
    program = resolve.tool("kind")
    return subprocess.run(
        [program, "create", "cluster", "--config", file, "--kubeconfig", f"{file}.out"],
        env={"PATH": str(file.parent), "HOME": str(file.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("command", ["up", "down"])
def test_without_docker_the_error_says_so(command: str, tmp_path: Path) -> None:
    # A Docker client, where there is one, looks for its engine there.
    result = run(command, CLUSTER="kind", DOCKER_HOST=f"unix://{tmp_path}/docker.sock")
    assert result.returncode == 1
    assert "CLUSTER=kind needs a Docker engine" in result.stderr


def test_the_current_cluster_pulls_images_from_a_registry() -> None:
    result = run("load", "server.tar", CLUSTER="current")
    assert result.returncode == 1
    assert "push them to a registry" in result.stderr
    assert "image.registry" in result.stderr


@pytest.mark.parametrize("command", ["up", "down"])
def test_the_current_cluster_is_not_started_or_ended(command: str) -> None:
    result = run(command, CLUSTER="current")
    assert result.returncode == 1
    assert "not ours" in result.stderr


def test_kubeconfig_of_the_current_cluster(tmp_path: Path) -> None:
    file = tmp_path / "config"
    missing = run("kubeconfig", CLUSTER="current", KUBECONFIG=str(file))
    assert missing.returncode == 1
    assert f"there is none at {file}" in missing.stderr
    file.write_text("{}")
    found = run("kubeconfig", CLUSTER="current", KUBECONFIG=str(file))
    assert found.stdout == f"{file}\n"


def test_another_kind_of_cluster_is_rejected() -> None:
    result = run("status", CLUSTER="k3d")
    assert result.returncode == 1
    assert "local, vm, kind, current" in result.stderr
