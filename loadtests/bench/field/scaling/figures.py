"""Collects values by name and size, and hands them to the report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from loadtests.bench.field.scaling.model import FORMS, Growth, growth

FITS = 0.5
"""A form that is off by this share or more in the mean is no law of those points."""


@dataclass
class Series:
    """What one figure shows: the values of all rounds by name and x."""

    key: str
    title: str
    unit: str
    x: str
    digits: int = 2
    log_x: bool = False
    log_y: bool = False
    values: dict[str, dict[float, list[float]]] = field(default_factory=dict)

    def add(self, name: str, x: float, value: float) -> None:
        """The value of one round."""
        self.values.setdefault(name, {}).setdefault(x, []).append(value)

    def medians(self, name: str, least: float = 0) -> list[tuple[float, float]]:
        """The points of a name from `least` on."""
        found = sorted(self.values.get(name, {}).items())
        return [(x, median(values)) for x, values in found if x >= least]

    def laws(self, least: float = 0, forms: Sequence[str] = tuple(FORMS)) -> dict[str, Growth]:
        """How each name grows from `least` on, where there are three points or more and a form fits."""
        points = {name: self.medians(name, least) for name in self.values}
        found = {name: growth(some, forms) for name, some in points.items() if len(some) > 2}
        return {name: law for name, law in found.items() if law.error < FITS}

    def figure(
        self, laws: Mapping[str, Growth] | None = None, beyond: Sequence[float] = ()
    ) -> dict:
        """As the report draws it; with laws, also at sizes `beyond` those that were measured."""
        found = {
            **{name: getattr(self, name) for name in ("key", "title", "unit", "x", "digits")},
            "log_x": self.log_x,
            "log_y": self.log_y,
            "series": {
                name: [[x, values] for x, values in sorted(points.items())]
                for name, points in self.values.items()
            },
        }
        if laws:
            found["model"] = {
                name: self._model(law, self.medians(name), beyond) for name, law in laws.items()
            }
        return found

    def _model(
        self, law: Growth, measured: Sequence[tuple[float, float]], beyond: Sequence[float]
    ) -> dict:
        places = [*(x for x, _ in measured), *beyond]
        text = f"{law.text(self.unit, self.digits)} (off by {law.error:.0%})"
        return drawn(text, law.at, places)


def drawn(text: str, law: Callable[[float], float], places: Sequence[float]) -> dict:
    """A law as the report draws it."""
    return {"text": text, "points": [[x, round(law(x), 4)] for x in places]}
