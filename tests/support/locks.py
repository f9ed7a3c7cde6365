"""A session of PostgreSQL that is in other sessions' way."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from support.postgres import Database


@contextmanager
def holding(database: Database, statement: str) -> Iterator[None]:
    """Runs a statement in a transaction and keeps that open."""
    instance = database.server.instance
    session = subprocess.Popen(
        [instance.programs["psql"], "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"],
        env={**os.environ, **instance.programs.environment(), **instance.client(database.name)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        session.stdin.write(f"BEGIN; {statement};\n\\echo held\n")
        session.stdin.flush()
        # What the statement itself prints comes first.
        assert any(line == "held\n" for line in session.stdout), f"not held: {statement}"
        yield
    finally:
        # Its transaction is rolled back. Where PostgreSQL was killed, nobody reads any more.
        session.kill()
        session.communicate()
