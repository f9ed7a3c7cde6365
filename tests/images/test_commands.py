"""`python3 hack/images` as a user calls it, and Debian's packages at their lock."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from images import packages, platforms
from images.layer import File
from support import REPOSITORY, archives
from tools.errors import ToolError

needs_apt = pytest.mark.skipif(not shutil.which("apt-get"), reason="takes Debian's apt")


def command(*arguments: object) -> tuple[int, str, str]:
    """Runs `hack/images`; gives its exit status, output and errors."""
    argv = [sys.executable, "hack/images", *map(str, arguments)]
    result = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout, result.stderr


def test_an_unknown_image_is_refused_by_name() -> None:
    status, _, errors = command("build", "serverr")
    assert (status, errors) == (
        1,
        "hack/images: no image is called 'serverr'; there are: server, gateway, node-tuner, prometheus, alertmanager, k6\n",
    )


def test_an_unknown_architecture_is_refused_by_name() -> None:
    status, _, errors = command("build", "server", "--arch", "amd64,riscv64")
    assert status == 1
    assert errors == "hack/images: images are built for amd64, arm64, not for 'riscv64'\n"


def test_check_lists_what_an_archive_holds(tmp_path: Path) -> None:
    built = archives.write(tmp_path / "a.tar", [File("/etc/passwd", b"root")])
    status, output, errors = command("check", built.file)
    assert (status, errors) == (0, "")
    assert f"{built.file}: {built.digest}, every digest is right\n" in output
    assert "0444          4 /etc/passwd\n" in output


def test_check_names_the_blob_that_was_changed(tmp_path: Path) -> None:
    built = archives.write(tmp_path / "a.tar", [File("/etc/passwd", b"root")])
    built.file.write_bytes(built.file.read_bytes().replace(b"65532:65532", b"00000:00000"))
    status, _, errors = command("check", built.file)
    assert status == 1
    assert f"blobs/{built.config.replace(':', '/')}" in errors
    assert "it was changed" in errors


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Empty at first; the lists of Debian's packages are loaded into it once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def lock(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock file of the test's own, and a cache of the module's own."""
    file = tmp_path / "debian.json"
    file.write_text(packages.LOCK.read_text())
    monkeypatch.setattr(packages, "LOCK", file)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return file


def change(lock: Path, **fields: str) -> None:
    content = json.loads(lock.read_text())
    content["libc6"][platforms.native().arch] |= fields
    lock.write_text(json.dumps(content))


@needs_apt
def test_a_version_that_debian_no_longer_has_is_replaced_with_a_warning(
    lock: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(lock, version="2.36-9+gone", sha256="0" * 64)
    found = packages.obtain("libc6", platforms.native())
    assert found.version != "2.36-9+gone"
    assert f"WARNING: 2.36-9+gone for {platforms.native().arch} is no longer" in (
        capsys.readouterr().err
    )


@needs_apt
def test_lock_takes_what_debian_offers_and_nothing_else_passes(lock: Path) -> None:
    change(lock, version="0", sha256="0" * 64)
    packages.lock()
    locked = json.loads(lock.read_text())["libc6"]
    assert locked.keys() == platforms.PLATFORMS.keys()
    assert packages.obtain("libc6", platforms.native()).version != "0"
    change(lock, sha256="f" * 64)
    with pytest.raises(ToolError, match="one of the two was changed"):
        packages.obtain("libc6", platforms.native())
