"""Choosing elements by a mask, bit by bit, without a branch for each."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.alu import Array

_BLOCK: Final = 16_384
"""Elements at a time, whose temporaries stay in a processor's nearest caches."""


def blend(mask: NDArray[np.bool_], chosen: Any, other: Any, out: Array) -> None:
    """Write `chosen` where a mask holds and `other` elsewhere into `out`, which may be either of them.

    All broadcast to the shape of `out`. NumPy's `where` and `copyto` branch for each element: five times as slow where
    processors cannot foresee what a mask has next.
    """
    sides = [np.asarray(side) for side in (chosen, other)]
    if not out.ndim or any(side.dtype != out.dtype for side in sides) or out.itemsize not in (1, 2, 4, 8):
        np.copyto(out, np.where(mask, *sides))
        return
    kind = np.dtype(f"i{out.itemsize}")
    given, left = (np.broadcast_to(side.view(kind), out.shape) for side in sides)
    holds, into = np.broadcast_to(mask, out.shape), out.view(kind)
    rows = max(1, _BLOCK * len(out) // max(1, out.size))
    for start in range(0, len(out), rows):
        part = slice(start, start + rows)
        bits = holds[part].astype(kind)
        np.negative(bits, out=bits)  # 1 becomes all ones
        bits &= given[part] ^ left[part]
        np.bitwise_xor(bits, left[part], out=into[part])
