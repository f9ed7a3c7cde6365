"""The folder that belongs to PostgreSQL's user: its data, and its programs where it needs a copy."""

import hashlib
import os
import shutil
from pathlib import Path

from postgres.account import Account
from tools.errors import ToolError

ELSEWHERE = Path("/var/tmp")
"""On a disk, unlike many a /tmp: what a save costs is of interest here."""


def place(folder: Path, account: Account) -> Path:
    """In the instance's folder, or elsewhere if the user cannot enter that, as below /root."""
    folder = folder.absolute()
    if account.reaches(folder.parent):
        return folder / "home"
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return ELSEWHERE / f"corelane-postgres-{digest}"


def make(home: Path, account: Account) -> None:
    """Makes the folder, which nobody else may enter."""
    try:
        home.mkdir(mode=0o700)
    except FileExistsError:
        # In /var/tmp anybody may have made it.
        if home.is_symlink() or home.lstat().st_uid not in (account.uid, os.geteuid()):
            raise ToolError(f"{home} belongs to somebody else: remove it") from None
    account.own(home)


def remove(home: Path) -> None:
    """Removes everything that PostgreSQL kept."""
    if home.is_dir() and not home.is_symlink():
        shutil.rmtree(home)
