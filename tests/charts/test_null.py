"""Sets every key to null, which must have the same effect as an empty value or be rejected with the
key's name.

Helm removes such keys before schemas and templates see them.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

from charts import renders
from stack.rendering import BASES, default_values, helm

Key = tuple[str, ...]
PARTS = ("service", "gateway", "node-tuning", "monitoring")
OPEN = {"startup", "readiness", "liveness", "sysctls", "selector", "annotations", "config"}
OPEN |= {"limits", "requests"}
"""Here null removes a default, so no key is required."""
INTERNALS = ("nil pointer", "wrong type", "error calling", "incompatible types", "parse error")

ALONE = [
    renders.Case(chart, chart, files=[str(file) for file in BASES.get(chart, ())])
    for chart in (*PARTS, "loadtest")
]
WHOLE = [
    case
    for case in renders.cases()
    if case.name.endswith(("-all", "-other", "-api", "-standalone", "-tuning"))
]
"""Cases whose templates read otherwise unused values."""


def keys(values: dict, prefix: Key = ()) -> Iterator[tuple[Key, object]]:
    for name, value in values.items():
        yield (*prefix, name), value
        if isinstance(value, dict):
            yield from keys(value, (*prefix, name))


def defaults(chart: str) -> dict[Key, object]:
    found: dict[Key, object] = {}
    for part in PARTS if chart == "corelane" else ():
        found |= {(part, *key): value for key, value in keys(default_values(part))}
    return found | dict(keys(default_values(chart)))


@cache
def arguments(case: renders.Case) -> list:
    """Cached, because the file must not be rewritten while Helm reads it."""
    return case.arguments()


@cache
def rendered(case: renders.Case, *settings: str) -> tuple[int, str]:
    """Returns status, and output or error."""
    sets = [argument for setting in settings for argument in ("--set-json", setting)]
    result = helm("template", "corelane", *arguments(case), *sets)
    return result.returncode, result.stderr if result.returncode else result.stdout


def fault(case: renders.Case, key: Key, default: object) -> str | None:
    path = ".".join(part.replace(".", r"\.") for part in key)
    status, text = rendered(case, f"{path}=null")
    if status:
        named = f"'{key[-1]}'" in text or ".".join(key) in text or "/".join(("", *key)) in text
        internal = any(each in text for each in INTERNALS)
        return text if internal or not named else None
    if default in ("", {}) or isinstance(default, list):
        empty = "[]" if isinstance(default, list) else str(default) or '""'
        same = (status, text) == rendered(case, f"{path}={empty}")
        return None if same else "null differs from the empty value"
    return None if OPEN.intersection(key[-3:]) else "null was taken instead of a value"


def faults(case: renders.Case, tried: dict[Key, object]) -> dict[str, str]:
    arguments(case)
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda key: fault(case, key, tried[key]), tried)
        return {".".join(key): words for key, words in zip(tried, found, strict=True) if words}


@pytest.mark.fast
@pytest.mark.parametrize(
    ("chart", "key"),
    [
        ("service", "memory"),
        ("service", "runtime"),
        ("service", "nameOverride"),
        ("service", "podLabels"),
        ("gateway", "listener.headers"),
        ("gateway", "imagePullSecrets"),
        ("corelane", "service"),
        ("corelane", "node-tuning.enabled"),
        ("corelane", "gateway.upstream.serverIdleTimeout"),
        ("corelane", "service.config"),
    ],
)
def test_null_is_empty_or_refused(chart: str, key: str) -> None:
    case = next((each for each in ALONE if each.name == chart), renders.Case(chart, chart))
    path = tuple(key.split("."))
    assert fault(case, path, defaults(chart)[path]) is None


@pytest.mark.nightly
@pytest.mark.parametrize("case", ALONE, ids=lambda case: case.name)
def test_every_key_may_be_null_or_is_refused(case: renders.Case) -> None:
    assert faults(case, defaults(case.chart)) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("case", WHOLE, ids=lambda case: case.name)
def test_null_is_empty_where_everything_is_used(case: renders.Case) -> None:
    found = defaults(case.chart).items()
    empty = {key: each for key, each in found if each in ("", {}) or isinstance(each, list)}
    assert faults(case, empty) == {}
