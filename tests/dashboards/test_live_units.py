"""How numbers of panels are written."""

import math

import pytest

from dashboards.live.units import show


@pytest.mark.parametrize(
    ("value", "unit", "decimals", "text"),
    [
        (0, "none", None, "0"),
        (3, "none", None, "3"),
        (3.14159, "none", None, "3.14"),
        (1234.5, "none", None, "1234"),
        (65536, "none", None, "65.5 k"),
        (1.5e9, "none", None, "1.5 G"),
        (2, "none", 2, "2.00"),
        (0.99871, "percentunit", 2, "99.87%"),
        (0.0005, "percentunit", None, "0.05%"),
        (-2.3, "percentunit", 0, "-230%"),
        (42, "percent", None, "42%"),
        (0, "s", None, "0 s"),
        (0.00045, "s", None, "450 µs"),
        (0.0123, "s", None, "12.3 ms"),
        (90, "s", None, "1.5 min"),
        (7 * 86400, "s", None, "7 d"),
        (-0.02, "s", None, "-20 ms"),
        (1500, "ms", None, "1.5 s"),
        (29, "d", None, "29 d"),
        (0.5, "d", None, "12 h"),
        (61.04, "reqps", None, "61 req/s"),
        (12_345, "reqps", None, "12.3 k req/s"),
        (0.07, "cps", None, "0.07 c/s"),
        (3, "ops", None, "3 ops/s"),
        (0, "bytes", None, "0 B"),
        (1536, "bytes", None, "1.5 KiB"),
        (30 << 20, "bytes", None, "30 MiB"),
        (320_000, "Bps", None, "320 kB/s"),
        (12, "Bps", None, "12 B/s"),
        (math.nan, "s", None, "NaN"),
        (math.inf, "s", None, "∞"),
        (5, "rotations", None, "5 rotations"),
    ],
)
def test_numbers_have_their_unit(value: float, unit: str, decimals: int | None, text: str) -> None:
    assert show(value, unit, decimals) == text
