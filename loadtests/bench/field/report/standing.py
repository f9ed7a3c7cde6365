"""Where Corelane stands in a row: first, level with the best other, or behind it."""

from dataclasses import dataclass
from enum import Enum

from loadtests.bench.field.report.rows import Row


class Standing(Enum):
    """As the report says it."""

    FIRST = "first"
    LEVEL = "level"
    BEHIND = "behind"


@dataclass(frozen=True)
class Place:
    """Corelane beside the best of the others."""

    row: Row
    best: str
    """Of the others."""
    place: int
    """Among all who compete, by the median."""
    ratios: list[float]
    """Corelane's value in that of the best other, in each round; empty where that is 0."""
    standing: Standing


def place(row: Row) -> Place:
    """Where Corelane stands: first or behind where all rounds say so, else level."""
    ranked = row.ranked()
    best = next(name for name in ranked if name != row.us)
    ratios = row.ratios(row.us, best)
    losses = [_behind(row, ratio) for ratio in ratios]
    if losses and max(losses) < 1:
        standing = Standing.FIRST
    elif losses and min(losses) > 1:
        standing = Standing.BEHIND
    else:
        standing = Standing.LEVEL
    return Place(row, best, ranked.index(row.us) + 1, ratios, standing)


def _behind(row: Row, ratio: float) -> float:
    """Above 1 where Corelane is worse."""
    return 1 / ratio if row.measure.more_is_better and ratio else ratio
