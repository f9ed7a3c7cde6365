"""The user that runs PostgreSQL, which refuses to run as root; the folder and programs that this
user can reach.
"""

import hashlib
import os
import pwd
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from tools import debian, resolve
from tools.errors import ToolError

NAME = "nobody"


@dataclass(frozen=True)
class Account:
    """The user `nobody` if this process is root, otherwise the current user."""

    name: str
    uid: int
    gid: int
    other: bool

    def popen(self) -> dict[str, object]:
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.other else {}

    def reaches(self, folder: Path) -> bool:
        """Whether this user can enter an absolute folder; missing parts of the path are ignored."""
        if not self.other:
            return True
        existing = [each for each in (folder, *folder.parents) if each.exists()]
        return all(self._enters(each.stat()) for each in existing)

    def _enters(self, status: os.stat_result) -> bool:
        return status.st_uid == self.uid or bool(status.st_mode & stat.S_IXOTH)

    def own(self, path: Path) -> None:
        if self.other:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def account() -> Account:
    if os.geteuid() != 0:
        return Account("", os.geteuid(), os.getegid(), other=False)
    try:
        user = pwd.getpwnam(NAME)
    except KeyError:
        raise ToolError(
            f"PostgreSQL cannot run as root, and the user {NAME} does not exist"
        ) from None
    return Account(NAME, user.pw_uid, user.pw_gid, other=True)


ELSEWHERE = Path("/var/tmp")
"""A folder on a disk, because benchmarks measure the cost of a save. On many machines, /tmp is not
on a disk.
"""


def place(folder: Path, user: Account) -> Path:
    """The instance's folder, or another one if the user cannot enter it, for example below /root."""
    folder = folder.absolute()
    if user.reaches(folder.parent):
        return folder / "home"
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return ELSEWHERE / f"corelane-postgres-{digest}"


def make(home: Path, user: Account) -> None:
    """Only the owner may enter the folder."""
    try:
        home.mkdir(mode=0o700)
    except FileExistsError:
        # Another user may have created the folder in /var/tmp.
        if home.is_symlink() or home.lstat().st_uid not in (user.uid, os.geteuid()):
            raise ToolError(f"{home} belongs to another user: remove it") from None
    user.own(home)


def remove(folder: Path) -> None:
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)


@dataclass(frozen=True)
class Programs:
    """A folder with `postgres`, `initdb` and `psql`, and libraries that the system lacks."""

    folder: Path
    libraries: str = ""

    def __getitem__(self, name: str) -> Path:
        return self.folder / name

    def environment(self) -> dict[str, str]:
        libraries = {"LD_LIBRARY_PATH": self.libraries} if self.libraries else {}
        return {"PATH": os.defpath, "LC_ALL": "C", **libraries}


def programs(home: Path, user: Account) -> Programs:
    """The installed programs, or Debian's unpacked ones, copied to `home` if the user cannot reach
    them.
    """
    found = resolve.tool("postgres").resolve()
    unpacked = found.parent.parent
    if found.read_bytes()[:2] != b"#!":
        return Programs(found.parent)
    if not user.reaches(unpacked):
        copy = home / "programs"
        if not copy.exists():
            _copy(unpacked, copy)
        unpacked = copy
    (folder,) = unpacked.glob("usr/lib/postgresql/*/bin")
    return Programs(folder, debian.libraries(unpacked))


def _copy(unpacked: Path, copy: Path) -> None:
    """PostgreSQL finds its files relative to its program."""
    fresh = copy.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    unneeded = shutil.ignore_patterns("bitcode", "doc", "man", "locale", "lintian")
    shutil.copytree(unpacked, fresh, symlinks=True, ignore=unneeded)
    # A strict umask may have applied when they were unpacked.
    for folder, _, _ in os.walk(fresh):
        os.chmod(folder, 0o755)
    os.rename(fresh, copy)
