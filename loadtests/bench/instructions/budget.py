"""What a request may take, by row, and the toolchain that this is of."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("budget.toml")

LIMIT = 1.03
"""Most instructions of a request, in those of the table."""

HEAD = '# Written by `make bench BENCH="instructions --publish"`; `make check-instructions` compares with it.'


@dataclass(frozen=True)
class Budget:
    """The committed table."""

    toolchain: Mapping[str, str]
    instructions: Mapping[str, int]

    @classmethod
    def read(cls, file: Path) -> "Budget":
        """The one of a file."""
        return cls(**tomllib.loads(file.read_text()))

    def write(self, file: Path) -> None:
        """Writes it, in the order of the rows."""
        versions = [f'{name} = "{version}"' for name, version in self.toolchain.items()]
        rows = [f'"{name}" = {count}' for name, count in self.instructions.items()]
        lines = [HEAD, "[toolchain]", *versions, "", "[instructions]", *rows]
        file.write_text("\n".join(lines) + "\n")

    def fits(self, name: str, count: int) -> bool:
        """Whether a row's count is within the limit; a row that is not there does not fit."""
        known = self.instructions.get(name)
        return known is not None and count <= LIMIT * known

    def other_toolchain(self, versions: Mapping[str, str]) -> list[str]:
        """What differs from that of the table."""
        return [
            f"{name} {versions.get(name)} where the table has {version}"
            for name, version in self.toolchain.items()
            if versions.get(name) != version
        ]
