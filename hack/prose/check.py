"""Runs Vale on Markdown files and on the text that `extract` finds in other files, and decides
which files to read."""

import argparse
import subprocess
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path

from prose import extract
from tools import resolve

REPOSITORY = Path(__file__).resolve().parents[2]

EXCLUDED = (
    "LICENSE",
    "docs/results/*",
    "tests/*",
    "charts/*/tests/*",
    "charts/*/README.md.gotmpl",
    "hack/prose/*",
    "services/*/tests/*",
    "*/data/*",
)
"""Measured records, tests, sources of generated pages (the pages are checked instead), and data."""


def chosen(paths: list[str]) -> list[str]:
    """Files to check below these paths, or in the entire repository without paths."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *paths]
    output = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    listed = sorted(set(output.stdout.splitlines()))
    return [
        name
        for name in listed
        if not any(fnmatch(name, pattern) for pattern in EXCLUDED)
        and (REPOSITORY / name).is_file()
        and not (REPOSITORY / name).is_symlink()
    ]


SOURCE = ".source.md"
"""Suffix for extracted texts, which has a section in .vale.ini."""


def main(arguments: list[str]) -> int:
    """Prints every finding as `file:line: text`; returns 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python3 hack/prose", description=__doc__)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="default: the repository")
    paths = parser.parse_args(arguments).paths
    with tempfile.TemporaryDirectory(prefix="prose-") as folder:
        count = _write(chosen(paths), Path(folder))
        found = findings(Path(folder)) if count else []
    for line in found:
        print(line)
    print(f"prose: {len(found)} findings in {count} files", file=sys.stderr)
    return 1 if found else 0


def _write(names: list[str], folder: Path) -> int:
    """Writes the texts of these files as Markdown below a folder; returns the number of files."""
    count = 0
    for name in names:
        source = (REPOSITORY / name).read_text(errors="replace")
        page = name.endswith(".md")
        text = source if page else extract.markdown(name, source)
        if text is None:
            continue
        copy = folder / (name if page else f"{name}{SOURCE}")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)
        count += 1
    return count


def findings(folder: Path) -> list[str]:
    program = resolve.tool("vale")
    config = REPOSITORY / ".vale.ini"
    argv = [str(program), f"--config={config}", "--output=line", "."]
    result = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode not in (0, 1):
        raise SystemExit(f"vale failed: {result.stderr or result.stdout}")
    return [_shown(line) for line in result.stdout.splitlines()]


def _shown(line: str) -> str:
    name, number, _, _, message = line.split(":", 4)
    return f"{name.removesuffix(SOURCE)}:{number}: {message}"
