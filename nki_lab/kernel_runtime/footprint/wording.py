"""Sets of elements in words, for messages."""

from __future__ import annotations

from typing import Final

import numpy as np

from nki_lab.kernel_runtime.footprint.runs import Mask


def elements_of(mask: Mask, rows: str) -> str:
    """Return in words which elements of an operand are set, by its first dimension, whose indices are called `rows`.

    Those of the other dimensions are counted together. At least one element is set.
    """
    table = mask.reshape(len(mask), -1) if mask.ndim else mask.reshape(1, 1)
    if table.size > _MOST_ELEMENTS:
        return f"in {_numbers(np.flatnonzero(table.any(axis=1)), rows)}"
    kinds, first, kind = np.unique(table, axis=0, return_index=True, return_inverse=True)
    found = []
    for number in np.argsort(first):
        if kinds[number].any():
            where = _numbers(np.flatnonzero(kind.ravel() == number), rows)
            part = "" if kinds[number].all() else f"{_numbers(np.flatnonzero(kinds[number]), 'element')} of "
            found.append(part + where)
    return ", ".join(found[:_MOST]) + f", and others in {len(found) - _MOST} more ways" * (len(found) > _MOST)


def _numbers(numbers: np.ndarray[tuple[int], np.dtype[np.intp]], what: str) -> str:
    """Return numbers in ascending order as ranges: `partitions 0 to 31, 64 and 65`."""
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    shown = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs[:_MOST]]
    last = f" and {shown.pop()}" if len(shown) > 1 and len(runs) <= _MOST else ""
    more = f" and {len(runs) - _MOST} more ranges" * (len(runs) > _MOST)
    return f"{what}{'s' * (len(numbers) > 1)} {', '.join(shown)}{last}{more}"


_MOST: Final = 3
_MOST_ELEMENTS: Final = 1 << 22  # of more only the rows are told: the rest would take too long
