"""Where Corelane stands in a row: first, level with the best other, or behind it."""

from dataclasses import dataclass
from enum import Enum
from statistics import median

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
    """Where Corelane stands: first where it is better than the best other in all rounds; behind where
    it is worse in all, and worse than each round's rival; else level."""
    ranked = row.ranked()
    best = next(name for name in ranked if name != row.us)
    ratios = row.ratios(row.us, best)
    losses = [_behind(row, ratio) for ratio in ratios]
    if losses and max(losses) < 1:
        standing = Standing.FIRST
    elif losses and min(losses) > 1 and _loses(row):
        standing = Standing.BEHIND
    else:
        standing = Standing.LEVEL
    return Place(row, best, ranked.index(row.us) + 1, ratios, standing)


def _loses(row: Row) -> bool:
    """Whether Corelane is worse than the rival of each round."""
    for number, value in row.values[row.us].items():
        other = row.values[_rival(row, number)].get(number)
        if other and _behind(row, value / other) <= 1:
            return False
    return True


def _rival(row: Row, number: int) -> str:
    """The best other by all rounds but this. Whoever is the best of many by the rounds in which it is
    compared was lucky in them: of eleven equals each was behind it in a third of the rows."""
    others = {name: row.values[name] for name in row.ranked() if name != row.us}
    there = {name: found for name, found in others.items() if number in found} or others
    seen = {name: _without(found, number) for name, found in there.items()}
    # A single round is all there is.
    seen = {name: values for name, values in seen.items() if values} or {
        name: list(found.values()) for name, found in there.items()
    }
    best = max if row.measure.more_is_better else min
    return best(seen, key=lambda name: median(seen[name]))


def _without(found: dict[int, float], number: int) -> list[float]:
    return [value for other, value in found.items() if other != number]


def _behind(row: Row, ratio: float) -> float:
    """Above 1 where Corelane is worse."""
    return 1 / ratio if row.measure.more_is_better and ratio else ratio
