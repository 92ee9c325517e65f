"""Tensors: strided views of buffers, with the whole view algebra of the NKI language."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import NkiError
from nki_lab.isa.dtype import DType, dtype_of
from nki_lab.kernel_runtime.tensor import access, indirect, layout
from nki_lab.kernel_runtime.tensor.buffer import Buffer, InvalidBuffer, MemoryRegion, integer_of, row_major, sbuf
from nki_lab.kernel_runtime.tensor.indexing import resolve
from nki_lab.kernel_runtime.tensor.indirect import moved
from nki_lab.kernel_runtime.tensor.operators import TensorOperators, outside_kernel
from nki_lab.kernel_runtime.tensor.pattern import Sizes, is_dense
from nki_lab.kernel_runtime.tensor.refusal import describe, refuse, require_valid
from nki_lab.kernel_runtime.tensor.register import VirtualRegister
from nki_lab.kernel_runtime.tensor.strided_view import Indirect, Layout, StridedView

_new: Final = object.__new__


class NkiTensor(TensorOperators):
    """A strided view of a buffer; views share their buffer's storage, and making one computes nothing.

    Element (i0, i1, ...) lies at `offset + sum(strides[k] * ik)` in elements of `dtype` from the start of the storage.
    On-chip, dimension 0 is the partition dimension: an element's partition is that number divided by the elements of
    one partition. Refused operations raise coded errors: NKI303 bounds, NKI304 kinds of key, NKI305 layouts that would
    need a copy, NKI309 run-time addressing, NKI312 the partition dimension.
    """

    __slots__ = ()

    def __init__(
        self, shape: Any, dtype: Any, storage: Any = None, buffer: MemoryRegion | str = sbuf, name: str = ""
    ) -> None:
        """Make a whole tensor on `storage`, a Buffer; None makes a placeholder without values."""
        if storage is not None and not isinstance(storage, Buffer):
            raise TypeError(f"storage must be the buffer of a tensor, not {type(storage).__name__}")
        sizes = tuple(shape)
        self._dtype = dtype_of(dtype)
        if storage is None:
            storage = Buffer(-1, MemoryRegion(buffer), self._dtype, sizes, name=name)
        self._buffer = storage
        self._shape = sizes
        self._strides = row_major(sizes)
        self._offset = 0
        self._indirect = self._type = self._extra = None
        self._view = -1

    def is_contiguous(self) -> bool:
        """Return whether the elements are dense in row-major order, on-chip within each partition."""
        first = 1 if self._buffer.on_chip else 0
        return is_dense(self._shape[first:], self._strides[first:])

    def get_pattern(self) -> list[list[int]]:
        """Return `[[stride, count], ...]` of the dimensions, outermost first, as `ap` takes it."""
        return [[step, count] for step, count in zip(self._strides, self._shape, strict=True)]

    def is_indirect(self) -> bool:
        """Return whether a run-time index takes part in the view's addresses."""
        return self._indirect is not None

    def __getitem__(self, key: Any) -> NkiTensor:
        """Return the view that integers, slices, `nl.ds` and `...` address. Bounds are checked, never clipped."""
        if type(key) is tuple and len(key) == 2 and self._indirect is None:
            shape = self._shape
            rows, columns = key
            if len(shape) == 2 and type(rows) is slice and type(columns) is slice:
                # The commonest key, [a:b, c:d] in bounds, without the general machinery.
                a, b, c, d = rows.start, rows.stop, columns.start, columns.stop
                a, c = 0 if a is None else a, 0 if c is None else c
                b, d = shape[0] if b is None else b, shape[1] if d is None else d
                if (
                    rows.step is None
                    and columns.step is None
                    and type(a) is int
                    and type(b) is int
                    and type(c) is int
                    and type(d) is int
                    and 0 <= a < b <= shape[0]
                    and 0 <= c < d <= shape[1]
                ):
                    strides = self._strides
                    view = _new(NkiTensor)
                    view._buffer = self._buffer
                    view._shape = (b - a, d - c)
                    view._strides = strides
                    view._offset = self._offset + a * strides[0] + c * strides[1]
                    view._dtype = self._dtype
                    view._indirect = view._type = view._extra = None
                    view._view = -1
                    return view
        subscript = getattr(self._buffer.owner, "subscript", None)
        if subscript is not None:
            return subscript(self, key)  # type: ignore[no-any-return]
        faults: list[NkiError] = []
        sizes, steps, offset, index = resolve(self, key, faults)
        return make_view(self._failing(faults[0]) if faults else self._buffer, sizes, steps, offset, self._dtype, index)

    def _relaid(self, sizes: Sizes, steps: Sizes, index: Indirect | None) -> NkiTensor:
        """Return the view from the same first element with other sizes, strides and run-time index."""
        return make_view(self._buffer, sizes, steps, self._offset, self._dtype, index)

    def _failing(self, error: NkiError) -> Buffer:
        """Return the buffer of a view of this tensor that raises `error` when something uses its elements."""
        (fault,) = error.diagnostics
        locate = getattr(self._buffer.owner, "located", None)
        return InvalidBuffer(self._buffer, fault if locate is None else locate(fault))

    def __setitem__(self, key: Any, value: Any) -> None:
        """Copy `value` into the view `self[key]`."""
        target = self[key]
        require_valid(target)
        owner = self._buffer.owner
        if owner is None:
            raise outside_kernel(self, "an assignment")
        owner.assign(target, value)

    def __iter__(self) -> Iterator[NkiTensor]:
        if self._buffer.on_chip:
            raise refuse(
                "NKI304",
                f"iteration over the partitions of {describe(self)}",
                self,
                limit="HBM tensors are iterated along dimension 0, SBUF and PSUM tensors are not",
                help=f"loop over indices: for i in range({self._shape[0]}): tile[i:i + 1]",
            )
        return (self[position] for position in range(self._shape[0]))

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> NkiTensor:
        """Return elements start, start + step, ... before `end` along `dim`; 0 <= start < end <= the size."""
        number = layout.dimension(self, "slice", dim)
        view = self[_along(number, slice(start, end, step))]
        negative = next((bound for bound in map(integer_of, (start, end)) if bound is not None and bound < 0), None)
        if negative is None:
            return view
        error = refuse(
            "NKI303",
            f"slice: bound {negative} of dimension {number}",
            self,
            limit="0 <= start < end",
            help=f"count from the front: {negative + self._shape[number]}",
        )
        return make_view(
            self._failing(error),
            (*self._shape[:number], len(range(start, end, step)), *self._shape[number + 1 :]),
            view._strides,
            view._offset,
            self._dtype,
            view._indirect,
        )

    def select(self, dim: int, index: int | NkiTensor | VirtualRegister) -> NkiTensor:
        """Return the view at `index`, an integer, a (1, 1) SBUF tensor or a register, along `dim`, which is dropped.

        Dimension 0 of an on-chip tensor stays with size 1, and is selected by integers only.
        """
        number = layout.dimension(self, "select", dim)
        position = None if isinstance(index, StridedView | VirtualRegister) else integer_of(index)
        if position is not None:
            if position < 0:
                raise refuse(
                    "NKI303",
                    f"select: index {position} of dimension {number}",
                    self,
                    limit=f"0 <= index < {self._shape[number]}",
                    help=f"count from the front: {position + self._shape[number]}",
                )
            return self[_along(number, position)]
        record = indirect.dynamic_select(self, number, index)
        sizes, steps, offset, _ = resolve(self, _along(number, 0))
        return make_view(self._buffer, sizes, steps, offset, self._dtype, record)

    def vector_select(self, dim: int, vector_offset: NkiTensor) -> NkiTensor:
        """Return a row of an HBM tensor for each index in `vector_offset`, in SBUF (partitions, 1); `dim` is 0."""
        sizes, record = indirect.vector_select(self, dim, vector_offset)
        return self._relaid(sizes, self._strides, record)

    def permute(self, dims: Sequence[int]) -> NkiTensor:
        """Return the view with its dimensions in the order `dims`."""
        order = layout.permute(self, dims)
        record = self._indirect
        if record is not None and record.frozen_dim is not None:
            record = moved(record, order.index(record.frozen_dim))
        return self._relaid(tuple([self._shape[k] for k in order]), tuple([self._strides[k] for k in order]), record)

    def broadcast(self, dim: int, size: int) -> NkiTensor:
        """Return the view with dimension `dim`, of size 1, repeated `size` times."""
        return self._relaid(*layout.broadcast(self, dim, size), self._indirect)

    def expand_dim(self, dim: int) -> NkiTensor:
        """Return the view with a new dimension of size 1 at position `dim`."""
        number, (sizes, steps) = layout.expand_dim(self, dim)
        return self._relaid(sizes, steps, self._shifted(number, 1))

    def squeeze_dim(self, dim: int) -> NkiTensor:
        """Return the view without dimension `dim`, of size 1; two dimensions stay on-chip, one in HBM."""
        number, (sizes, steps) = layout.squeeze_dim(self, dim)
        return self._relaid(
            sizes, steps, self._shifted(number, -1) if len(sizes) < len(self._shape) else self._indirect
        )

    def reshape_dim(self, dim: int, shape: Sequence[int]) -> NkiTensor:
        """Return the view with dimension `dim` split into `shape`, of which one size may be -1."""
        number, (sizes, steps) = layout.reshape_dim(self, dim, shape)
        grown = len(sizes) - len(self._shape)
        record = self._indirect
        if grown and record is not None:
            record = moved(record, None) if record.frozen_dim == number else self._shifted(number, grown)
        return self._relaid(sizes, steps, record)

    def flatten_dims(self, start_dim: int, end_dim: int) -> NkiTensor:
        """Return the view with dimensions start_dim..end_dim, both included, merged into one."""
        first, last, (sizes, steps) = layout.flatten_dims(self, start_dim, end_dim)
        record = self._indirect
        if record is not None and record.frozen_dim is not None and first < last and record.frozen_dim >= first:
            frozen = record.frozen_dim
            record = moved(record, None if frozen <= last else frozen - (last - first))
        return self._relaid(sizes, steps, record)

    def reshape(self, shape: Sequence[int]) -> NkiTensor:
        """Return the same elements in row-major order as `shape`; refused where that would need a copy."""
        return self._reordered(layout.reshape(self, shape))

    def rearrange(
        self, src_pattern: Sequence[Any], dst_pattern: Sequence[Any], fixed_sizes: dict[str, int] | None = None
    ) -> NkiTensor:
        """Return the dimensions that `src_pattern` names and splits, ordered and grouped as in `dst_pattern`."""
        return self._reordered(layout.rearrange(self, src_pattern, dst_pattern, fixed_sizes))

    def ap(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int | None = None,
        scalar_offset: NkiTensor | VirtualRegister | None = None,
        vector_offset: NkiTensor | None = None,
        indirect_dim: int = 0,
        dtype: Any = None,
    ) -> NkiTensor:
        """Return a view of the storage by explicit `[step, count]` pairs, outermost first, in elements of `dtype`.

        The pattern ignores this view's shape and strides; it starts at this view's offset plus `offset`. On-chip the
        first pair walks whole partitions. A run-time index moves the view by index times this view's stride of
        `indirect_dim`: `scalar_offset` for all elements, `vector_offset` in place of the leading step.
        """
        made, fault = access.access_pattern(self, pattern, offset, scalar_offset, vector_offset, indirect_dim, dtype)
        return make_view(self._buffer if fault is None else self._failing(fault), *made)

    def view(self, dtype: Any) -> NkiTensor:
        """Return the same bytes as `dtype`; the last dimension, which must be contiguous, is rescaled."""
        target = dtype_of(dtype)
        sizes, steps, offset = layout.reinterpret(self, target)
        return make_view(self._buffer, sizes, steps, offset, target, None)

    reinterpret_cast = view

    def indirect(self, index: NkiTensor, num_elem: int | None = None) -> NkiTensor:
        """Return columns at the free offsets in `index` (tensor indirection), shape (partitions, num_elem)."""
        (sizes, steps), record = indirect.gather(self, index, num_elem)
        return self._relaid(sizes, steps, record)

    def _shifted(self, position: int, by: int) -> Indirect | None:
        """Return the run-time record after `by` dimensions were inserted (or removed, if negative) at `position`."""
        record = self._indirect
        if record is None or record.frozen_dim is None or record.frozen_dim < position:
            return record
        return moved(record, None if record.frozen_dim == position and by < 0 else record.frozen_dim + by)

    def _reordered(self, sizes_and_steps: Layout) -> NkiTensor:
        """Return the view after a change of the whole layout, where only a vector's dimension 0 keeps its place."""
        record = self._indirect
        if record is not None and record.kind != "vector" and sizes_and_steps[0] != self._shape:
            record = moved(record, None)
        return self._relaid(*sizes_and_steps, record)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the values after everything issued so far."""
        require_valid(self)
        owner = self._buffer.owner
        if owner is None:
            raise outside_kernel(self, "reading values")
        return owner.read(self)  # type: ignore[no-any-return]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        values = self.numpy()
        return values if dtype is None else values.astype(dtype, copy=bool(copy))

    def _values(self) -> np.ndarray[Any, Any] | None:
        owner = self._buffer.owner
        return self.numpy() if self._buffer.fault is None and getattr(owner, "has_values", False) is True else None

    def __str__(self) -> str:
        values = self._values()
        return self._summary() if values is None else str(values)

    def __repr__(self) -> str:
        values = self._values()
        return self._summary() if values is None else f"{self._summary()}\n{values!r}"

    def _summary(self) -> str:
        name = f", name={self.name!r}" if self.name else ""
        return f"<tensor {self._shape} {self._dtype.name} in {self.buffer.value}{name}>"


def _along(dim: int, item: Any) -> tuple[Any, ...]:
    """Return the key that applies `item` to dimension `dim` and leaves the others whole."""
    return (*(slice(None),) * dim, item, Ellipsis)


def make_view(
    buffer: Buffer,
    shape: Sizes,
    strides: Sizes,
    offset: int,
    dtype: DType,
    indirect: Indirect | None = None,
) -> NkiTensor:
    """Return a tensor from its parts, unchecked: strides and offset in elements of `dtype`."""
    view = _new(NkiTensor)
    view._buffer = buffer
    view._shape = shape
    view._strides = strides
    view._offset = offset
    view._dtype = dtype
    view._indirect = indirect
    view._type = view._extra = None
    view._view = -1
    return view


def whole(buffer: Buffer) -> NkiTensor:
    """Return the fresh tensor that covers `buffer`."""
    return make_view(buffer, buffer.shape, row_major(buffer.shape), 0, buffer.dtype)
