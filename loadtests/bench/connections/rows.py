"""The rows of one part: a line of its tables for each arm, and for what it was measured under."""

from collections.abc import Sequence
from dataclasses import dataclass

from loadtests.bench.experiment.page import Page, cell
from loadtests.bench.experiment.record import Figure, Record

Column = tuple[str, Figure, int] | tuple[str, Figure, int, float]
"""Its title, the figure, digits, and what it is multiplied with."""


@dataclass(frozen=True)
class Rows:
    """Those of a part."""

    record: Record
    part: str

    def lines(self, having: Figure = "round") -> list[str]:
        """The lines that have a figure: in the order of the arms, and of one arm as they were measured."""
        found = self.record.select(part=self.part)
        arms = self.record.labels("arm", part=self.part)
        found.sort(key=lambda row: arms.index(row["arm"]))
        return [
            line
            for line in dict.fromkeys(row["line"] for row in found)
            if self.values(line, having)
        ]

    def values(self, line: str, figure: Figure) -> list[float]:
        """A figure of a line, round by round."""
        return self.record.values(figure, part=self.part, line=line)

    def ratios(self, figure: Figure, line: str, base: str) -> list[float]:
        """A figure of one line in that of another of the same round."""
        return self.record.ratios(figure, {"line": line}, {"line": base}, part=self.part)

    def table(
        self, page: Page, columns: Sequence[Column], lines: Sequence[str] | None = None
    ) -> None:
        """Adds a table of figures: medians with the lowest and the highest."""

        def column(title: str, figure: Figure, digits: int, scale: float = 1.0):
            return title, lambda line: cell(self.values(line, figure), digits, scale)

        page.table("", lines or self.lines(), *(column(*one) for one in columns))
