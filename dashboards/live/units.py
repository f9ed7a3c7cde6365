"""Numbers with their units, as panels show them."""

import math

TIMES = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))

THOUSANDS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))

BINARY = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))

PLAIN = {"none": "", "short": "", "reqps": " req/s", "ops": " ops/s", "cps": " c/s", "percent": "%"}
"""Units whose sign stands behind the number; the others are calculated."""

DIGITS = 3


def show(value: float, unit: str = "none", decimals: int | None = None) -> str:
    """A number with its unit, in at most three digits unless `decimals` are asked for."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if unit == "s":
        return _scaled(value, TIMES, decimals)
    if unit == "ms":
        return _scaled(value / 1000, TIMES, decimals)
    if unit == "d":
        return _scaled(value * 86400, TIMES, decimals)
    if unit == "percentunit":
        return f"{number(value * 100, decimals)}%"
    if unit == "bytes":
        return _scaled(value, (*BINARY, (1, "B")), decimals)
    if unit == "Bps":
        return f"{_thousands(value, decimals, ' ')}B/s"
    if unit not in PLAIN:
        return f"{number(value, decimals)} {unit}"
    return f"{_thousands(value, decimals)}{PLAIN[unit]}"


def number(value: float, decimals: int | None = None) -> str:
    """A number without zeros that say nothing."""
    if decimals is not None:
        return f"{value:.{decimals}f}"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    text = f"{value:.{max(0, DIGITS - 1 - size)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _scaled(value: float, scale: tuple, decimals: int | None) -> str:
    if value == 0:
        return f"0 {scale[-1][1] if scale is not TIMES else 's'}"
    factor, sign = next((one for one in scale if abs(value) >= one[0]), scale[-1])
    return f"{number(value / factor, decimals)} {sign}"


def _thousands(value: float, decimals: int | None, space: str = "") -> str:
    # Four digits are still read at once.
    if abs(value) < 10_000:
        return f"{number(value, decimals)}{space}"
    factor, sign = next(one for one in THOUSANDS if abs(value) >= one[0])
    return f"{number(value / factor, decimals)}{space or ' '}{sign}"
