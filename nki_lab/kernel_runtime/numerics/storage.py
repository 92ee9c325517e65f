"""Storage of buffers in the host's memory, and the arrays that stand for views of them.

Three kinds of binding. A *shadow* holds any float dtype as float32 whose values lie on the dtype's grid. A *native*
array holds integers and booleans at true width. *Bytes* hold a buffer that is seen through several dtypes or shares
its place with another; every access converts. A binding is late: an elided load is a part of an HBM tensor, a PSUM
tile of a slab a part of the slab's matrix.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nki_lab.isa.dtype import BOOL, F32, TF32, DType
from nki_lab.kernel_runtime.ir import View
from nki_lab.kernel_runtime.numerics.pool import Block, Bound, Pool
from nki_lab.kernel_runtime.numerics.rounding import Array, from_shadow, round_to, to_shadow, to_storage
from nki_lab.kernel_runtime.tensor import Buffer

SHADOW: Final = 0
NATIVE: Final = 1
BYTES: Final = 2

_FLOAT32: Final = np.dtype(np.float32)
_UINT8: Final = np.dtype(np.uint8)

POISON_INTEGER: Final = 4
"""Number that fresh integer memory reads as, the sentinel of NKI's own simulator; floats read NaN."""


def kind_of(buffer: Buffer) -> int:
    """Return the binding of a buffer that is seen in its own dtype only."""
    return SHADOW if buffer.dtype.kind == "float" else NATIVE


def unit_of(kind: int, dtype: DType) -> np.dtype[Any]:
    """Return the NumPy dtype of a binding's `flat`."""
    if kind == SHADOW:
        return _FLOAT32
    return _UINT8 if kind == BYTES else dtype.storage


def strided(bound: Bound, dtype: DType, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """Return the elements of a view as an array of `shape`; strides in elements of the view's dtype.

    Shadow: float32. Native and bytes: the dtype's storage.
    """
    unit, row, pitch = bound.unit, bound.row, bound.pitch
    stored = bound.flat.dtype
    if bound.kind == BYTES:
        stored, size = dtype.storage, dtype.nbytes
        offset, strides = offset * size, tuple([step * size for step in strides])
    if pitch != row:
        rows, columns = divmod(offset, row)
        offset = rows * pitch + columns
        strides = tuple([step // row * pitch if step >= row and step % row == 0 else step for step in strides])
    return np.ndarray(shape, stored, bound.flat, (bound.base + offset) * unit, [step * unit for step in strides])


def view_array(bound: Bound, view: View) -> Array:
    """Return the elements of a view without run-time addresses."""
    return strided(bound, view.type.dtype, view.offset, view.type.shape, view.type.strides)


def buffer_array(bound: Bound, buffer: Buffer) -> Array:
    """Return the elements of a buffer, partition by partition."""
    row = buffer.row_elements
    return strided(bound, buffer.dtype, 0, (buffer.partitions, row), (row, 1))


def host_values(bound: Bound, dtype: DType, part: Array, *, on_grid: bool) -> Array:
    """Return an array of a binding as users see it: a copy in the host type; `on_grid`: nothing is left to round."""
    if bound.kind == SHADOW:
        return to_storage(part, dtype) if on_grid else from_shadow(np.ascontiguousarray(part), dtype)
    values = np.array(part)
    return values.view(np.bool_) if dtype is BOOL else values


def _dense(buffer: Buffer, kind: int, flat: Array) -> Bound:
    row = buffer.partition_bytes if kind == BYTES else buffer.row_elements
    return Bound(kind, flat.reshape(-1), 0, row, row)


def bytes_of(buffer: Buffer, kind: int) -> int:
    """Return the bytes of a dense binding of a buffer."""
    row = buffer.partition_bytes if kind == BYTES else buffer.row_elements
    return buffer.partitions * row * unit_of(kind, buffer.dtype).itemsize


def fresh(pool: Pool, buffer: Buffer, kind: int, *, untouched: bool = False) -> tuple[Bound, Block]:
    """Return a dense binding of a buffer and the pool block behind it; equal buffers in one block share theirs.

    In an `untouched` block no other tensor of the executor has been.
    """
    unit = unit_of(kind, buffer.dtype)
    row = buffer.partition_bytes if kind == BYTES else buffer.row_elements
    nbytes = bytes_of(buffer, kind)
    block = pool.take_untouched(nbytes) if untouched else pool.take(nbytes)
    key = (kind, unit, nbytes, row)
    bound = block.bindings.get(key)
    if bound is None:
        bound = block.bindings[key] = _dense(buffer, kind, block.memory[:nbytes].view(unit))
    return bound, block


def of_array(buffer: Buffer, values: Array, kind: int, pool: Pool) -> Bound:
    """Return the binding of a kernel argument: its own memory where it can be used as it is, else a converted copy."""
    dense = np.ascontiguousarray(values)
    if buffer.dtype is TF32:  # NumPy's float32 stands for it, plain or in a record of one field
        wide = dense.view(np.float32)
        dense = round_to(wide, TF32, out=np.empty_like(wide))
    if kind == SHADOW and buffer.dtype is not F32:
        dense = to_shadow(dense.reshape(-1), buffer.dtype, pool.take_untouched(4 * dense.size).floats(dense.size))
    elif kind == BYTES:
        dense = dense.view(np.uint8)
    elif kind == NATIVE and dense.dtype != buffer.dtype.storage:
        dense = dense.view(buffer.dtype.storage)
    return _dense(buffer, kind, dense)


def refill(bound: Bound, buffer: Buffer, values: Array) -> None:
    """Copy other values of a kernel argument into a binding that `of_array` made, or a copy of that."""
    dense = np.ascontiguousarray(values)
    if buffer.dtype is TF32:
        wide = dense.view(np.float32)
        round_to(wide, TF32, out=bound.flat.reshape(wide.shape))
    elif bound.kind == SHADOW and buffer.dtype is not F32:
        to_shadow(dense.reshape(-1), buffer.dtype, bound.flat)
    else:
        flat = dense.reshape(-1)
        np.copyto(bound.flat, flat if flat.dtype is bound.flat.dtype else flat.view(bound.flat.dtype))


def poison(bound: Bound, dtype: DType) -> None:
    """Fill a fresh binding so that reading it is noticed."""
    elements = bound.flat.view(dtype.storage) if bound.kind == BYTES else bound.flat
    elements[...] = np.nan if bound.kind == SHADOW or dtype.kind == "float" else POISON_INTEGER


def to_bytes(bound: Bound, buffer: Buffer, *, on_grid: bool) -> Bound:
    """Return the same contents bound as bytes; `on_grid`: a shadow's values need no rounding."""
    values = host_values(bound, buffer.dtype, buffer_array(bound, buffer), on_grid=on_grid)
    return _dense(buffer, BYTES, np.ascontiguousarray(values).view(np.uint8))
