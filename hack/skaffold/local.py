"""The build of the profile `local`: images go into the nodes, without a registry or Docker."""

import subprocess
import sys

from images import build
from images.stamp import REPOSITORY
from tools.errors import ToolError

NAMES = ("server", "gateway", "k6")

TAG = "local"
"""As skaffold.yaml has it. Skaffold gives all pods a label of the run, so that each run rolls them."""


def main() -> None:
    """Builds the images and loads them into the cluster of hack/cluster."""
    archives = [built.file for built in build.build(NAMES, tag=TAG)]
    argv = [sys.executable, "hack/cluster", "load", *map(str, archives)]
    if subprocess.run(argv, cwd=REPOSITORY, check=False).returncode != 0:
        raise ToolError("the images could not be loaded; hack/cluster says why above")
