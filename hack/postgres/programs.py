"""The programs of PostgreSQL, in a folder that its user can enter."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from postgres.account import Account
from tools import debian, resolve

COPY = "programs"


@dataclass(frozen=True)
class Programs:
    """A folder with `postgres`, `initdb` and `psql`, and the libraries that are not the system's."""

    folder: Path
    libraries: str = ""

    def __getitem__(self, name: str) -> Path:
        return self.folder / name

    def environment(self) -> dict[str, str]:
        """Their environment."""
        libraries = {"LD_LIBRARY_PATH": self.libraries} if self.libraries else {}
        return {"PATH": os.defpath, "LC_ALL": "C", **libraries}


def obtain(home: Path, account: Account) -> Programs:
    """The installed programs, or Debian's unpacked ones: copied to `home` if they are out of reach."""
    found = resolve.ensure(["postgres"])["postgres"].resolve()
    unpacked = found.parent.parent
    if found.read_bytes()[:2] != b"#!":
        return Programs(found.parent)
    if not account.reaches(unpacked):
        copy = home / COPY
        if not copy.exists():
            _copy(unpacked, copy)
        unpacked = copy
    (folder,) = unpacked.glob("usr/lib/postgresql/*/bin")
    return Programs(folder, debian.libraries(unpacked))


def _copy(unpacked: Path, copy: Path) -> None:
    """Copies the programs and their files, which PostgreSQL finds relative to its program."""
    fresh = copy.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    unneeded = shutil.ignore_patterns("bitcode", "doc", "man", "locale", "lintian")
    shutil.copytree(unpacked, fresh, symlinks=True, ignore=unneeded)
    # The umask may have been strict when they were unpacked.
    for folder, _, _ in os.walk(fresh):
        os.chmod(folder, 0o755)
    os.rename(fresh, copy)
