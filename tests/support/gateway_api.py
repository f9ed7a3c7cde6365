"""Files from the Go modules of Gateway API, in the version of the conformance tests."""

import subprocess
from pathlib import Path

from tools import gomodule, table


def module(name: str = "sigs.k8s.io/gateway-api") -> Path:
    """Downloads the module if necessary."""
    folder = gomodule.source(table.find("gateway-conformance"))
    for argv in (["go", "mod", "download", name], ["go", "list", "-m", "-f", "{{.Dir}}", name]):
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def definitions() -> Path:
    return module() / "config/crd/standard"
