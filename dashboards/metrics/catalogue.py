"""Reads the metrics contract, every series that a part of Corelane exposes, from the folder `series`."""

import ast
import operator
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "series"

TARGET_LABELS = ("job", "service", "namespace", "pod", "node", "instance")
"""Labels that Prometheus adds to every series of a target."""

SUFFIXES = ("_bucket", "_sum", "_count")
"""Suffixes of the names of a histogram's series."""

_OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def figures_of(formula: str) -> set[str]:
    """Returns the figures on which the formula depends."""
    return {node.id for node in ast.walk(ast.parse(formula)) if isinstance(node, ast.Name)}


def cost_of(formula: str, figures: Mapping[str, int]) -> int:
    """Returns the number of series of a family, from a formula of integers and names such as `lanes * (routes +
    1)`.
    """
    return _value(ast.parse(formula, mode="eval").body, figures)


def _value(node: ast.expr, figures: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name) if name in figures:
            return figures[name]
        case ast.BinOp(left, operation, right) if type(operation) in _OPERATIONS:
            sides = _value(left, figures), _value(right, figures)
            return _OPERATIONS[type(operation)](*sides)
    raise ValueError(f"no formula of known names, numbers, +, - and *: {ast.unparse(node)}")


@dataclass(frozen=True)
class Series:
    """All series of one name; a histogram has three."""

    name: str
    type: str
    meaning: str
    cost: str
    unit: str = ""
    labels: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The values that a label may have, if they are few."""
    at_most: bool = False
    """Whether the cost is a maximum: some of the series appear when they are first needed."""
    late: str = ""
    """Event that creates its series, which are otherwise 0 from the start: their first `event`, or a `route`
    that is learnt.
    """
    optional: str = ""
    """The case in which the family is missing."""

    def names(self) -> tuple[str, ...]:
        """The names of its series in queries."""
        histogram = self.type == "histogram"
        return tuple(f"{self.name}{suffix}" for suffix in SUFFIXES) if histogram else (self.name,)


@dataclass(frozen=True)
class Group:
    """Series about the same subject."""

    title: str
    series: tuple[Series, ...]
    when: str = ""
    """The setting without which the series are missing."""


@dataclass(frozen=True)
class Prefix:
    """Series that are exposed because of their common prefix and are not listed individually."""

    name: str
    pattern: str
    """The pattern of Envoy's stats_matcher that exposes them."""
    meaning: str


@dataclass(frozen=True)
class Part:
    """The series of one kind of target, or some of them."""

    title: str
    jobs: tuple[str, ...]
    per: str
    """The unit to which the cost refers."""
    intro: str
    labels: Mapping[str, str]
    """Each label with the limit of its values."""
    figures: Mapping[str, str]
    """Each name in the formulas with its meaning."""
    example: Mapping[str, int]
    """The figures of the example, which a test measures."""
    example_is: str
    groups: tuple[Group, ...]
    prefixes: tuple[Prefix, ...] = ()
    most: int = 0
    """The maximum number of series of the example, if more are exposed than are listed."""

    def series(self) -> tuple[Series, ...]:
        """Returns all listed series."""
        return tuple(each for group in self.groups for each in group.series)

    def total(self, figures: Mapping[str, int] | None = None) -> int:
        """Returns the number of all listed series, for the example or for other figures."""
        return sum(cost_of(each.cost, figures or self.example) for each in self.series())


def read(folder: Path = FOLDER) -> dict[str, Part]:
    """Returns the parts by their file names, in their display order."""
    parts = {file.stem: tomllib.loads(file.read_text()) for file in folder.glob("*.toml")}
    ordered = sorted(parts.items(), key=lambda item: item[1].pop("place"))
    return {name: _part(data) for name, data in ordered}


def by_name(parts: Mapping[str, Part]) -> dict[str, Series]:
    """Returns every listed series by each of its names in queries."""
    every = (each for part in parts.values() for each in part.series())
    return {name: series for series in every for name in series.names()}


def _part(data: dict) -> Part:
    values = data.pop("values", {})
    groups = tuple(_group(group, values) for group in data.pop("group"))
    prefixes = tuple(Prefix(**prefix) for prefix in data.pop("prefix", ()))
    return Part(**data, groups=groups, prefixes=prefixes)


def _group(data: dict, values: dict) -> Group:
    """Reads a group, which may define labels and costs for all of its series."""
    common = {"labels": data.pop("labels", []), "cost": data.pop("cost", "1")}
    series = tuple(_series(common | each, values) for each in data.pop("series"))
    return Group(**data, series=series)


def _series(data: dict, values: dict) -> Series:
    listed = {label: tuple(each) for label, each in values.get(data["name"], {}).items()}
    return Series(**data | {"labels": tuple(data["labels"]), "values": listed})
