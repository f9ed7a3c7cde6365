"""`.ci/run` does all that `make test` does, in another order."""

import os
import re
import subprocess

from support import REPOSITORY


def commands(*targets: str) -> set[str]:
    """What make would run for these targets."""
    # Not what the make that runs these tests tells those below it.
    inherited = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")
    environment = {name: value for name, value in os.environ.items() if name not in inherited}
    argv = ["make", "--dry-run", "--no-print-directory", *targets]
    result = subprocess.run(
        argv, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True
    )
    return set(result.stdout.splitlines())


def test_ci_leaves_out_nothing_of_make_test() -> None:
    script = (REPOSITORY / ".ci" / "run").read_text()
    lines = re.findall(
        r"^(?:timed|idly make)((?: --?[a-z-]+)*)((?: [a-z0-9-]+)+)", script, re.MULTILINE
    )
    targets = [target for _, named in lines for target in named.split()]
    assert {"test-services", "e2e"} <= set(targets)
    assert commands("test") <= commands(*targets)
