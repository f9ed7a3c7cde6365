"""`hack/tools` with fake programs on PATH and an empty cache."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stack import REPOSITORY, eventually
from tools import pythonlock, table, versions
from tools.table import FOLDER

# A developer tool.
pytestmark = pytest.mark.nightly


class Machine:
    """PATH folders and an initially empty cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.path: list[Path] = []

    def add(self, folder: str, name: str, script: str) -> Path:
        """Appends a script to PATH."""
        place = self.folder / folder
        place.mkdir(exist_ok=True)
        if place not in self.path:
            self.path.append(place)
        program = place / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return program

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "hack/tools", *arguments],
            cwd=REPOSITORY,
            env={
                "PATH": ":".join(map(str, self.path)),
                "HOME": str(self.folder),
                "XDG_CACHE_HOME": str(self.cache),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def tools(self, *arguments: str) -> tuple[int, str, str]:
        with self.start(*arguments) as process:
            output, errors = process.communicate()
        return process.returncode, output, errors


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_an_unsuitable_version_on_path_is_passed_over(machine: Machine) -> None:
    machine.add("old", "helm", "echo v3.19.0+g123")
    machine.add("broken", "helm", "echo v4.9.9; exit 1")
    suitable = machine.add("new", "helm", "echo v4.1.0+g123")
    assert machine.tools("path", "helm") == (0, f"{suitable}\n", "")


def test_a_tool_that_cannot_be_had_says_what_to_install(machine: Machine) -> None:
    ab = machine.add("bin", "ab", "echo 'Version 1.3.1'")
    status, _, errors = machine.tools("ensure", "ab")
    assert status == 1
    assert f"{ab} is 1.3.1" in errors
    assert "apache2-utils" in errors


def downloading(build: str, sum_of: str = table.find("helm").go.sum) -> str:
    """A fake go that downloads a module with this hash and builds it."""
    return f"""\
[ "$1" = mod ] && {{ echo '{{"Sum": "{sum_of}", "Dir": "/"}}'; exit; }}
{build}"""


def test_a_module_of_another_hash_is_not_built(machine: Machine) -> None:
    machine.add("bin", "go", downloading("echo built; exit 3", "h1:other"))
    status, _, errors = machine.tools("ensure", "helm")
    assert status == 1
    assert "helm.sh/helm/v4@v4.3.1 has the hash h1:other, but tools.toml says" in errors
    assert "built" not in errors


def test_two_runs_at_once_obtain_a_tool_once(machine: Machine) -> None:
    built, gate = machine.folder / "built", machine.folder / "gate"
    os.mkfifo(gate)
    machine.path.append(Path("/usr/bin"))
    build = FAKE_GO.format(version="v4.0.1", before=f"echo x >>{built}; <{gate} read _")
    machine.add("bin", "go", downloading(build))
    machine.path.reverse()
    with machine.start("path", "helm") as first, machine.start("path", "helm") as second:
        # Opening the pipe blocks until the build starts.
        eventually(built.exists, "the build")
        with open(gate, "w") as opened:
            for process in (first, second):
                line = process.stderr.readline()
                # By then, both runs overlap.
                assert "building" in line or "waits for another process" in line
            print("go on", file=opened)
        outputs = [process.communicate()[0] for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0]
    assert outputs[0] == outputs[1]
    assert built.read_text() == "x\n"


FAKE_GO = """
{before}
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\necho {version}\\n' >"$2"
/bin/chmod +x "$2"
"""


@pytest.mark.parametrize(
    ("version", "wanted", "suits"),
    [
        ("4.3", ">=4.0 <5", True),
        ("4.0.0", ">=4.0 <5", True),
        ("5.0.0", ">=4.0 <5", False),
        ("3.19.9", ">=4.0 <5", False),
        ("2.42.0", ">=2.42 <4", True),
        ("2.5.0", ">=2.42", False),
        ("", ">=0", False),
    ],
)
def test_versions_are_compared_by_number(version: str, wanted: str, suits: bool) -> None:
    assert versions.suits(version, wanted) is suits


def test_each_lock_file_pins_what_its_environment_requires() -> None:
    for name, required in pythonlock.requirements().items():
        pinned = (FOLDER / "python" / f"{name}.txt").read_text().lower()
        assert all(f"{each.lower()} \\\n    --hash=sha256:" in pinned for each in required), name


def test_a_package_of_npm_with_another_hash_is_refused(machine: Machine) -> None:
    script = 'while [ "$1" != --pack-destination ]; do shift; done; echo other >"$2/axe-core.tgz"'
    machine.add("bin", "npm", script)
    status, output, errors = machine.tools("path", "axe-core")
    assert (status, output) == (1, "")
    assert "axe-core@4" in errors
    assert "but tools.toml says sha512-" in errors
    assert not list(machine.cache.rglob("axe.min.js"))
