"""The token for writing projects, which is kept across restarts."""

import hashlib
import secrets
from pathlib import Path

NAME = "local"


def clear(run: Path) -> Path:
    """The file with the token itself, for `curl -H "Authorization: Bearer $(cat ...)"`."""
    return run / "token"


def hashed(run: Path) -> Path:
    """The file that replicas read: names and hashes."""
    return run / "tokens"


def make(run: Path) -> None:
    """Makes the token if there is none, and the file with its hash."""
    file = clear(run)
    if not file.exists():
        _write(file, secrets.token_urlsafe(32))
    digest = hashlib.sha256(file.read_text().strip().encode()).hexdigest()
    _write(hashed(run), f"{NAME} sha256:{digest}\n")


def _write(file: Path, text: str) -> None:
    """Nobody else may read it, not even for a moment."""
    fresh = file.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    fresh.touch(mode=0o600)
    fresh.write_text(text)
    fresh.rename(file)
