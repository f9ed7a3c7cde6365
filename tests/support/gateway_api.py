"""Files from the Go modules of Gateway API and of other tools, in the tools' versions."""

import subprocess
from pathlib import Path

from tools import gomodule, table


def module(name: str = "sigs.k8s.io/gateway-api", of: str = "gateway-conformance") -> Path:
    """Downloads the module, which the tool `of` is built from, if necessary."""
    folder = gomodule.source(table.find(of))
    for argv in (["go", "mod", "download", name], ["go", "list", "-m", "-f", "{{.Dir}}", name]):
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def definitions() -> Path:
    return module() / "config/crd/standard"
