"""The cells: databases, ways to the server, and the three modes of the architecture."""

import itertools
from dataclasses import dataclass

DATABASES = ("sqlite", "postgres")
PATHS = ("direct", "gateway")

MODES = {
    "one-lane": ("--lanes", "1", "--limits.slots", "1024"),
    "one-slot": ("--lanes", "auto", "--limits.slots", "1"),
    "many-many": ("--lanes", "auto"),
}
"""The settings of each mode; one slot is one request at a time on a lane."""

CONNECTIONS = 4
"""To the database, of each lane: the default."""


def settings(mode: str, lanes: int) -> list[str]:
    """The settings of a mode on so many CPUs.

    One lane gets as many connections to the database as all lanes have together: else modes would
    differ by what the database can do at a time.
    """
    connections = CONNECTIONS * (lanes if mode == "one-lane" else 1)
    return [*MODES[mode], "--database.connections", str(connections)]


TITLES = {
    "one-lane": "one lane, many slots",
    "one-slot": "many lanes, one slot each",
    "many-many": "many lanes, many slots",
    "sqlite": "SQLite",
    "postgres": "PostgreSQL",
    "direct": "direct",
    "gateway": "through the gateway",
}


@dataclass(frozen=True)
class Cell:
    """What is measured in one go."""

    database: str
    path: str
    mode: str

    @property
    def name(self) -> str:
        """Its name in the record."""
        return f"{self.database}, {self.path}, {self.mode}"

    @property
    def title(self) -> str:
        """Its name in tables."""
        return ", ".join(TITLES[each] for each in (self.database, self.path, self.mode))


def cells(
    databases: tuple[str, ...] = DATABASES,
    paths: tuple[str, ...] = PATHS,
    modes: tuple[str, ...] = tuple(MODES),
) -> list[Cell]:
    """All of these."""
    return [Cell(*each) for each in itertools.product(databases, paths, modes)]
