"""Pages for people name only series that there are."""

import re
import subprocess

import pytest

from dashboards.metrics import catalogue
from support import REPOSITORY

pytestmark = pytest.mark.fast

PARTS = catalogue.read()
LISTED = catalogue.by_name(PARTS)
NAMES = {*LISTED, *(series.name for series in LISTED.values())}
LABELS = {label for part in PARTS.values() for label in part.labels}

OTHERS = {"corelane_migrations"}
"""What has such a name and is no series: a table of the database."""

PAGES = subprocess.run(
    # The changelog names what was removed.
    ["git", "ls-files", "*.md", ":!CHANGELOG.md"],
    cwd=REPOSITORY,
    capture_output=True,
    text=True,
    check=True,
).stdout.split()


def unknown(text: str) -> list[str]:
    """The words that look like series and are none; one that ends in _ stands for all that begin so."""
    words = re.findall(r"(?<![\w:-])(?:[a-z_]+:)?(?:corelane|envoy)_[\w:]+", text)
    prefixes = tuple(prefix.name for part in PARTS.values() for prefix in part.prefixes)

    def known(word: str) -> bool:
        if word.endswith("_"):
            return any(name.startswith(word) for name in (*NAMES, *prefixes))
        return word in NAMES | LABELS | OTHERS

    return [word for word in words if not known(word.rstrip(":")) and "::" not in word]


@pytest.mark.parametrize("page", PAGES)
def test_series_that_are_named_are_there(page: str) -> None:
    assert unknown((REPOSITORY / page).read_text()) == []


def test_a_wrong_name_is_found() -> None:
    text = "`corelane_requests_total`, `corelane_cpu_`, `service:corelane_capacity_used:ratio`, "
    assert unknown(text + "`corelane_request_total`") == ["corelane_request_total"]
    assert unknown(text + "`service:corelane_capacity:ratio`") == [
        "service:corelane_capacity:ratio"
    ]
    assert unknown(text + "corelane_none_") == ["corelane_none_"]
