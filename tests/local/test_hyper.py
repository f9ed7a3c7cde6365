"""The library `corelane` in a crate that uses hyper too."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast

SERVICES = Path(__file__).parents[2] / "services"

MANIFEST = f"""\
[package]
name = "own-hyper"
version = "0.0.0"
edition = "2024"

[dependencies]
corelane = {{ path = "{SERVICES}/corelane" }}
hyper = {{ version = "1", features = ["server"] }}

[workspace]
"""


def cargo(directory: Path, *arguments: str) -> str:
    command = ["cargo", *arguments, "--offline"]
    return subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout


def test_the_library_accepts_every_release_of_hyper_1() -> None:
    metadata = json.loads(cargo(SERVICES, "metadata", "--no-deps", "--format-version=1"))
    library = next(one for one in metadata["packages"] if one["name"] == "corelane")
    assert [one["req"] for one in library["dependencies"] if one["name"] == "hyper"] == ["^1"]


def test_a_crate_and_the_library_share_one_hyper(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/lib.rs").touch()
    (tmp_path / "Cargo.toml").write_text(MANIFEST)
    # With the versions that the services have, nothing has to be downloaded.
    shutil.copy(SERVICES / "Cargo.lock", tmp_path)
    tree = cargo(tmp_path, "tree", "--edges=normal", "--prefix=none")
    assert len({line.split()[1] for line in tree.splitlines() if line.startswith("hyper v")}) == 1
