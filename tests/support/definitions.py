"""CustomResourceDefinitions of operators, from their Go modules."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from stack.apiserver import Api


@dataclass(frozen=True)
class Operator:
    release: str
    checksum: str
    files: tuple[str, ...]


_CRDS = "example/prometheus-operator-crd/monitoring.coreos.com_"
PROMETHEUS = Operator(
    "github.com/prometheus-operator/prometheus-operator@v0.85.0",
    "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
    (f"{_CRDS}podmonitors.yaml", f"{_CRDS}prometheusrules.yaml"),
)
KEDA = Operator(
    "github.com/kedacore/keda/v2@v2.21.0",
    "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=",
    ("config/crd/bases/keda.sh_scaledobjects.yaml",),
)


def install(api: Api, operator: Operator, folder: Path) -> None:
    """Creates the definitions; the folder is outside any Go module."""
    argv = ["go", "mod", "download", "-json", operator.release]
    found = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr + found.stdout
    module = json.loads(found.stdout)
    assert module["Sum"] == operator.checksum
    files = [f"--filename={module['Dir']}/{file}" for file in operator.files]
    # These files are too large for the annotation that client-side apply adds.
    applied = api.kubectl("apply", "--server-side", *files)
    assert applied.returncode == 0, applied.stderr
    waited = api.kubectl("wait", "--for=condition=Established", *files, "--timeout=60s")
    assert waited.returncode == 0, waited.stderr
