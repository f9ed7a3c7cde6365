"""Stops a Helm command that waits for a pod whose image cannot be pulled.

Helm itself waits for minutes and does not name the image.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from deploy import run
from tools import resolve
from tools.errors import ToolError

REASONS = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName")

PATIENCE = 20.0
"""How long pulls may fail, in seconds, before the command aborts. The next attempt may still
succeed.
"""

PAUSE = 2.0


def helm(*arguments: str | Path) -> str:
    argv = [resolve.tool("helm"), *arguments]
    return watched(argv, {"KUBECONFIG": str(run.kubeconfig())}, _pods, PATIENCE)


def _pods() -> list[dict]:
    where = ("--namespace", run.namespace(), "--output", "json")
    return json.loads(run.tool("kubectl", "get", "pods", *where))["items"]


def watched(
    argv: Sequence[str | Path],
    environment: dict[str, str],
    pods: Callable[[], list[dict]],
    patience: float,
    pause: float = PAUSE,
) -> str:
    """Stops the command if the image of a pod that it creates could not be pulled for this many
    seconds.
    """
    before = {pod["metadata"]["uid"] for pod in pods()}
    since: dict[str, float] = {}
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        command = subprocess.Popen(
            argv, env={**os.environ, **environment}, stdout=output, stderr=errors
        )
        try:
            while command.poll() is None:
                fresh = [pod for pod in pods() if pod["metadata"]["uid"] not in before]
                now = time.monotonic()
                since = {problem: since.get(problem, now) for problem in problems(fresh)}
                stuck = [problem for problem, first in since.items() if now - first >= patience]
                if stuck:
                    raise ToolError("\n".join(stuck))
                time.sleep(pause)
        finally:
            command.terminate()
            command.wait()
        output.seek(0)
        errors.seek(0)
        if command.returncode != 0:
            raise ToolError(f"{Path(argv[0]).name} {argv[1]} failed: {errors.read().strip()}")
        return output.read()


def problems(pods: Sequence[dict]) -> list[str]:
    """Images that cannot be pulled, with their pods."""
    found = []
    for pod in pods:
        status = pod.get("status", {})
        kinds = ("initContainerStatuses", "containerStatuses")
        for container in (each for kind in kinds for each in status.get(kind, [])):
            reason = container.get("state", {}).get("waiting", {}).get("reason")
            if reason in REASONS:
                name = pod["metadata"]["name"]
                found.append(
                    f"the image {container['image']} of pod {name} cannot be pulled ({reason}): load it into the nodes "
                    "with python3 hack/cluster load, or correct its registry and tag"
                )
    return found
