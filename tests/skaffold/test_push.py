"""The custom builder, as Skaffold calls it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from images import archive
from images.archive import Image
from images.layer import File
from release import registry
from skaffold import push
from support import REPOSITORY
from support.rendering import tool
from tools.errors import ToolError


def build(**variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the build command of skaffold.yaml."""
    return subprocess.run(
        [sys.executable, "hack/skaffold", "push"],
        cwd=REPOSITORY,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_image_is_in_the_registry_under_the_name_that_skaffold_wants(tmp_path: Path) -> None:
    with registry.throw_away(tmp_path) as address:
        reference = f"{address}/team/corelane-k6:abc"
        result = build(IMAGE=reference, PUSH_IMAGE="true", PLATFORMS="")
        assert result.returncode == 0, result.stderr
        argv = [tool("crane"), "config", reference]
        found = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert '"/k6"' in found


def test_images_for_several_architectures_have_one_name(tmp_path: Path) -> None:
    built = []
    for arch in ("amd64", "arm64"):
        image = Image("corelane-probe", "x", arch, created=0, entrypoint=("/probe",))
        content = [[File("/probe", arch.encode())]]
        built.append(archive.write(image, content, tmp_path / f"{arch}.tar"))
    with registry.throw_away(tmp_path) as address:
        reference = f"{address}/corelane-probe:x"
        push.publish(built, reference)
        argv = [tool("crane"), "manifest", reference]
        found = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    manifests = {
        entry["platform"]["architecture"]: entry["digest"]
        for entry in json.loads(found)["manifests"]
    }
    assert manifests == {each.image.arch: each.digest for each in built}


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"IMAGE": "corelane-k6:abc", "PUSH_IMAGE": "false"}, "skaffold run --profile local"),
        ({"IMAGE": "corelane-k7:abc", "PUSH_IMAGE": "true"}, "give one of corelane-server"),
        ({"IMAGE": "corelane-k6", "PUSH_IMAGE": "true"}, "with a tag"),
    ],
)
def test_what_cannot_be_built_is_refused(variables: dict[str, str], words: str) -> None:
    result = build(**variables)
    assert result.returncode == 1
    assert words in result.stderr


@pytest.mark.parametrize(
    ("reference", "name", "tag"),
    [
        ("corelane-server:1", "server", "1"),
        ("127.0.0.1:5000/corelane-gateway:v2", "gateway", "v2"),
        ("registry.example/a/b/corelane-k6:x-y", "k6", "x-y"),
    ],
)
def test_the_image_is_found_in_its_reference(reference: str, name: str, tag: str) -> None:
    assert push.parse(reference) == (name, tag)


@pytest.mark.parametrize(
    ("platforms", "wanted"),
    [("", []), ("linux/amd64", ["amd64"]), ("linux/amd64,linux/arm64", ["amd64", "arm64"])],
)
def test_platforms_are_architectures_of_linux(platforms: str, wanted: list[str]) -> None:
    assert push.architectures({"PLATFORMS": platforms}) == wanted


def test_other_systems_have_no_images() -> None:
    with pytest.raises(ToolError, match="windows/amd64: there are images for linux only"):
        push.architectures({"PLATFORMS": "windows/amd64"})
