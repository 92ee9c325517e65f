"""The formats of numbers that users read: times, sizes, shares and counts. Reports, views and editors have the same."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final, TypeVar

T = TypeVar("T", bound=Any)

THIN: Final = "\u202f"
"""Stands between thousands: a narrow space that does not break."""

TIMES: Final = ((1_000_000_000_000, "s"), (1_000_000_000, "ms"), (1_000_000, "µs"))
"""Units of time in picoseconds, the largest first. Shorter times are whole nanoseconds."""

SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB")
DIGITS: Final = 3
"""Significant digits of sizes and rates."""

WHOLE_PERCENT: Final = 9.95
"""From here on shares are whole percent, below they have one decimal."""

LEAST_PERCENT: Final = 0.05
"""Below it, a share that is not zero is "< 0.1"."""

_PRECISION: Final = Context(prec=DIGITS, rounding=ROUND_HALF_UP)
_TENTH: Final = Decimal("0.1")
_SMALL: Final = Decimal("0.000001")


def duration(picoseconds: int) -> str:
    """A time: whole nanoseconds below one microsecond, else two decimals of the largest unit that fits."""
    unit = unit_of(picoseconds)
    for unit_size, name in TIMES:
        if unit_size == unit:
            hundredths = whole(picoseconds * 100 / unit)
            return f"{number(hundredths // 100)}.{hundredths % 100:02} {name}"
    return f"{whole(picoseconds / 1000)} ns"


def nanoseconds(value: float) -> str:
    """A time that is given in nanoseconds."""
    return duration(whole(value * 1000))


def in_nanoseconds(picoseconds: T) -> T:
    """The nearest whole nanoseconds to whole picoseconds, a number or an array, for formats that take no fractions."""
    return (picoseconds + 500) // 1000


def unit_of(picoseconds: int) -> int:
    """The picoseconds of the unit in which a time is written."""
    nanoseconds = whole(picoseconds / 1000)
    return next((unit_size for unit_size, _ in TIMES if nanoseconds * 1000 >= unit_size), 1000)


def size(count: float) -> str:
    """Bytes: exact where whole, else three significant digits."""
    power, value = 0, float(count)
    while value >= 1024 and power + 1 < len(SIZES):
        power, value = power + 1, value / 1024
    return f"{value:.0f} {SIZES[power]}" if value == int(value) else f"{significant(value)} {SIZES[power]}"


def significant(value: float) -> str:
    """Three significant digits, or whole with thin spaces: "0.0213", "4.53", "1 230"; "1.4e-8" below a millionth."""
    if value >= 10**DIGITS - 0.5:
        return number(whole(value))
    rounded = _PRECISION.create_decimal_from_float(value)
    digits, e, power = f"{rounded:{'e' if 0 < rounded < _SMALL else 'f'}}".partition("e")
    return (digits.rstrip("0").rstrip(".") if "." in digits else digits) + e + power


def whole(value: float) -> int:
    """The nearest whole number; of two, the larger one, as pages have it too."""
    return math.floor(value + 0.5)


def decimal(value: float) -> str:
    """One decimal: "6.3"; of two that are as near the larger one, as pages have it too."""
    return str(Decimal(value).quantize(_TENTH, ROUND_HALF_UP))


def share(part: float) -> str:
    """A share of 1 in percent: whole from 10 on, below with one decimal."""
    return f"{percent(part)} %"


def percent(part: float) -> str:
    """A share of 1 in percent, without the sign."""
    percent = 100 * part
    if percent >= WHOLE_PERCENT:
        return str(whole(percent))
    if 0 < percent < LEAST_PERCENT:
        return "< 0.1"
    return decimal(percent) if percent else "0"


def number(value: int) -> str:
    """A count, with thin spaces between thousands."""
    return f"{value:,}".replace(",", THIN)


def ratio(part: float, whole: float) -> float:
    """`part` of `whole`; 0 of nothing."""
    return part / whole if whole else 0.0


def bounds(found: tuple[float, float] | None, picoseconds: int) -> str:
    """Two times as they stand behind another one, in its unit: ", 118 to 171"; nothing where there are none."""
    if found is None:
        return ""
    unit = unit_of(picoseconds)
    low, high = (significant(value / unit) for value in found)
    return f", {low} to {high}"
