"""`python3 hack/release version` on a copy of the tree."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from stack import REPOSITORY

pytestmark = pytest.mark.nightly


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of all files that git tracks or would add."""
    listed = subprocess.check_output(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        text=True,
    )
    for name in listed.split("\0"):
        source = REPOSITORY / name
        # Git treats links to folders as files, such as the charts' dependencies.
        if name and (source.is_symlink() or source.is_file()):
            target = tmp_path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    return tmp_path


def version(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, tree / "hack" / "release", "version", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def changed(tree: Path, file: str, old: str, new: str) -> None:
    text = (tree / file).read_text()
    assert old in text
    (tree / file).write_text(text.replace(old, new))


def test_set_writes_it_everywhere_and_cargo_agrees(tree: Path) -> None:
    assert version(tree, "set", "7.8.9-rc.1").returncode == 0
    assert (tree / "VERSION").read_text() == "7.8.9-rc.1\n"
    assert version(tree, "check").returncode == 0
    for chart in tree.glob("charts/*/Chart.yaml"):
        assert "7.8.9-rc.1" in chart.read_text()
    # --locked fails if the lock file is outdated.
    cargo = ["cargo", "tree", "--locked", "--depth", "0"]
    subprocess.run(cargo, cwd=tree / "services", capture_output=True, check=True)


def test_set_keeps_the_outgoing_charts(tree: Path) -> None:
    outgoing = version(tree).stdout.strip()
    released = tree / "tests/charts/released"
    shutil.rmtree(released, ignore_errors=True)
    assert version(tree, "set", "7.8.9").returncode == 0
    with tarfile.open(released / f"corelane-{outgoing}.tgz") as archive:
        gateway = archive.extractfile("corelane/charts/gateway/Chart.yaml").read()
    assert f"version: {outgoing}\n" in gateway.decode()
    (released / "corelane-7.8.9.tgz").write_bytes(b"kept as it is")
    assert version(tree, "set", "7.8.10").returncode == 0
    assert (released / "corelane-7.8.9.tgz").read_bytes() == b"kept as it is"


@pytest.mark.parametrize(
    ("file", "old", "new", "named"),
    [
        ("charts/service/Chart.yaml", "\nversion: ", "\nversion: 9", "version"),
        ("charts/gateway/Chart.yaml", 'appVersion: "', 'appVersion: "9', "appVersion"),
        ("services/Cargo.toml", '\nversion = "', '\nversion = "9', "version"),
    ],
)
def test_check_names_the_file_that_disagrees(
    tree: Path, file: str, old: str, new: str, named: str
) -> None:
    changed(tree, file, old, new)
    result = version(tree, "check")
    assert result.returncode == 1
    wrong = [line for line in result.stderr.splitlines() if line.startswith("  ")]
    assert len(wrong) == 1
    assert wrong[0].startswith(f"  {file}:")
    assert f": {named} is 9{version(tree).stdout.strip()}" in wrong[0]


def test_only_the_tag_of_the_version_is_released(tree: Path) -> None:
    said = version(tree).stdout.strip()
    assert version(tree, "check", "--tag", f"v{said}").returncode == 0
    for tag in (said, "v9.9.9", f"v{said}-rc.1"):
        result = version(tree, "check", "--tag", tag)
        assert result.returncode == 1
        assert f"the tag is {tag}, but VERSION is {said}" in result.stderr
