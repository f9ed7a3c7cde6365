"""Programs of images, run where there is nothing but the content of their image."""

import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from images import envoy, layer, platforms, rust
from images.layer import File
from support import archives

# On each change the tests of the cluster run the same programs, in containers.
pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def corelane() -> Path:
    """The command line, which pods of `helm test` run; the build fails if it names a folder."""
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
    """A port of 127.0.0.1 where every connection is answered 200."""
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
