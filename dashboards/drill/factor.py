"""Divides every duration in the rules by one factor, so that hours become minutes."""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

FACTOR = 20
"""At 20, a one-minute window still contains three scrapes, and three days take under four hours."""

UNITS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
    "y": 31_536_000_000,
}

DURATION = r"(?:\d+(?:ms|[smhdwy]))+"

FIELDS = ("for", "keep_firing_for", "interval")

QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`")

BOUND = re.compile(r"[<>]=?\s*(\d+(?:\.\d+)?(?:\s*\*\s*\d+(?:\.\d+)?)*)")
"""A comparison with a number, or with a product of numbers."""

COUNTED = re.compile(r"(\d+)(?=\s*\*\s*sum_over_time\()")
"""Seconds between samples of a recorded rate. Rules add up these samples to get a number of
requests.
"""

APPEARED = re.compile(r"(?<=/ )(\d+)(?=\s+or\s+rate\()")
"""Lookback in seconds for new series: see "Late series" in docs/metrics.md."""

SET_OPERATOR = re.compile(r"\b(?:and|or|unless)\b")

CLOCK = "time()"


def milliseconds(duration: str) -> int:
    if not re.fullmatch(DURATION, duration):
        raise ValueError(f"{duration!r} is not a duration such as 5m or 1h30m")
    parts = re.findall(r"(\d+)(ms|[smhdwy])", duration)
    return sum(int(count) * UNITS[unit] for count, unit in parts)


def divided(duration: str, factor: int) -> str:
    return f"{max(1, round(milliseconds(duration) / factor))}ms"


def expression(text: str, factor: int) -> str:
    """Divides windows, offsets and bounds of `time()` in an expression; strings stay unchanged."""
    strings: list[str] = []

    def hide(match: re.Match[str]) -> str:
        strings.append(match[0])
        return f'"{len(strings) - 1}"'

    hidden = QUOTED.sub(hide, text)
    # A number with a unit is a duration, except at the end of a name such as rate_5m.
    hidden = re.sub(rf"(?<![\w.]){DURATION}(?!\w)", lambda m: divided(m[0], factor), hidden)
    hidden = COUNTED.sub(lambda m: f"{m[1]} / {factor}", _bounds(hidden, factor))
    hidden = APPEARED.sub(lambda m: f"{m[1]} * {factor}", hidden)
    return re.sub(r'"(\d+)"', lambda match: strings[int(match[1])], hidden)


def _bounds(text: str, factor: int) -> str:
    parts, done = [], 0
    for match in BOUND.finditer(text):
        if CLOCK in _left(text[: match.start()]):
            parts += [text[done : match.end()], f" / {factor}"]
            done = match.end()
    return "".join([*parts, text[done:]])


def _left(text: str) -> str:
    """The operand that ends here. It begins at the opening bracket, or after `and`, `or` or
    `unless`.
    """
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[at], 0)
        if depth < 0 or (depth == 0 and SET_OPERATOR.match(text, at)):
            return text[at:]
    return text


def rules(document: dict, factor: int) -> dict:
    return {**document, "groups": [_group(group, factor) for group in document["groups"]]}


def _group(group: dict, factor: int) -> dict:
    made = [
        _fields({**rule, "expr": expression(str(rule["expr"]), factor)}, factor)
        for rule in group["rules"]
    ]
    return _fields({**group, "rules": made}, factor)


def _fields(entry: dict, factor: int) -> dict:
    return {
        name: divided(str(value), factor) if name in FIELDS else value
        for name, value in entry.items()
    }


def read(folder: Path) -> dict[str, dict]:
    files = sorted(folder.glob("*.rules.yaml"))
    return {file.name: yaml.safe_load(file.read_text()) for file in files}


def alerts(documents: dict[str, dict]) -> Iterator[dict]:
    for document in documents.values():
        for group in document["groups"]:
            yield from (rule for rule in group["rules"] if "alert" in rule)


def write(documents: dict[str, dict], folder: Path, factor: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        text = yaml.safe_dump(rules(document, factor), sort_keys=False, width=100)
        (folder / name).write_text(text)
