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


@pytest.mark.fast
def test_cgroup_v2_is_rejected_and_kind_named(tmp_path: Path) -> None:
    file = mounts(tmp_path, f"cgroup2 {ROOT} cgroup2 rw,nosuid,nodev")
    with pytest.raises(ToolError, match=r"has cgroup v2 only: .* cgroup v1 .*CLUSTER=kind"):
        cgroups.require(ROOT, file)


@pytest.mark.fast
def test_a_hybrid_without_a_controller_names_it(tmp_path: Path) -> None:
    lines = hierarchies(*(name for name in cgroups.NEEDED if name not in ("cpuset", "pids")))
    file = mounts(tmp_path, *lines, f"cgroup2 {ROOT}/unified cgroup2 rw")
    with pytest.raises(ToolError, match="lacks the cgroup v1 controllers cpuset, pids: "):
        cgroups.require(ROOT, file)


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
def test_a_missing_kernel_feature_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = {"widget (CONFIG_WIDGET)": "ip link add probe0 type widget"}
    monkeypatch.setattr(requirements, "TRIES", tries)
    with pytest.raises(
        ToolError, match=r"this kernel has no widget \(CONFIG_WIDGET\): .*CLUSTER=current"
    ):
        requirements.require_kernel(Programs({"containerd": Path("/usr/bin/containerd")}))
