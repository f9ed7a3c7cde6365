"""The real Envoy's judgement of what the gateway chart renders."""

import subprocess
from pathlib import Path
from typing import Any

from support.certificates import certificate
from support.rendering import render, tool

# Without one of them Envoy's memory monitor refuses even to be validated (the root of cgroup v2 has none).
CGROUP_FILES = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def accepted(folder: Path, *settings: str, **options: Any) -> None:
    """Fails unless Envoy takes the configuration of these values without a warning.

    It warns of deprecated and unknown fields and of risky defaults. The files of the pod are in `folder`.
    """
    certificate(folder, "tls", "ec")
    # The file that the agent writes, of a Service without replicas.
    (folder / "endpoints.json").write_text('{"resources": []}')
    if not any(map(Path.exists, CGROUP_FILES)):
        settings = (*settings, "overload.monitor=heap")
    for name, text in render("gateway", *settings, **options)["ConfigMap"]["data"].items():
        for path in ("/etc/envoy-tls", "/etc/envoy", "/run/corelane"):
            text = text.replace(path, str(folder))
        (folder / name).write_text(text)
    argv = [tool("envoy"), "--mode", "validate", "--log-level", "warn", "-c", folder / "envoy.yaml"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert "OK" in result.stdout
