"""The command line of hack/images, locked Debian packages, and image metadata."""

import json
import os
import shutil
import ssl
import subprocess
import sys
import zoneinfo
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from images import archive, packages, platforms, stamp
from stack import REPOSITORY
from tools.errors import ToolError

needs_apt = pytest.mark.skipif(not shutil.which("apt-get"), reason="takes Debian's apt")


def command(*arguments: object) -> tuple[int, str, str]:
    argv = [sys.executable, "hack/images", *map(str, arguments)]
    result = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout, result.stderr


# Only developers build and push these images.


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that is empty at first, so package lists are downloaded once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def lock(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Gives the test its own lock file, and the cache that the module shares."""
    file = tmp_path / "debian.json"
    file.write_text(packages.LOCK.read_text())
    monkeypatch.setattr(packages, "LOCK", file)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return file


def change(lock: Path, **fields: str) -> None:
    content = json.loads(lock.read_text())
    content["libc6"][platforms.native().arch] |= fields
    lock.write_text(json.dumps(content))


@pytest.mark.nightly
@needs_apt
def test_lock_takes_what_debian_offers_and_nothing_else_passes(lock: Path) -> None:
    change(lock, version="0", sha256="0" * 64)
    packages.lock()
    locked = json.loads(lock.read_text())["libc6"]
    assert locked.keys() == platforms.PLATFORMS.keys()
    assert packages.obtain("libc6", platforms.native()).version != "0"
    change(lock, sha256="f" * 64)
    with pytest.raises(ToolError, match="expects f{64}"):
        packages.obtain("libc6", platforms.native())


def test_an_image_of_files_is_the_same_again(tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text("hello")
    (tmp_path / "web").write_text("#!/bin/sh\n")
    (tmp_path / "web").chmod(0o755)
    files = (f"{tmp_path}/web=/bin/web", f"{tmp_path}/page=/srv/page")
    builds = []
    for name in ("one", "two"):
        out = ("--out", tmp_path / name, "--tag", "1.0")
        status, _, errors = command("files", "web", *files, "--entrypoint", "/bin/web -v", *out)
        assert status == 0, errors
        builds.append(next((tmp_path / name).glob("web-*.tar")))
    assert builds[0].read_bytes() == builds[1].read_bytes()
    image = archive.read(builds[0]).image
    assert (image.name, image.tag, image.entrypoint) == ("web", "1.0", ("/bin/web", "-v"))
    modes = {each.name: each.mode for layer in archive.layers(builds[0]) for each in layer}
    assert (modes["bin/web"], modes["srv/page/index.html"]) == (0o555, 0o444)
    assert modes["tmp"] == 0o1777
    status, _, errors = command("files", "web", "page", "--entrypoint", "/bin/web")
    assert status == 1
    assert "'page' should be FILE=PATH" in errors


def test_images_of_services_have_what_a_machine_has(tmp_path: Path) -> None:
    (tmp_path / "web").write_text("")
    out = ("--out", tmp_path, "--tag", "1.0", "--entrypoint", "/web")
    status, _, errors = command("files", "web", f"{tmp_path}/web=/web", *out)
    assert status == 0, errors
    root = tmp_path / "root"
    for layer in archive.layers(next(tmp_path.glob("web-*.tar"))):
        layer.extractall(root, filter="fully_trusted")
    trusted = ssl.create_default_context(cafile=root / "etc/ssl/certs/ca-certificates.crt")
    assert trusted.cert_store_stats()["x509_ca"] > 100
    assert (root / "etc/ssl/cert.pem").read_bytes().count(b"BEGIN CERTIFICATE") > 100
    with (root / "usr/share/zoneinfo/Europe/Berlin").open("rb") as file:
        winter = datetime(2026, 1, 1, tzinfo=zoneinfo.ZoneInfo.from_file(file))
    assert winter.utcoffset() == timedelta(hours=1)
    assert "hosts: files dns" in (root / "etc/nsswitch.conf").read_text()


ROLES = ("AUTHOR", "COMMITTER")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    (tmp_path / "VERSION").write_text("1.2.3\n")
    person = {"NAME": "A", "EMAIL": "a@example.org", "DATE": "1700000000 +0200"}
    # Ignores user settings such as signed commits.
    git = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    git |= {f"GIT_{who}_{key}": value for who in ROLES for key, value in person.items()}
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, env={**os.environ, **git}, check=True)
    return tmp_path


@pytest.mark.fast
def test_version_revision_and_time_are_those_of_the_commit(clone: Path) -> None:
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=clone, capture_output=True, text=True, check=True
    )
    assert stamp.read(clone) == stamp.Stamp("1.2.3", head.stdout.strip(), 1_700_000_000)


@pytest.mark.fast
@pytest.mark.parametrize("name", ["VERSION", "new"])
def test_a_change_that_is_not_committed_shows_in_the_revision(clone: Path, name: str) -> None:
    (clone / name).write_text("2.0.0\n")
    assert stamp.read(clone).revision.endswith("-dirty")
