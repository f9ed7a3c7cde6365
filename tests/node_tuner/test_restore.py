"""`node-tuner restore` writes the original bytes back and deletes the journal.

strace lists the system calls that change files, then kills the same run before each of them, so
every intermediate state occurs. Each state is restored and, in a copy, applied again.
"""

import json
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from stack import PATIENCE
from stack import node as trees
from stack.node import Tree
from tools import resolve

BACKLOG = "net.core.netdev_max_backlog"
ALL = (
    "--profile=web-1m",
    "--housekeeping=0-1",
    "--knobs=net.xps_cpus=auto,cpu.governor=performance",
)


def full(tree: Tree) -> Tree:
    """A tree with every changeable setting."""
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
    assert trees.sysctl(BACKLOG) in tree.snapshot()
    # Below the profile's value.
    tree.add({trees.sysctl(BACKLOG): "1000\n"})
    before = tree.snapshot()
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
    # After a reboot the kernel has other values; the disk is unchanged.
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
    # sysfs returns `always [madvise] never`.
    result = tree.refused(trees.THP, "EINVAL", "restore", when=2)
    assert result.returncode == 0, result.stderr
    assert tree.read(trees.THP) == "always"


def test_what_the_kernel_does_not_take_back_keeps_the_journal(tree: Tree) -> None:
    tree.run("apply", status=0)
    path = tree.root / trees.sysctl(BACKLOG)
    # Simulates a kernel that ignores the write.
    strace = resolve.tool("strace")
    argv = [strace, "-qq", "-o", "/dev/null", "-P", path, "-e", "inject=write:retval=5"]
    result = subprocess.run(
        [*argv, *tree.argv("restore")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert result.returncode == 1, result.stdout
    assert "not restored: 1000 was written" in result.stderr
    assert tree.noted()["settings"]
    tree.run("restore", status=0)
    assert path.read_text() == "1000\n"


def forge(tree: Tree, setting: str, **fields: str) -> None:
    journal = tree.noted()
    (entry,) = (each for each in journal["settings"] if each["name"] == setting)
    entry.update(fields)
    (tree.journal / "journal.json").write_text(json.dumps(journal))


SECRET = "etc/shadow"
OTHER_FILE = "etc/default/cron"
BAN = "IRQBALANCE_BANNED_CPULIST"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"path": f"/{SECRET}"}, "expected /proc/sys/net/core/netdev_max_backlog"),
        (
            {"path": f"/proc/sys/net/core/../../../../{SECRET}"},
            "expected /proc/sys/net/core/netdev_max_backlog",
        ),
        ({"path": f"/{SECRET}", "name": "no.such"}, 'the setting "no.such"; expected a'),
        ({"path": f"/{SECRET}", "name": "kubelet.cpuManagerPolicy"}, "expected none"),
        ({"original": "|/bin/sh\n"}, 'the original "|/bin/sh\\n" for'),
        ({"original": "1 2\n"}, "expected a whole number"),
    ],
)
def test_a_forged_entry_is_refused_and_the_rest_restored(
    tree: Tree, fields: dict[str, str], words: str
) -> None:
    before = full(tree).add({SECRET: "root:*:1::::::\n"}).snapshot()
    tree.run("apply", *ALL, status=0)
    applied = tree.snapshot()
    forge(tree, BACKLOG, **fields)
    result = tree.run("restore", status=1)
    path = fields.get("path", f"/{trees.sysctl(BACKLOG)}")
    assert f"{path}: the journal " in result.stderr
    assert words in result.stderr
    # Every setting is restored except the one with the forged entry, which keeps its applied value.
    kept = trees.sysctl(BACKLOG)
    assert tree.snapshot() == {**before, kept: applied[kept]}
    assert tree.noted()["settings"]


@pytest.mark.parametrize(
    "fields",
    [
        {"original": "A=1\n# end\nPATH=/tmp\n"},
        {"original": "A=1\n# end", "written": f"{BAN}=2-3\n"},
        {"original": f"A=1\n# end\n{BAN}=$(reboot)\n"},
        {"path": f"/{OTHER_FILE}"},
    ],
)
def test_only_the_line_of_banned_cpus_can_come_back(tree: Tree, fields: dict[str, str]) -> None:
    full(tree).add({OTHER_FILE: "B=1\n"})
    tree.run("apply", *ALL, status=0)
    applied = tree.snapshot()
    forge(tree, "irqbalance.banned_cpus", **fields)
    result = tree.run("restore", status=1)
    assert f"{fields.get('path', f'/{trees.IRQBALANCE}')}: the journal " in result.stderr
    for path in (trees.IRQBALANCE, OTHER_FILE):
        assert tree.snapshot()[path] == applied[path]
    # Another profile does not change these files either.
    tree.run("apply", "--profile=web-1m", "--housekeeping=0")
    assert tree.read(trees.IRQBALANCE) == f"A=1\n# end\n{BAN}=1-3"
    assert tree.read(OTHER_FILE) == "B=1"


@pytest.mark.parametrize("command", ["apply", "restore"])
def test_a_file_of_etc_is_replaced_durably_with_its_mode_and_owner(
    tree: Tree, tmp_path: Path, command: str
) -> None:
    file = full(tree).root / trees.IRQBALANCE
    file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file, 1234, 2345)
    if command == "restore":
        tree.run("apply", *ALL, status=0)
    before, trace = file.stat(), tmp_path / "trace"
    argv = [strace(), "-qq", "-y", "-o", trace, "-e", f"trace={CHANGING}"]
    arguments = [command, *(ALL if command == "apply" else ())]
    result = subprocess.run(
        [*argv, *tree.argv(*arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    after = file.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )
    assert [each.name for each in file.parent.iterdir()] == [file.name]

    lines = trace.read_text().splitlines()
    fresh = re.escape(str(file.with_name(f".{file.name}.node-tuner")))
    at = [
        next(at for at, line in enumerate(lines) if re.search(pattern, line))
        for pattern in (
            rf"write\(\d+<{fresh}>",
            rf"fsync\(\d+<{fresh}>",
            rf'rename\w*\(.*"{fresh}", .*"{re.escape(str(file))}"',
            rf"fsync\(\d+<{re.escape(str(file.parent))}>\)",
        )
    ]
    assert at == sorted(at), "\n".join(lines)


# The question mark is for calls that some architectures lack.
CHANGING = (
    "openat,write,ftruncate,fsync,fdatasync,fchmod,?chmod,fchmodat,"
    "?rename,?renameat,?renameat2,?unlink,unlinkat,?mkdir,mkdirat"
)
NODE = {
    "proc/sys/kernel/random/boot_id": "one\n",
    "sys/devices/system/cpu/online": "0-3\n",
    trees.sysctl("fs.file-max"): "100000\n",
    trees.sysctl("net.core.netdev_max_backlog"): "1000\n",
    trees.sysctl("net.ipv4.tcp_mem"): "10\t20\t30\n",
    trees.THP: "[always] madvise never\n",
    trees.IRQBALANCE: "# A file\n#IRQBALANCE_BANNED_CPULIST=\n",
    **trees.device("eth0", receiving=1, irqs=(40,)),
}
FIRST = (
    "--profile=custom",
    "--housekeeping=0-1",
    "--knobs=fs.file-max=500000,net.core.netdev_max_backlog=9000,vm.transparent_hugepage=madvise",
    "--knobs=irqbalance.banned_cpus=auto,irq.affinity=auto",
)
OTHER = (
    "--profile=custom",
    "--housekeeping=0",
    # One setting stays, one is lowered, one is dropped, one is new, two change.
    "--knobs=fs.file-max=500000,net.core.netdev_max_backlog=2000,net.ipv4.tcp_mem=100 200 300",
    "--knobs=irqbalance.banned_cpus=auto,irq.affinity=auto",
)


@dataclass(frozen=True)
class Run:
    """A run that the test kills, and the runs before it."""

    before: tuple[tuple[str, ...], ...]
    itself: tuple[str, ...]


RUNS = {
    "apply": Run((), ("apply", *FIRST)),
    "restore": Run((("apply", *FIRST),), ("restore",)),
    "change of profile": Run((("apply", *FIRST),), ("apply", *OTHER)),
}


def strace() -> str:
    return str(resolve.tool("strace"))


def changes(trace: str) -> list[tuple[str, int]]:
    """Returns calls that change files, with a number for each call of the same name."""
    counts: Counter[str] = Counter()
    found = []
    for line in trace.splitlines():
        if match := re.match(r"(?:\d+ +)?(\w+)\((.*)", line):
            name, arguments = match.groups()
            counts[name] += 1
            reads = name == "openat" and not re.search(r"O_CREAT|O_TRUNC", arguments)
            speaks = name == "write" and arguments.startswith(("1,", "2,"))
            if not reads and not speaks:
                found.append((name, counts[name]))
    return found


def start(folder: Path, run: Run) -> Tree:
    tree = trees.make(folder, NODE)
    for arguments in run.before:
        tree.run(*arguments, status=0)
    return tree


def copy(tree: Tree, folder: Path) -> Tree:
    twin = Tree(folder / "root", folder / "journal")
    shutil.copytree(tree.root, twin.root)
    if tree.journal.exists():
        shutil.copytree(tree.journal, twin.journal)
    return twin


def traced(tree: Tree, run: Run, *options: str) -> subprocess.CompletedProcess[str]:
    argv = [strace(), "-f", "-qq", *options, *tree.argv(*run.itself)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)


def is_as_before(tree: Tree, original: dict[str, bytes]) -> None:
    """After restoring, the tree equals the original byte for byte."""
    tree.run("restore", status=0)
    assert tree.snapshot() == original
    left = {path.name for path in tree.journal.iterdir()} if tree.journal.exists() else set()
    assert left <= {"lock"}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_run_killed_between_any_two_changes_can_be_undone(run: Run, tmp_path: Path) -> None:
    original = trees.make(tmp_path / "original", NODE).snapshot()
    first = start(tmp_path / "first", run)
    trace = tmp_path / "trace"
    result = traced(first, run, "-o", str(trace), "-e", f"trace={CHANGING}")
    assert result.returncode == 0, result.stderr
    wanted = first.snapshot()
    kills = changes(trace.read_text())
    assert len(kills) > 10, kills
    begun = start(tmp_path / "begun", run)

    for at, (call, when) in enumerate(kills):
        inject = f"inject={call}:signal=SIGKILL:when={when}"
        killed = copy(begun, tmp_path / f"killed-{at}")
        result = traced(killed, run, "-o", "/dev/null", "-e", f"trace={call}", "-e", inject)
        assert result.returncode == -signal.SIGKILL, (call, when, result.stderr)
        again = copy(killed, tmp_path / f"again-{at}")
        is_as_before(killed, original)
        again.run(*run.itself, status=0)
        assert again.snapshot() == wanted, (call, when)
        is_as_before(again, original)


def test_the_journal_lasts_before_the_first_change(tmp_path: Path) -> None:
    run = RUNS["apply"]
    tree = start(tmp_path, run)
    trace = tmp_path / "trace"
    result = traced(tree, run, "-o", str(trace), "-y", "-e", f"trace={CHANGING}")
    assert result.returncode == 0, result.stderr
    lines = trace.read_text().splitlines()

    def first(pattern: str) -> int:
        return next(at for at, line in enumerate(lines) if re.search(pattern, line))

    journal = re.escape(f"{tree.journal}/journal.json")
    folder = re.escape(f"<{tree.journal}>")
    order = [
        first(rf"write\(\d+<{journal}\.new>"),
        first(rf"fsync\(\d+<{journal}\.new>"),
        first(rf'rename\w*\(.*"{journal}\.new", .*"{journal}"'),
        first(rf"fsync\(\d+{folder}\)"),
        first(rf'openat\(.*"{re.escape(str(tree.root))}/.*O_TRUNC'),
    ]
    assert order == sorted(order), "\n".join(lines)
