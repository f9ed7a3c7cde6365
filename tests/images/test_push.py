"""Multi-platform images pushed to a registry; programs must run with the image's content only."""

import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from images import archive, envoy, layer, platforms, push, rust
from images.archive import Image
from images.layer import File
from release import dry_run
from stack import REPOSITORY
from support import archives
from tools.resolve import tool

pytestmark = pytest.mark.nightly

ARTIFACTS = yaml.safe_load((REPOSITORY / "skaffold.yaml").read_text())["build"]["artifacts"]


def crane(*arguments: str) -> str:
    argv = [tool("crane"), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_skaffold_finds_the_image_under_the_name_it_gave(tmp_path: Path) -> None:
    command = next(each for each in ARTIFACTS if each["image"] == "corelane-k6")["custom"]
    with dry_run.throw_away(tmp_path) as address:
        reference = f"{address}/team/corelane-k6:abc"
        # Skaffold's environment.
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


# On each change, cluster tests run the same programs in containers.


@pytest.fixture(scope="module")
def corelane() -> Path:
    """Used by `helm test` pods; the build fails if the binary contains local paths."""
    return rust.build("corelane", platforms.native(), "local")


@pytest.mark.skipif(not shutil.which("apt-get"), reason="glibc of the image is Debian's")
def test_envoy_needs_nothing_but_its_layer(tmp_path: Path) -> None:
    content, labels = envoy.content(platforms.native(), tmp_path)
    built = archives.write(tmp_path / "envoy.tar", content)
    archives.unpack(built.file, tmp_path / "root")
    result = archives.run(tmp_path / "root", "/envoy", "--version")
    assert result.returncode == 0, result.stderr
    assert f"/{labels['corelane.envoy.version']}/" in result.stdout
    assert not {Path(each.path).name for each in content} & {"sh", "bash", "dash", "busybox"}


def test_programs_of_the_workspace_need_no_library(corelane: Path, tmp_path: Path) -> None:
    built = archives.write(tmp_path / "a.tar", [layer.program("/corelane", corelane)])
    archives.unpack(built.file, tmp_path / "root")
    result = archives.run(tmp_path / "root", "/corelane", "--version")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("corelane ")


@pytest.fixture
def site() -> Iterator[int]:
    """Answers every connection with 200."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_answer, args=(listener,), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _answer(listener: socket.socket) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")


def test_a_static_program_finds_names_in_the_hosts_file(
    corelane: Path, site: int, tmp_path: Path
) -> None:
    entries = [
        layer.program("/corelane", corelane),
        File("/etc/hosts", b"127.0.0.1 gateway.test\n"),
    ]
    built = archives.write(tmp_path / "a.tar", entries)
    archives.unpack(built.file, tmp_path / "root")
    url = f"http://gateway.test:{site}/"
    result = archives.run(tmp_path / "root", "/corelane", "check", url, "--deadline", "20s")
    assert result.returncode == 0, result.stderr
