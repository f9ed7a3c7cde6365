"""`node-tuner restore`: what was there before comes back, byte for byte, and the journal ends."""

import subprocess
from pathlib import Path

from support import trees
from support.trees import Tree
from tools import resolve

BACKLOG = "net.core.netdev_max_backlog"
ALL = (
    "--profile=web-1m",
    "--housekeeping=0-1",
    "--knobs=net.xps_cpus=auto,cpu.governor=performance",
)


def full(tree: Tree) -> Tree:
    """With all that can be changed."""
    tree.add({"sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "powersave\n"})
    return tree.add({trees.IRQBALANCE: "A=1\n# end"})


def test_everything_comes_back_byte_for_byte(tree: Tree) -> None:
    before = full(tree).snapshot()
    tree.run("apply", *ALL, status=0)
    changed = [path for path, content in tree.snapshot().items() if content != before[path]]
    assert len(changed) > 20
    result = tree.run("restore", status=0)
    assert result.stdout == f"{len(changed)} setting(s) restored\n"
    assert tree.snapshot() == before
    assert [path.name for path in tree.journal.iterdir()] == ["lock"]


def test_this_machines_own_values_come_back(tmp_path: Path) -> None:
    paths = [trees.sysctl(name) for name in trees.SYSCTLS]
    paths += [trees.THP, "sys/devices/system/cpu/online", "proc/meminfo"]
    tree = trees.copy(tmp_path, paths)
    before = tree.snapshot()
    assert trees.sysctl(BACKLOG) in before
    tree.run("apply", "--profile=web-1m", status=0)
    assert tree.snapshot() != before
    tree.run("restore", status=0)
    assert tree.snapshot() == before


def test_without_a_journal_there_is_nothing_to_do(tree: Tree) -> None:
    before = tree.snapshot()
    assert tree.run("restore", status=0).stdout == "0 setting(s) restored\n"
    assert tree.snapshot() == before
    assert not tree.journal.exists()


def test_restore_needs_neither_the_profile_nor_the_knobs(tree: Tree) -> None:
    before = tree.snapshot()
    tree.run("apply", *ALL, status=0)
    tree.run("restore", "--profile=custom", "--knobs=net.rps_cpus=all,somaxconn=1", status=0)
    assert tree.snapshot() == before


def test_what_is_gone_is_passed_over(tree: Tree) -> None:
    tree.run("apply", *ALL, status=0)
    tree.remove("sys/class/net/eth0")
    tree.run("restore", status=0)
    assert tree.read(trees.sysctl(BACKLOG)) == "1000"
    assert not (tree.root / "sys/class/net/eth0").exists()


def test_what_cannot_be_written_keeps_the_journal(tree: Tree) -> None:
    tree.run("apply", *ALL, status=0)
    tree.remove(trees.sysctl(BACKLOG))
    (tree.root / trees.sysctl(BACKLOG)).mkdir()
    result = tree.run("restore", status=1)
    assert f"/{trees.sysctl(BACKLOG)}: Is a directory" in result.stderr
    assert tree.read(trees.sysctl("fs.file-max")) == "100000"
    assert tree.noted()["settings"]
    tree.remove(trees.sysctl(BACKLOG))
    tree.add({trees.sysctl(BACKLOG): "10000\n"})
    tree.run("restore", status=0)
    assert tree.read(trees.sysctl(BACKLOG)) == "1000"


def test_after_a_restart_only_what_lasts_is_restored(tree: Tree) -> None:
    before = full(tree).snapshot()
    tree.run("apply", *ALL, status=0)
    # The kernel begins with other values than before; the file on the disk is as it was written.
    tree.add({"proc/sys/kernel/random/boot_id": "two\n", trees.sysctl(BACKLOG): "3000\n"})
    assert tree.run("restore", status=0).stdout == "1 setting(s) restored\n"
    assert tree.read(trees.sysctl(BACKLOG)) == "3000"
    assert tree.snapshot()[trees.IRQBALANCE] == before[trees.IRQBALANCE]


def test_after_a_restart_apply_notes_what_is_there_then(tree: Tree) -> None:
    before = full(tree).snapshot()
    tree.run("apply", *ALL, status=0)
    fresh = {**before, "proc/sys/kernel/random/boot_id": b"two\n", trees.sysctl(BACKLOG): b"3000\n"}
    del fresh[trees.IRQBALANCE]
    tree.add(fresh)
    tree.run("apply", *ALL, status=0)
    assert tree.noted()["boot"] == "two"
    tree.run("restore", status=0)
    assert tree.snapshot() == {**fresh, trees.IRQBALANCE: before[trees.IRQBALANCE]}


def test_what_others_changed_in_a_shared_file_stays(tree: Tree) -> None:
    tree.add({trees.IRQBALANCE: "A=1\n#IRQBALANCE_BANNED_CPULIST=\n"})
    tree.run("apply", "--housekeeping=0", status=0)
    assert tree.read(trees.IRQBALANCE) == "A=1\nIRQBALANCE_BANNED_CPULIST=1-3"
    tree.add({trees.IRQBALANCE: "A=2\nIRQBALANCE_BANNED_CPULIST=1-3\nB=1\n"})
    tree.run("restore", status=0)
    assert tree.read(trees.IRQBALANCE) == "A=2\n#IRQBALANCE_BANNED_CPULIST=\nB=1"


def test_the_kernel_takes_back_only_the_word_that_was_chosen(tree: Tree) -> None:
    tree.run("apply", status=0)
    # As sysfs answers `always [madvise] never`.
    result = tree.refused(trees.THP, "EINVAL", "restore", when=2)
    assert result.returncode == 0, result.stderr
    assert tree.read(trees.THP) == "always"


def test_what_the_kernel_does_not_take_back_keeps_the_journal(tree: Tree) -> None:
    tree.run("apply", status=0)
    path = tree.root / trees.sysctl(BACKLOG)
    # As a kernel that says that it took the value, and did not.
    strace = resolve.ensure(["strace"])["strace"]
    argv = [strace, "-qq", "-o", "/dev/null", "-P", path, "-e", "inject=write:retval=5"]
    result = subprocess.run(
        [*argv, *tree.argv("restore")], capture_output=True, text=True, timeout=20, check=False
    )
    assert result.returncode == 1, result.stdout
    assert "not restored: 1000 was written" in result.stderr
    assert tree.noted()["settings"]
    tree.run("restore", status=0)
    assert path.read_text() == "1000\n"
