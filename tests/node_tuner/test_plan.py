"""`node-tuner plan`: what `apply` would write, and why."""

from support import trees
from support.trees import Tree

BACKLOG = "net.core.netdev_max_backlog"


def test_the_plan_is_what_apply_then_writes(tree: Tree) -> None:
    before = tree.snapshot()
    plan = tree.run("plan", "--housekeeping=0-1", status=2).stdout
    assert tree.snapshot() == before
    lines = plan.splitlines()
    comes = {line[2:] for line in lines if line.startswith("+ ")}
    goes = {line[2:] for line in lines if line.startswith("- ")}
    assert f"{BACKLOG} 1000" in goes
    assert f"{BACKLOG} 4000" in comes
    assert "vm.transparent_hugepage always" in goes
    assert lines[-1] == f"{len(comes)} setting(s) to write"

    written = tree.rows("apply", "--housekeeping=0-1")
    changed = {key: row for key, row in written.items() if "changed_from" in row}
    assert {f"{key} {row['changed_from']}" for key, row in changed.items()} == goes
    assert {f"{key} {row['actual']}" for key, row in changed.items()} == comes
    assert tree.run("plan", "--housekeeping=0-1", status=0).stdout.endswith("nothing to write\n")


def test_every_change_has_its_reason(tree: Tree) -> None:
    lines = tree.run("plan").stdout.splitlines()
    after = [lines[at + 1] for at, line in enumerate(lines) if line.startswith("+ ")]
    assert after and all(line.startswith("    ") and line.strip() for line in after)
    assert max(map(len, lines)) <= 120


def test_what_a_profile_does_not_want_any_more_is_in_the_plan(tree: Tree) -> None:
    tree.run("apply", status=0)
    plan = tree.run("plan", "--profile=custom", "--knobs=fs.file-max=100", status=64)
    assert "allowed is a whole number from 8192" in plan.stderr
    plan = tree.run("plan", "--profile=custom", status=2).stdout
    assert f"- {BACKLOG} 4000\n+ {BACKLOG} 1000\n    not wanted any more" in plan


def test_a_plan_for_programs_is_that_of_audit(tree: Tree) -> None:
    assert tree.report("plan") == tree.report("audit")
    tree.add({trees.THP: "always [madvise] never\n"})
    assert tree.rows("plan")["vm.transparent_hugepage"]["state"] == "ok"
