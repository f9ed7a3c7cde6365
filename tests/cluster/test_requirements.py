"""Requirements of the machine, read from files of the kernel."""

import os
from pathlib import Path

import pytest

from cluster import cgroups, requirements
from cluster.programs import Programs
from tools.errors import ToolError

ROOT = Path("/sys/fs/cgroup")


def mounts(folder: Path, *lines: str) -> Path:
    """A file as /proc/self/mounts."""
    file = folder / "mounts"
    file.write_text("".join(f"{line} 0 0\n" for line in lines))
    return file


def hierarchies(*groups: str) -> list[str]:
    return [f"cgroup {ROOT}/{group} cgroup rw,relatime,{group}" for group in groups]


@pytest.mark.fast
def test_separate_and_joint_hierarchies_are_accepted(tmp_path: Path) -> None:
    cgroups.require(ROOT, mounts(tmp_path, *hierarchies(*cgroups.NEEDED)))
    joint = ("cpu,cpuacct", *cgroups.NEEDED[2:])
    cgroups.require(ROOT, mounts(tmp_path, *hierarchies(*joint)))


def unified(folder: Path, *controllers: str) -> tuple[Path, Path]:
    """A tree as cgroup v2 of a machine with the CPUs 0-7, and its file of mounts."""
    root = folder / "cgroup"
    root.mkdir()
    (root / "cgroup.controllers").write_text(f"{' '.join(controllers)}\n")
    (root / "cpuset.cpus.effective").write_text("0-7\n")
    return root, mounts(folder, f"cgroup2 {root} cgroup2 rw,nosuid,nodev")


@pytest.mark.fast
def test_a_node_of_cgroup_v2_has_the_controllers_and_its_cpus(tmp_path: Path) -> None:
    root, file = unified(tmp_path, "cpuset", "cpu", "io", "memory", "pids", "rdma")
    cgroups.require(root, file)
    assert cgroups.usable_cpus(root, file) == set(range(8))
    cgroups.create(root, "corelane-node1", {4, 5, 6, 7}, file)
    delegated = (root / "cgroup.subtree_control").read_text().split()
    assert sorted(delegated) == ["+cpu", "+cpuset", "+io", "+memory", "+pids"]
    assert (root / "corelane-node1/cpuset.cpus").read_text() == "4,5,6,7"
    assert cgroups.folders(root, ["corelane-node1"], file) == [root / "corelane-node1"]


@pytest.mark.fast
def test_a_node_of_cgroup_v1_is_in_every_hierarchy_with_its_cpus(tmp_path: Path) -> None:
    lines = []
    for name in cgroups.NEEDED:
        (tmp_path / name).mkdir()
        lines.append(f"cgroup {tmp_path / name} cgroup rw,{name}")
    (tmp_path / "unified").mkdir()
    file = mounts(tmp_path, *lines, f"cgroup2 {tmp_path}/unified cgroup2 rw")
    (tmp_path / "cpuset/cpuset.effective_cpus").write_text("0-3\n")
    (tmp_path / "cpuset/cpuset.mems").write_text("0-1\n")
    assert cgroups.usable_cpus(tmp_path, file) == set(range(4))
    cgroups.create(tmp_path, "corelane-node2", {0, 1}, file)
    made = cgroups.folders(tmp_path, ["corelane-node2"], file)
    assert made == [tmp_path / name / "corelane-node2" for name in cgroups.NEEDED]
    node = tmp_path / "cpuset/corelane-node2"
    assert [(node / f"cpuset.{name}").read_text() for name in ("cpus", "mems")] == ["0,1", "0-1\n"]


@pytest.mark.fast
def test_cgroup_v2_without_a_controller_names_it_and_kind(tmp_path: Path) -> None:
    root, file = unified(tmp_path, "cpu", "memory")
    with pytest.raises(ToolError, match=r"lacks the cgroup v2 controllers cpuset, pids: .*kind"):
        cgroups.require(root, file)


@pytest.mark.fast
def test_a_hybrid_without_a_controller_names_it(tmp_path: Path) -> None:
    lines = hierarchies(*(name for name in cgroups.NEEDED if name not in ("cpuset", "pids")))
    file = mounts(tmp_path, *lines, f"cgroup2 {ROOT}/unified cgroup2 rw")
    with pytest.raises(ToolError, match="lacks the cgroup v1 controllers cpuset, pids: "):
        cgroups.require(ROOT, file)


# Only developers use the local cluster.
@pytest.mark.nightly
@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
def test_a_missing_kernel_feature_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = {"widget (CONFIG_WIDGET)": "ip link add probe0 type widget"}
    monkeypatch.setattr(requirements, "TRIES", tries)
    with pytest.raises(
        ToolError, match=r"this kernel has no widget \(CONFIG_WIDGET\): .*CLUSTER=current"
    ):
        requirements.require_kernel(Programs({"containerd": Path("/usr/bin/containerd")}))
