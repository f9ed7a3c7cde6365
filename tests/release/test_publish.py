"""`python3 hack/release publish` checks its arguments first."""

import subprocess
import sys

import pytest

from support import REPOSITORY


@pytest.mark.fast
@pytest.mark.parametrize("registry", ["", "owner/corelane", "registry.example"])
def test_a_registry_is_a_host_and_a_path(registry: str) -> None:
    command = [sys.executable, REPOSITORY / "hack/release", "publish", registry]
    command += ["--identity", "https://forge.example/workflow", "--issuer", "https://forge.example"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert f"REGISTRY={registry!r}: expected HOST/PATH" in result.stderr
