"""Corelane's place in a row: first, level with the best other, or behind it."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

FIRST, LEVEL, BEHIND = "first", "level", "behind"

Rounds = Mapping[int, float]
"""A figure by round."""


@dataclass(frozen=True)
class Place:
    """Corelane compared with the best of the others."""

    best: str
    """Of the others."""
    number: int
    """Among all who compete, by the median."""
    of: int
    ratios: list[float]
    """Corelane's value in that of the best other, in each round; empty where that is 0."""
    standing: str


def place(us: str, values: Mapping[str, Rounds], more_is_better: bool = False) -> Place:
    """Where `us` stands: first where it is better than the best other in all rounds; behind where it is
    worse in all, and worse than each round's rival; else level."""

    def behind(ratio: float) -> float:
        """Above 1 where we are worse."""
        return 1 / ratio if more_is_better and ratio else ratio

    def loses(number: int) -> bool:
        other = others[_rival(others, number, more_is_better)].get(number)
        return not other or behind(values[us][number] / other) > 1

    ordered = sorted(values, key=lambda name: median(values[name].values()), reverse=more_is_better)
    others = {name: values[name] for name in ordered if name != us}
    best = next(iter(others))
    ratios = [
        value / others[best][number]
        for number, value in values[us].items()
        if others[best].get(number)
    ]
    losses = [behind(ratio) for ratio in ratios]
    standing = LEVEL
    if losses and max(losses) < 1:
        standing = FIRST
    elif losses and min(losses) > 1 and all(map(loses, values[us])):
        standing = BEHIND
    return Place(best, ordered.index(us) + 1, len(ordered), ratios, standing)


def _rival(others: Mapping[str, Rounds], number: int, more_is_better: bool) -> str:
    """The best other by all rounds except this one. A best of many that is chosen by the same rounds
    was lucky in them: of eleven equal servers each was behind it in a third of the rows."""
    there = {name: found for name, found in others.items() if number in found} or others
    rest = {
        name: [value for other, value in found.items() if other != number]
        for name, found in there.items()
    }
    # A single round is all there is.
    seen = {name: found for name, found in rest.items() if found} or {
        name: list(found.values()) for name, found in there.items()
    }
    best = max if more_is_better else min
    return best(seen, key=lambda name: median(seen[name]))
