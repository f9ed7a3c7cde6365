"""The folder of PostgreSQL's user: the data, and a copy of the programs if it needs one."""

import hashlib
import os
import shutil
from pathlib import Path

from postgres.account import Account
from tools.errors import ToolError

ELSEWHERE = Path("/var/tmp")
"""On a disk, unlike /tmp on many machines: benchmarks measure the cost of a save."""


def place(folder: Path, account: Account) -> Path:
    """In the instance's folder, or elsewhere if the user cannot enter that, as below /root."""
    folder = folder.absolute()
    if account.reaches(folder.parent):
        return folder / "home"
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return ELSEWHERE / f"corelane-postgres-{digest}"


def make(home: Path, account: Account) -> None:
    """Makes the folder; only its owner may enter it."""
    try:
        home.mkdir(mode=0o700)
    except FileExistsError:
        # In /var/tmp any user may have made it.
        if home.is_symlink() or home.lstat().st_uid not in (account.uid, os.geteuid()):
            raise ToolError(f"{home} belongs to another user: remove it") from None
    account.own(home)


def remove(home: Path) -> None:
    """Removes all data of PostgreSQL."""
    if home.is_dir() and not home.is_symlink():
        shutil.rmtree(home)
