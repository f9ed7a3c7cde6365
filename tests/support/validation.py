"""Validates the gateway's configuration with the real Envoy."""

import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from stack.credentials import certificate, issuer
from stack.rendering import envoy_files
from tools.resolve import tool

# Envoy's memory monitor needs one of these; the root of cgroup v2 has none.
CGROUP_FILES = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)

_LOGIN = {
    "enabled": "true",
    "secret": "oidc",
    "clientId": "shop",
    "issuer": "https://i.test",
    "authorizationEndpoint": "https://i.test/auth",
    "tokenEndpoint": "https://i.test/token",
    "keysUrl": "https://i.test/keys",
}
OIDC = ",".join(f"authentication.oidc.{key}={value}" for key, value in _LOGIN.items())
"""Settings of a login."""


@cache
def _keys() -> str:
    """Returns a JWKS. Without one, Envoy rejects token checks."""
    with tempfile.TemporaryDirectory() as folder:
        return issuer(Path(folder)).keys()


def accepted(folder: Path, *settings: str, **options: Any) -> None:
    """Envoy must accept the configuration without warnings.

    These cover deprecated and unknown fields and risky defaults. `folder` contains the pod's files.
    """
    shutil.copy(certificate(folder, "tls", "ec")[0], folder / "ca.crt")
    (folder / "jwks.json").write_text(_keys())
    for name in ("token", "client-secret", "hmac-secret"):
        (folder / name).write_text(name)
    if not any(map(Path.exists, CGROUP_FILES)):
        settings = (*settings, "overload.monitor=heap")
    files = envoy_files(*settings, **options)
    # The agent's files for Services without replicas.
    for file in re.findall("/run/corelane/([^ ]+[.]json)", files["envoy.yaml"]):
        (folder / file).write_text('{"resources": []}')
    for name, text in files.items():
        for path in (
            "/etc/envoy-tls",
            "/etc/envoy-mtls",
            "/etc/envoy-clients",
            "/etc/envoy-jwt",
            "/etc/envoy-oidc",
            "/etc/envoy",
            "/run/corelane",
        ):
            text = text.replace(path, str(folder))
        (folder / name).write_text(text)
    argv = [tool("envoy"), "--mode", "validate", "--log-level", "warn", "-c", folder / "envoy.yaml"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    # A validating Envoy cannot fetch keys.
    lines = [each for each in result.stderr.splitlines() if "fetch" not in each]
    assert (result.returncode, lines) == (0, [])
    assert "OK" in result.stdout
