"""Errors that `up` reports before changing anything, and cleanup by `down`.

Commands run in separate network namespaces, with their own state folder and cgroups, so a running
cluster is unaffected.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import records
from stack import REPOSITORY, eventually
from tools.resolve import tool

# The local cluster is a developer tool.
pytestmark = pytest.mark.nightly

ROOT = os.geteuid() == 0
ALONE = ["unshare", "--net", "--mount", *([] if ROOT else ["--user", "--map-root-user"])]


class Machine:
    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.variables = {"CLUSTER": "local", "CLUSTER_STATE": str(self.state)}

    def without_cgroups(self, folder: Path) -> None:
        """No cgroup hierarchy: `up` fails, and `down` finds no nodes."""
        self.variables["CLUSTER_CGROUPS"] = str(folder)

    def run(self, command: str, before: str = "true") -> subprocess.CompletedProcess[str]:
        script = f'{before} && exec "$0" hack/cluster {command}'
        return subprocess.run(
            [*ALONE, "sh", "-ec", script, sys.executable],
            cwd=REPOSITORY,
            env={**_without_settings(), **self.variables},
            capture_output=True,
            text=True,
            check=False,
        )

    def record(self, **content: object) -> None:
        self.state.mkdir()
        records.Record(self.state).save(**content)


def _without_settings() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("CLUSTER")}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    # Installed in advance, as the namespaces have no network.
    tool("ip")
    made = Machine(tmp_path)
    made.without_cgroups(tmp_path)
    return made


@pytest.fixture
def marked(machine: Machine) -> Iterator[subprocess.Popen[bytes]]:
    environment = {"PATH": os.environ["PATH"], records.MARK: str(machine.state)}
    with subprocess.Popen(["sleep", "600"], env=environment) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("before", "holder"),
    [
        ("ip addr add 10.213.7.1/24 dev lo", "lo has 10.213.7.1/24"),
        (
            "ip link set lo up && ip route add 10.208.0.0/12 dev lo",
            "a route to 10.208.0.0/12 by lo",
        ),
    ],
)
def test_a_network_in_use_names_its_holder(machine: Machine, before: str, holder: str) -> None:
    result = machine.run("up", before)
    assert result.returncode == 1
    assert f"the network 10.213.0.0/16 is in use: {holder}" in result.stderr
    assert "CLUSTER_NETWORK" in result.stderr
    machine.variables["CLUSTER_NETWORK"] = "10.77.0.0/16"
    assert "is in use" not in machine.run("up", before).stderr


@pytest.mark.parametrize("boot", ["this boot", "an earlier boot"])
def test_what_an_ended_cluster_left_is_removed(machine: Machine, boot: str) -> None:
    # After a reboot, the recorded IDs may belong to other processes; here they belong to the test.
    namespaces = {} if boot == "this boot" else {"node1": _own_inodes()}
    machine.record(
        boot=records.boot() if boot == "this boot" else "another",
        complete=True,
        processes={"node1-kubelet": {"pid": os.getpid(), "started": "1"}},
        namespaces=namespaces,
    )
    result = machine.run("up")
    assert "an earlier cluster has ended; removing what it left" in result.stderr
    # Startup proceeds to the next missing requirement.
    assert "earlier cluster is" not in result.stderr
    assert machine.run("down").stdout == "No cluster is up.\n"


def _own_inodes() -> dict[str, str]:
    return {kind: Path(f"/proc/self/ns/{kind}").readlink().name for kind in ("net", "mnt")}


@pytest.mark.skipif(not ROOT, reason="a process of another user namespace cannot be looked into")
def test_down_ends_marked_processes_and_no_others(
    machine: Machine, marked: subprocess.Popen[bytes]
) -> None:
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            # The pid was reused.
            machine.record(processes={"node1": {"pid": stranger.pid, "started": "1"}})
            result = machine.run("down")
            assert stranger.poll() is None
        finally:
            stranger.kill()
    assert result.returncode == 0, result.stderr
    eventually(lambda: marked.poll() is not None, "the end of the marked process")


@pytest.mark.skipif(not ROOT, reason="a process of another user namespace cannot be looked into")
def test_processes_without_a_record_are_found(
    machine: Machine, marked: subprocess.Popen[bytes]
) -> None:
    result = machine.run("up")
    assert f"sleep (pid {marked.pid})" in result.stderr
    assert "make cluster-down" in result.stderr
    assert machine.run("down").returncode == 0
    eventually(lambda: marked.poll() is not None, "the end of the marked process")
