"""kubectl and Helm on the cluster and in the namespace that the environment means."""

import json
import os
import subprocess
from pathlib import Path

from deploy import run, settings
from tools import resolve
from tools.errors import ToolError


class Kubectl:
    """Asks the API server; which cluster it is, is found out once."""

    def __init__(self) -> None:
        self.namespace = settings.namespace()
        self.environment = {**os.environ, "KUBECONFIG": str(run.kubeconfig())}
        self._programs = resolve.ensure(["kubectl", "helm"])

    def argv(self, *arguments: str) -> list[str | Path]:
        """What is to be run with `environment`."""
        return [self._programs["kubectl"], "--namespace", self.namespace, *arguments]

    def items(self, *what: str) -> list[dict]:
        """The objects of a list."""
        return json.loads(self._run(self.argv("get", *what, "--output", "json")))["items"]

    def helm(self, *arguments: str | Path) -> str:
        """Runs Helm; gives its output."""
        return self._run([self._programs["helm"], "--namespace", self.namespace, *arguments])

    def _run(self, argv: list[str | Path]) -> str:
        result = subprocess.run(
            argv, env=self.environment, capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            # Helm reports the links through which it reads a chart.
            said = [line for line in result.stderr.splitlines() if not line.startswith("level=")]
            raise ToolError(f"{Path(argv[0]).name} {argv[3]} failed: {' '.join(said).strip()}")
        return result.stdout
