"""gateway/configuration.md against the values that it speaks of."""

import json
import re

import pytest

from support import REPOSITORY
from support.rendering import default_values

pytestmark = pytest.mark.fast

PAGE = (REPOSITORY / "gateway" / "configuration.md").read_text()
VALUES = default_values("gateway")
ROWS = re.findall(r"^\| [^|]+ \| `([^`]+)` \| ([^|]+) \| [^|]*\|$", PAGE, re.MULTILINE)


def value_of(key: str) -> object:
    """The default of a dotted key."""
    value = VALUES
    for part in key.split("."):
        value = value[part]
    return value


@pytest.mark.parametrize(("key", "shown"), ROWS)
def test_a_default_is_as_the_page_says(key: str, shown: str) -> None:
    value = value_of(key)
    plain = isinstance(value, str) and value
    assert shown == (value if plain else json.dumps(value, separators=(",", ":")))


def test_every_value_that_faces_clients_or_replicas_is_on_the_page() -> None:
    named = {key for key, _ in ROWS}
    for part in ("listener", "overload", "rateLimit", "upstream.outliers", "upstream.limits"):
        for key in leaves(value_of(part), f"{part}."):
            assert key in named | {"listener.address", "listener.port"}, key


def leaves(values: dict, prefix: str) -> list[str]:
    """The dotted names of what is no map."""
    found = []
    for key, value in values.items():
        nested = isinstance(value, dict)
        found += leaves(value, f"{prefix}{key}.") if nested else [f"{prefix}{key}"]
    return found


def test_every_key_in_its_words_exists() -> None:
    keys = re.findall(r"`([a-z]\w*(?:\.[a-zA-Z]\w*)+)`", PAGE)
    files = {"values.yaml"}
    for key in set(keys) - files:
        value_of(key)
