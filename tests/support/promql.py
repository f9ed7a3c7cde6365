"""The selectors of a PromQL expression: which series it reads."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"'  # a string
    r"|\$\{[^}]*\}|\$\w+"  # a variable of Grafana
    r"|\d[\w.]*|[a-zA-Z_:][\w:]*|=~|!~|!=|[^\s]"
)

_WITH_LABELS = ("by", "without", "on", "ignoring", "group_left", "group_right")
"""What is followed by names of labels."""

_AFTER_FUNCTIONS = ("(", "by", "without")
"""What follows a function or an aggregation, and no name of a series."""

_WORDS = ("and", "or", "unless", "bool", "offset", "inf", "nan", "Inf", "NaN", *_WITH_LABELS)


@dataclass(frozen=True)
class Matcher:
    """One condition in braces."""

    label: str
    operator: str
    value: str

    def takes(self, value: str) -> bool:
        """Whether a series with this value passes."""
        if "~" in self.operator:
            same = re.fullmatch(self.value, value) is not None
        else:
            same = self.value == value
        return same != self.operator.startswith("!")


@dataclass(frozen=True)
class Selector:
    """A name and conditions; the name may be a condition, too."""

    name: str
    matchers: tuple[Matcher, ...]

    def names(self) -> tuple[Matcher, ...]:
        """What the name must be like."""
        own = (Matcher("__name__", "=", self.name),) if self.name else ()
        return own + tuple(each for each in self.matchers if each.label == "__name__")


def selectors(expression: str) -> Iterator[Selector]:
    """Every selector of an expression."""
    tokens = _TOKEN.findall(re.sub(r"#[^\n]*", "", expression))
    # label_values(SELECTOR, label) of Grafana: the label is no series.
    if tokens[:1] == ["label_values"]:
        tokens = tokens[: -3 if tokens[-3:-2] == [","] else -1]
    at = 0
    while at < len(tokens):
        token, following = tokens[at], tokens[at + 1] if at + 1 < len(tokens) else ""
        at += 1
        if token in _WITH_LABELS and following == "(":
            at = tokens.index(")", at) + 1
        elif token == "[":
            # A range may be a variable; a subquery has nothing else inside.
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
