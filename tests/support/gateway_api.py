"""Files of the Go modules of Gateway API, at the version of the conformance tests."""

import subprocess
from pathlib import Path

from tools import gomodule, table


def module(name: str = "sigs.k8s.io/gateway-api") -> Path:
    """Returns the folder of a module, which it downloads if necessary."""
    folder = gomodule.source(table.find("gateway-conformance"))
    for argv in (["go", "mod", "download", name], ["go", "list", "-m", "-f", "{{.Dir}}", name]):
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def definitions() -> Path:
    """Returns the definitions of the standard channel."""
    return module() / "config/crd/standard"
