"""Parses metrics pages like Prometheus and compares them with the catalogue."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dashboards.metrics.catalogue import Part, Series, cost_of


@dataclass
class Family:
    """All series of a name, or of a histogram's prefix."""

    name: str
    type: str
    help: str
    samples: list[dict[str, str]] = field(default_factory=list)

    def labels(self) -> set[str]:
        """Without `le`."""
        return {label for sample in self.samples for label in sample} - {"le"}


def families(text: str) -> dict[str, Family]:
    """By query name."""
    # OpenMetrics omits the suffix in metadata.
    ending = {"counter": "_total"} if text.endswith("# EOF\n") else {}
    helps = dict(re.findall(r"^# HELP (\S+) (.+)$", text, re.MULTILINE))
    found: dict[str, Family] = {}
    family = None
    for line in text.splitlines():
        if declared := re.match(r"# TYPE (\S+) (\w+)$", line):
            name, kind = declared.groups()
            family = Family(name + ending.get(kind, ""), kind, helps.get(name, ""))
            found[family.name] = family
        elif not line.startswith("#"):
            # A sample may be followed by an exemplar.
            series = re.match(r"(\w+)(?:\{(.*)\})? \S+$", line.partition(" # {")[0])
            assert family and series and series[1].startswith(family.name), line
            family.samples.append(dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', series[2] or "")))
    return found


def differences(parts: list[Part], text: str) -> list[str]:
    """Differences between a target's page and the catalogue."""
    shown = families(text)
    prefixes = tuple(prefix.name for part in parts for prefix in part.prefixes)
    listed = {each.name: (each, part.example) for part in parts for each in part.series()}
    words = [
        f"{name}: shown, not in the catalogue"
        for name in shown.keys() - listed.keys()
        if not name.startswith(prefixes or "-")
    ]
    for name, (series, example) in listed.items():
        if (family := shown.get(name)) and family.samples:
            words += _of_series(series, family, example)
        elif not series.optional:
            words.append(f"{name}: in the catalogue, not shown")
    return sorted(words)


def _of_series(series: Series, family: Family, example: Mapping[str, int]) -> Iterator[str]:
    said = {"type": series.type, "labels": set(series.labels), "meaning": series.meaning}
    # Envoy has no help texts.
    found = {
        "type": family.type,
        "labels": family.labels(),
        "meaning": family.help or series.meaning,
    }
    for what, wanted in said.items():
        if found[what] != wanted:
            yield f"{series.name}: {what} {wanted!r} in the catalogue, {found[what]!r} shown"
    for label, values in series.values.items():
        if others := {sample[label] for sample in family.samples if label in sample} - {*values}:
            yield f"{series.name}: {label} is not listed to be {', '.join(sorted(others))}"
    wanted, number = cost_of(series.cost, example), len(family.samples)
    if number > wanted or (number < wanted and not series.at_most):
        yield f"{series.name}: {number} series shown, {series.cost} = {wanted} in the catalogue"


def births(parts: list[Part], before: str, after: str) -> list[str]:
    """Series that appeared between two pages, contrary to the catalogue."""
    shown = [families(text) for text in (before, after)]
    words = []
    for series in (each for part in parts for each in part.series()):
        if series.type == "gauge" or series.name not in shown[1]:
            continue
        first, last = (_identities(found.get(series.name)) for found in shown)
        born = len(last - first)
        if bool(born) != (series.late == "event"):
            said = f"late with an {series.late}" if series.late else "not late"
            words.append(f"{series.name}: {said} in the catalogue, {born} series appeared later")
    return words


def _identities(family: Family | None) -> set[frozenset[tuple[str, str]]]:
    return {frozenset(sample.items()) for sample in family.samples} if family else set()


_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"'  # a string
    r"|\$\{[^}]*\}|\$\w+"  # a Grafana variable
    r"|\d[\w.]*|[a-zA-Z_:][\w:]*|=~|!~|!=|[^\s]"
)

_WITH_LABELS = ("by", "without", "on", "ignoring", "group_left", "group_right")

_AFTER_FUNCTIONS = ("(", "by", "without")
"""Tokens that can follow a function name, but not a series name."""

_WORDS = ("and", "or", "unless", "bool", "offset", "inf", "nan", "Inf", "NaN", *_WITH_LABELS)


@dataclass(frozen=True)
class Matcher:
    label: str
    operator: str
    value: str

    def takes(self, value: str) -> bool:
        if "~" in self.operator:
            same = re.fullmatch(self.value, value) is not None
        else:
            same = self.value == value
        return same != self.operator.startswith("!")


@dataclass(frozen=True)
class Selector:
    """Matchers, possibly on the name itself."""

    name: str
    matchers: tuple[Matcher, ...]

    def names(self) -> tuple[Matcher, ...]:
        own = (Matcher("__name__", "=", self.name),) if self.name else ()
        return own + tuple(each for each in self.matchers if each.label == "__name__")


def selectors(expression: str) -> Iterator[Selector]:
    tokens = _TOKEN.findall(re.sub(r"#[^\n]*", "", expression))
    # In label_values(SELECTOR, label), the label is not a series.
    if tokens[:1] == ["label_values"]:
        tokens = tokens[: -3 if tokens[-3:-2] == [","] else -1]
    at = 0
    while at < len(tokens):
        token, following = tokens[at], tokens[at + 1] if at + 1 < len(tokens) else ""
        at += 1
        if token in _WITH_LABELS and following == "(":
            at = tokens.index(")", at) + 1
        elif token == "[":
            # A range can be a variable; subqueries have nothing else inside.
            at = tokens.index("]", at) + 1
        elif token == "{" or (_is_name(token) and following not in _AFTER_FUNCTIONS):
            name = "" if token == "{" else token
            matchers: tuple[Matcher, ...] = ()
            if token == "{" or following == "{":
                begin = at if token == "{" else at + 1
                at = tokens.index("}", begin) + 1
                matchers = tuple(_matchers(tokens[begin : at - 1]))
            yield Selector(name, matchers)


def _is_name(token: str) -> bool:
    return re.fullmatch(r"[a-zA-Z_:][\w:]*", token) is not None and token not in _WORDS


def _matchers(tokens: list[str]) -> Iterator[Matcher]:
    for label, operator, value in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if operator in ("=", "!=", "=~", "!~"):
            yield Matcher(label, operator, value[1:-1].replace("\\\\", "\\").replace('\\"', '"'))
