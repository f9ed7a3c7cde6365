"""The user that runs PostgreSQL, which does not run as root, and the folders that it can enter."""

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from tools.errors import ToolError

NAME = "nobody"


@dataclass(frozen=True)
class Account:
    """The user `nobody` if this runs as root, else the current user."""

    name: str
    uid: int
    gid: int
    other: bool

    def popen(self) -> dict[str, object]:
        """Arguments of subprocess.Popen that start a process as this user."""
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
        """Gives a file or folder to this user."""
        if self.other:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def choose() -> Account:
    """The user for PostgreSQL."""
    if os.geteuid() != 0:
        return Account("", os.geteuid(), os.getegid(), other=False)
    try:
        user = pwd.getpwnam(NAME)
    except KeyError:
        raise ToolError(f"PostgreSQL does not run as root, and there is no user {NAME}") from None
    return Account(NAME, user.pw_uid, user.pw_gid, other=True)
