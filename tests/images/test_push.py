"""Images in a registry, pushed with the build command of skaffold.yaml and for several architectures."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from images import archive, push
from images.archive import Image
from images.layer import File
from release import dry_run
from support import REPOSITORY
from support.rendering import tool

pytestmark = pytest.mark.nightly

ARTIFACTS = yaml.safe_load((REPOSITORY / "skaffold.yaml").read_text())["build"]["artifacts"]


def crane(*arguments: str) -> str:
    argv = [tool("crane"), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_skaffold_finds_the_image_under_the_name_it_gave(tmp_path: Path) -> None:
    command = next(each for each in ARTIFACTS if each["image"] == "corelane-k6")["custom"]
    with dry_run.throw_away(tmp_path) as address:
        reference = f"{address}/team/corelane-k6:abc"
        # As Skaffold runs it: in a shell, with these variables.
        variables = {"IMAGE": reference, "PUSH_IMAGE": "true", "PLATFORMS": ""}
        result = subprocess.run(
            ["sh", "-c", command["buildCommand"]],
            cwd=REPOSITORY,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        config = crane("config", reference)
    assert '"/k6"' in config


def test_an_index_gives_each_machine_the_image_for_it(tmp_path: Path) -> None:
    built = []
    for arch in ("amd64", "arm64"):
        image = Image("corelane-probe", "x", arch, created=0, entrypoint=("/probe",))
        content = [[File("/probe", arch.encode())]]
        built.append(archive.write(image, content, tmp_path / f"{arch}.tar"))
    with dry_run.throw_away(tmp_path) as address:
        repository = f"{address}/corelane-probe"
        references = [push.image(each, repository) for each in built]
        digest = push.index(references, f"{repository}:x")
        assert crane("digest", f"{repository}:x").strip() == digest
        manifests = json.loads(crane("manifest", f"{repository}:x"))["manifests"]
    found = {entry["platform"]["architecture"]: entry["digest"] for entry in manifests}
    assert found == {each.image.arch: each.digest for each in built}
