"""Where a buffer's values live in the host's memory, and the arrays that stand for views of it.

Three kinds of binding. A *shadow* holds any float dtype as float32 whose values lie on the dtype's grid. A *native*
array holds integers and booleans at true width. *Bytes* hold a buffer that is seen through several dtypes or shares
its place with another; every access converts. A binding is late: an elided load is a window into HBM, a PSUM tile of
a slab a window into the slab's matrix.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.dtype import BOOL, TF32, DType
from nki_lab.kernel_runtime.numerics.pool import Block, Pool
from nki_lab.kernel_runtime.numerics.rounding import from_shadow, round_to, to_shadow, to_storage
from nki_lab.kernel_runtime.tensor import Buffer

Array = NDArray[Any]

SHADOW: Final = 0
NATIVE: Final = 1
BYTES: Final = 2

POISON_INTEGER: Final = 4
"""What fresh integer memory reads as, the sentinel of NKI's own simulator; floats read NaN."""


class Bound:
    """A buffer's storage: `flat` in units of the binding, its first element at `base`, rows `pitch` units apart."""

    __slots__ = ("base", "flat", "kind", "pitch", "row", "unit")

    def __init__(self, kind: int, flat: Array, base: int, row: int, pitch: int) -> None:
        self.kind = kind
        self.flat = flat
        self.base = base
        self.row = row
        self.pitch = pitch
        self.unit = flat.dtype.itemsize


def kind_of(buffer: Buffer) -> int:
    """The binding of a buffer that is seen in its own dtype only."""
    return SHADOW if buffer.dtype.kind == "float" else NATIVE


def unit_of(kind: int, dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype of a binding's `flat`."""
    if kind == SHADOW:
        return np.dtype(np.float32)
    return np.dtype(np.uint8) if kind == BYTES else dtype.storage


def window(bound: Bound, dtype: DType, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """Return the elements of a view as an array of `shape`; strides in elements of the view's dtype.

    Shadow: float32. Native and bytes: the dtype's storage.
    """
    unit = bound.unit
    if bound.kind == BYTES:
        return _byte_window(bound, dtype, offset, shape, strides)
    if bound.pitch == bound.row:
        start = (bound.base + offset) * unit
        return np.ndarray(shape, bound.flat.dtype, bound.flat, start, [s * unit for s in strides])
    row, pitch = bound.row, bound.pitch
    rows, columns = divmod(offset, row)
    start = bound.base + rows * pitch + columns
    steps = [(s // row * pitch if s >= row and s % row == 0 else s) * unit for s in strides]
    return np.ndarray(shape, bound.flat.dtype, bound.flat, start * unit, steps)


def _byte_window(bound: Bound, dtype: DType, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    size, row, pitch = dtype.nbytes, bound.row, bound.pitch
    rows, columns = divmod(offset * size, row)
    start = bound.base + rows * pitch + columns
    steps = []
    for step in strides:
        width = step * size
        steps.append(width // row * pitch if width >= row and width % row == 0 else width)
    return np.ndarray(shape, dtype.storage, bound.flat, start, steps)


def host_values(bound: Bound, dtype: DType, part: Array, *, on_grid: bool) -> Array:
    """An array of a binding as users see it: a copy in the dtype's host type; `on_grid`: nothing is left to round."""
    if bound.kind == SHADOW:
        return to_storage(part, dtype) if on_grid else from_shadow(np.ascontiguousarray(part), dtype)
    values = np.array(part)
    return values.view(np.bool_) if dtype is BOOL else values


def fresh(pool: Pool, buffer: Buffer, kind: int) -> tuple[Bound, Block]:
    """A dense binding of a buffer and the pool block behind it; of equal buffers in one block it is the same one."""
    unit = unit_of(kind, buffer.dtype)
    row = buffer.row_elements if kind != BYTES else buffer.partition_bytes
    size = buffer.partitions * row
    block = pool.take(size * unit.itemsize)
    key = (kind, unit, size, row)
    bound = block.bindings.get(key)
    if bound is None:
        flat = block.memory[: size * unit.itemsize].view(unit)
        bound = block.bindings[key] = Bound(kind, flat, 0, row, row)
    return bound, block


def of_array(buffer: Buffer, values: Array, kind: int, pool: Pool) -> Bound:
    """The binding of a kernel argument: its own memory where it can be used as it is, else a converted copy."""
    dense = np.ascontiguousarray(values)
    if buffer.dtype is TF32:  # NumPy's float32 stands for it, plain or in a record of one field
        wide = dense.view(np.float32)
        dense = round_to(wide, TF32, out=np.empty_like(wide))
    if kind == SHADOW:
        if buffer.dtype.name == "float32":
            flat = dense
        else:
            workspace = pool.take_untouched(4 * dense.size).memory[: 4 * dense.size].view(np.float32)
            flat = to_shadow(dense.reshape(-1), buffer.dtype, workspace)
    elif kind == BYTES:
        flat = dense.view(np.uint8)
    else:
        flat = dense.view(buffer.dtype.storage) if dense.dtype != buffer.dtype.storage else dense
    flat = flat.reshape(-1)
    row = buffer.row_elements if kind != BYTES else buffer.partition_bytes
    return Bound(kind, flat, 0, row, row)


def poison(bound: Bound, dtype: DType) -> None:
    """Fill a fresh binding so that reading it is noticed."""
    if bound.kind == SHADOW or (bound.kind == NATIVE and dtype.kind == "float"):
        bound.flat.fill(np.nan)
    elif bound.kind == NATIVE:
        bound.flat.fill(POISON_INTEGER)
    elif dtype.kind == "float":
        bound.flat.view(dtype.storage)[...] = np.nan
    else:
        bound.flat.view(dtype.storage)[...] = POISON_INTEGER


def to_bytes(bound: Bound, buffer: Buffer, *, on_grid: bool) -> Bound:
    """The same contents bound as bytes; `on_grid`: a shadow's values need no rounding."""
    row = buffer.partition_bytes
    shape = (buffer.partitions, buffer.row_elements)
    part = window(bound, buffer.dtype, 0, shape, (buffer.row_elements, 1))
    values = host_values(bound, buffer.dtype, part, on_grid=on_grid)
    flat = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
    return Bound(BYTES, flat, 0, row, row)


def elements(shape: tuple[int, ...]) -> int:
    return math.prod(shape)
