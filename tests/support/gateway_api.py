"""The modules of Gateway API, at the version of the conformance tests."""

import subprocess
from pathlib import Path

from tools import gomodule, table


def module(name: str = "sigs.k8s.io/gateway-api") -> Path:
    """The folder of a module; downloads what is not on this machine yet."""
    folder = gomodule.source(table.find("gateway-conformance"))
    for argv in (["go", "mod", "download", name], ["go", "list", "-m", "-f", "{{.Dir}}", name]):
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def definitions() -> Path:
    """The definitions of the standard channel."""
    return module() / "config/crd/standard"
