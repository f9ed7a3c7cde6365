"""The metrics contract: every series that a part of Corelane exposes, as the files of the folder `series` say."""

import ast
import operator
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "series"

TARGET_LABELS = ("job", "service", "namespace", "pod", "node", "instance")
"""What Prometheus gives every series of a target."""

SUFFIXES = ("_bucket", "_sum", "_count")
"""What the names of a histogram's series end in."""

_OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def figures_of(formula: str) -> set[str]:
    """What the formula depends on."""
    return {node.id for node in ast.walk(ast.parse(formula)) if isinstance(node, ast.Name)}


def cost_of(formula: str, figures: Mapping[str, int]) -> int:
    """How many series a family has: a formula of whole numbers and names, such as `lanes * (routes + 1)`."""
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
    """All series of one name; a histogram's have three."""

    name: str
    type: str
    meaning: str
    cost: str
    unit: str = ""
    labels: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The values that a label may have, where they are a short list."""
    at_most: bool = False
    """Whether the cost is the most that can be: some of it comes when it is first needed."""
    late: str = ""
    """What its series appear with, instead of at 0 from the start: their first `event`, or a `route` that is learnt."""
    optional: str = ""
    """Where it is left out."""

    def names(self) -> tuple[str, ...]:
        """The names of its series, as queries have them."""
        histogram = self.type == "histogram"
        return tuple(f"{self.name}{suffix}" for suffix in SUFFIXES) if histogram else (self.name,)


@dataclass(frozen=True)
class Group:
    """Series that are about the same thing."""

    title: str
    series: tuple[Series, ...]
    when: str = ""
    """The setting without which they are not there."""


@dataclass(frozen=True)
class Prefix:
    """Series that pass with others of the same beginning, and are not listed one by one."""

    name: str
    pattern: str
    """What lets them pass: a pattern of Envoy's stats_matcher."""
    meaning: str


@dataclass(frozen=True)
class Part:
    """What one kind of target exposes, or a share of it."""

    title: str
    jobs: tuple[str, ...]
    per: str
    """What the cost is counted for."""
    intro: str
    labels: Mapping[str, str]
    """Each label with what bounds it."""
    figures: Mapping[str, str]
    """Each name of the formulas with what it counts."""
    example: Mapping[str, int]
    """The figures of the example, which a test measures."""
    example_is: str
    groups: tuple[Group, ...]
    prefixes: tuple[Prefix, ...] = ()
    most: int = 0
    """The most series of the example, where more pass than are listed."""

    def series(self) -> tuple[Series, ...]:
        """All that are listed by name."""
        return tuple(each for group in self.groups for each in group.series)

    def total(self, figures: Mapping[str, int] | None = None) -> int:
        """The number of all listed series, of the example or of other figures."""
        return sum(cost_of(each.cost, figures or self.example) for each in self.series())


def read(folder: Path = FOLDER) -> dict[str, Part]:
    """The parts by the names of their files, in the order in which they say to be shown."""
    parts = {file.stem: tomllib.loads(file.read_text()) for file in folder.glob("*.toml")}
    ordered = sorted(parts.items(), key=lambda item: item[1].pop("place"))
    return {name: _part(data) for name, data in ordered}


def by_name(parts: Mapping[str, Part]) -> dict[str, Series]:
    """Every listed series by each of the names that queries have for it."""
    every = (each for part in parts.values() for each in part.series())
    return {name: series for series in every for name in series.names()}


def _part(data: dict) -> Part:
    values = data.pop("values", {})
    groups = tuple(_group(group, values) for group in data.pop("group"))
    prefixes = tuple(Prefix(**prefix) for prefix in data.pop("prefix", ()))
    return Part(**data, groups=groups, prefixes=prefixes)


def _group(data: dict, values: dict) -> Group:
    """A group may say once what labels its series have, and what they cost."""
    common = {"labels": data.pop("labels", []), "cost": data.pop("cost", "1")}
    series = tuple(_series(common | each, values) for each in data.pop("series"))
    return Group(**data, series=series)


def _series(data: dict, values: dict) -> Series:
    listed = {label: tuple(each) for label, each in values.get(data["name"], {}).items()}
    return Series(**data | {"labels": tuple(data["labels"]), "values": listed})
