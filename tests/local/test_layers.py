"""hack/layers.py: forbidden imports between modules of a crate, and checks of the library next to
hyper.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import layers

pytestmark = pytest.mark.fast

CLEAN = {
    "lib.rs": "mod a;\nmod b;\npub use a::{Low, deep::Deeper as Deep};\nuse b::run;\n",
    "a/mod.rs": (
        "pub mod deep;\npub use deep::Deeper;\npub struct Low;\n"
        '// crate::b::High\n/* crate::b::High */\nconst TEXT: &[u8] = br"crate::b::High {\\";\n'
        "#[cfg(test)]\nuse crate::b::High;\n#[cfg(test)]\nmod tests;\n"
    ),
    "a/deep.rs": "use super::Low;\npub struct Deeper(Low);\n",
    "a/tests.rs": "use crate::b::High;\n",
    "b.rs": (
        "use crate::{Deep, a::{self, Low}};\npub struct High(a::Deeper);\n"
        "#[cfg(test)]\nmod tests {\n    use crate::b::*;\n}\n"
    ),
}
"""`b` is above `a`; `a` mentions `b` only in comments, strings and tests."""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """One crate, `one`, without modules."""
    write(tmp_path, {"lib.rs": ""})
    (tmp_path / "Cargo.toml").write_text('[workspace]\nmembers = ["one"]\n')
    (tmp_path / "one" / "Cargo.toml").write_text('[package]\nname = "one"\n')
    return tmp_path


def write(workspace: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = workspace / "one" / "src" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def declare(workspace: Path, order: list[str]) -> None:
    with (workspace / "one" / "Cargo.toml").open("a") as manifest:
        manifest.write(f"[package.metadata.corelane]\nlayers = {order}\n")


def found(workspace: Path) -> str:
    return "\n".join(layers.errors(workspace)).replace(f"{workspace}/", "")


def test_imports_downwards_are_allowed(workspace: Path) -> None:
    write(workspace, CLEAN)
    declare(workspace, ["a", "b"])
    assert found(workspace) == ""


@pytest.mark.parametrize(
    ("file", "code", "line"),
    [
        ("a/mod.rs", "\nuse crate::b::High;\n", "a/mod.rs:2: a imports crate::b::High"),
        ("a/mod.rs", "use {super::b::{\n    High,\n}};\n", "a/mod.rs:1: a imports super::b::High"),
        ("a/mod.rs", "fn f() -> crate::b::High {}\n", "a/mod.rs:1: a imports crate::b::High"),
        ("a/mod.rs", "use crate::run;\n", "a/mod.rs:1: a imports crate::run"),
        ("a/mod.rs", '#[x(with = "crate::b::x")]\n', "a/mod.rs:1: a imports crate::b::x"),
        ("a/deep.rs", "use crate::{b as c};\n", "a/deep.rs:1: a imports crate::b"),
        (
            "a/deep.rs",
            "fn f() { super::super::b::g() }\n",
            "a/deep.rs:1: a imports super::super::b",
        ),
    ],
)
def test_imports_upwards_are_errors(workspace: Path, file: str, code: str, line: str) -> None:
    write(workspace, CLEAN | {file: code + CLEAN[file]})
    cycle = found(workspace)
    assert "cycle in crate: " in cycle
    assert f"\n  one/src/{line}" in cycle
    declare(workspace, ["a", "b"])
    above = [text for text in found(workspace).splitlines() if text.startswith(f"one/src/{line}")]
    assert above and all(text.endswith("but b is above a: a, b, crate") for text in above)


def test_children_of_a_module_have_no_cycle(workspace: Path) -> None:
    write(workspace, {"lib.rs": "mod a;", "a.rs": "mod x;\nmod y;\nuse y::Y;\npub struct A(Y);"})
    write(workspace, {"a/x.rs": "use super::y::Y;\npub struct X(Y);", "a/y.rs": "pub struct Y;"})
    assert found(workspace) == ""
    write(workspace, {"a/y.rs": "use super::A;\npub struct Y;\nfn f(x: super::x::X) {}"})
    assert "one: cycle in crate::a: " in found(workspace)
    assert "one/src/a/y.rs:3: y imports super::x::X" in found(workspace)


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
    # Locked versions avoid downloads.
    shutil.copy(SERVICES / "Cargo.lock", tmp_path)
    tree = cargo(tmp_path, "tree", "--edges=normal", "--prefix=none")
    assert len({line.split()[1] for line in tree.splitlines() if line.startswith("hyper v")}) == 1
