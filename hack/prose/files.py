"""Which files the prose linter reads."""

import subprocess
from fnmatch import fnmatch
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

EXCLUDED = (
    "LICENSE",
    "docs/results/*",
    "tests/*",
    "charts/*/tests/*",
    "charts/*/README.md.gotmpl",
    "hack/prose/*",
    "services/*/tests/*",
    "*/peers/*",
    "*/data/*",
)
"""Measured records, tests, sources of generated pages that are read themselves, and data."""

PENDING = (
    "docs/metrics.md",
    "docs/node-tuning-knobs.md",
    "loadtests/bench/*.py",
    "loadtests/bench/*.rs",
    "loadtests/bench/*.toml",
    "services/*.rs",
)
"""Folders that do not pass yet: read only where a path names them."""


def chosen(paths: list[str]) -> list[str]:
    """The files to read below these paths; without a path, those of the whole repository."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *paths]
    output = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    skipped = EXCLUDED if paths else EXCLUDED + PENDING
    listed = sorted(set(output.stdout.splitlines()))
    return [
        name
        for name in listed
        if not any(fnmatch(name, pattern) for pattern in skipped)
        and (REPOSITORY / name).is_file()
        and not (REPOSITORY / name).is_symlink()
    ]
