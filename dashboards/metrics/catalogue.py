"""Reads the catalogue in the `series` folder, which contains every series that a part of Corelane
exposes.
"""

import ast
import operator
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "series"

TARGET_LABELS = ("job", "service", "namespace", "pod", "node", "instance")

SUFFIXES = ("_bucket", "_sum", "_count")

_OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def figures_of(formula: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(formula)) if isinstance(node, ast.Name)}


def cost_of(formula: str, figures: Mapping[str, int]) -> int:
    """Number of series of a family, from a formula of integers and names such as `lanes * (routes +
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
    name: str
    type: str
    meaning: str
    cost: str
    unit: str = ""
    labels: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The label's possible values, if there are few."""
    at_most: bool = False
    """Whether the cost is a maximum, because some series appear only when first needed."""
    late: str = ""
    """What creates the series if they do not start at 0: a first `event` or a learnt `route`."""
    optional: str = ""

    def names(self) -> tuple[str, ...]:
        histogram = self.type == "histogram"
        return tuple(f"{self.name}{suffix}" for suffix in SUFFIXES) if histogram else (self.name,)


@dataclass(frozen=True)
class Group:
    title: str
    series: tuple[Series, ...]
    when: str = ""
    """Setting that the series depend on."""


@dataclass(frozen=True)
class Prefix:
    """Series exposed through a common prefix and not listed individually."""

    name: str
    pattern: str
    meaning: str


@dataclass(frozen=True)
class Part:
    title: str
    jobs: tuple[str, ...]
    per: str
    intro: str
    labels: Mapping[str, str]
    figures: Mapping[str, str]
    example: Mapping[str, int]
    example_is: str
    groups: tuple[Group, ...]
    prefixes: tuple[Prefix, ...] = ()
    most: int = 0
    """Maximum series of the example, if more are exposed than listed."""

    def series(self) -> tuple[Series, ...]:
        return tuple(each for group in self.groups for each in group.series)

    def total(self, figures: Mapping[str, int] | None = None) -> int:
        """Total number of series, for the example or other numbers of parts."""
        return sum(cost_of(each.cost, figures or self.example) for each in self.series())


def read(folder: Path = FOLDER) -> dict[str, Part]:
    parts = {file.stem: tomllib.loads(file.read_text()) for file in folder.glob("*.toml")}
    ordered = sorted(parts.items(), key=lambda item: item[1].pop("place"))
    return {name: _part(data) for name, data in ordered}


def by_name(parts: Mapping[str, Part]) -> dict[str, Series]:
    every = (each for part in parts.values() for each in part.series())
    return {name: series for series in every for name in series.names()}


def _part(data: dict) -> Part:
    values = data.pop("values", {})
    groups = tuple(_group(group, values) for group in data.pop("group"))
    prefixes = tuple(Prefix(**prefix) for prefix in data.pop("prefix", ()))
    return Part(**data, groups=groups, prefixes=prefixes)


def _group(data: dict, values: dict) -> Group:
    """A group may define labels and costs for all of its series."""
    common = {"labels": data.pop("labels", []), "cost": data.pop("cost", "1")}
    series = tuple(_series(common | each, values) for each in data.pop("series"))
    return Group(**data, series=series)


def _series(data: dict, values: dict) -> Series:
    listed = {label: tuple(each) for label, each in values.get(data["name"], {}).items()}
    return Series(**data | {"labels": tuple(data["labels"]), "values": listed})
