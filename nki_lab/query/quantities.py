"""Times and sizes as editors show them."""

from __future__ import annotations


def nanoseconds(value: float) -> str:
    """Return a time with three significant digits; `value` is in nanoseconds."""
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if value >= size * 0.9995:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} ns"


def kibibytes(count: int) -> str:
    """Return a number of bytes: in KiB from 1,024 on."""
    return f"{count / 1024:.4g} KiB" if count >= 1024 else f"{count} B"
