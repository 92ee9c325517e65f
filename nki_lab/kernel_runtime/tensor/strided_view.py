"""The data of a tensor: a strided view of a buffer, with the run-time part of its address and its interned type."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from nki_lab.diagnostic import error_of
from nki_lab.isa.dtype import DType
from nki_lab.kernel_runtime.tensor.buffer import Address, Buffer, MemoryRegion
from nki_lab.kernel_runtime.tensor.register import VirtualRegister
from nki_lab.kernel_runtime.tensor.view_type import PSUM_BANK_BYTES, ViewType

Layout = tuple[tuple[int, ...], tuple[int, ...]]
"""Sizes and strides of the dimensions, outermost first."""

Kind = Literal["scalar", "vector", "gather"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Indirect:
    """The run-time part of a view's address.

    "scalar": every address moves by `value(index) * stride`. "vector": the term of dimension 0 is replaced by
    `index[p] * stride` for partition p. "gather" (tensor indirection): element (p, i) lies at
    `offset + p * strides[0] + list[i] * stride`, i < `num_elem`; the group of partition p keeps its list in `index`,
    list[i] at [i % group, i // group].

    `stride` counts elements of the view's dtype. `dim` is the indexed dimension of the tensor the index was applied to
    and `extent` its size. Index values from `lowest` to `highest` stay inside the storage (for select, vector_select
    and nl.ds inside the indexed dimension); others are refused when the kernel runs. `frozen_dim` is the dimension of
    the view that takes part in the indirection and is no more sliced or selected, None where it was removed.
    """

    kind: Kind
    index: StridedView | VirtualRegister
    stride: int
    dim: int
    extent: int
    lowest: int
    highest: int
    frozen_dim: int | None
    num_elem: int | None = None


class Shape(tuple[int, ...]):
    """Sizes of a tensor: a tuple that also equals a list of the same sizes."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, tuple(other) if type(other) is list else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


class StridedView:
    """Sizes, strides and offset of a view of a buffer, read by the algebra of views; `NkiTensor` adds operations."""

    __slots__ = ("_buffer", "_dtype", "_extra", "_indirect", "_offset", "_shape", "_strides", "_type", "_view")

    _buffer: Buffer
    _shape: tuple[int, ...]
    _strides: tuple[int, ...]
    _offset: int
    _dtype: DType
    _indirect: Indirect | None
    _type: ViewType | None
    _view: int
    _extra: Any

    @property
    def shape(self) -> Shape:
        return Shape(self._shape)

    @property
    def strides(self) -> tuple[int, ...]:
        return self._strides

    @property
    def offset(self) -> int:
        return self._offset

    @property
    def dtype(self) -> Any:
        """Return the NumPy-compatible dtype that `nki.language` names."""
        return self._dtype.host

    @property
    def itemsize(self) -> int:
        return self._dtype.nbytes

    @property
    def buffer(self) -> MemoryRegion:
        return self._buffer.space

    @property
    def name(self) -> str:
        return self._buffer.name

    @property
    def address(self) -> Address | None:
        return self._buffer.address

    @property
    def ndim(self) -> int:
        return len(self._shape)

    @property
    def size(self) -> int:
        return math.prod(self._shape)


_TYPES: dict[tuple[object, ...], ViewType] = {}
_PLAIN: dict[tuple[object, ...], ViewType] = {}  # the same ones, of views in HBM without run-time indices


def view_type(tensor: StridedView) -> ViewType:
    """Return the tensor's ViewType, found once and kept on the tensor; raises the fault of an invalid view."""
    known = tensor._type
    if known is not None:
        return known
    buffer = tensor._buffer
    if buffer.fault is not None:
        raise error_of(buffer.fault)
    dtype = tensor._dtype
    strides = tensor._strides
    indirect = tensor._indirect
    if indirect is None and not buffer.on_chip:  # the commonest: slices of arguments and results
        plain = (buffer.space, dtype, tensor._shape, strides)
        known = _PLAIN.get(plain)
        if known is None:
            known = _PLAIN[plain] = _interned((*plain, 0, 0, 1, None, False, None))
        tensor._type = known
        return known
    kind = None if indirect is None else indirect.kind
    start = bank = 0
    step = 1
    if buffer.on_chip:
        row = buffer.partition_bytes // dtype.nbytes
        start, free = divmod(tensor._offset, row)
        if buffer.address is not None:
            start += buffer.address[0]
        if buffer.space is MemoryRegion.psum:
            bank = free * dtype.nbytes
            if buffer.address is not None:
                bank += buffer.address[1]
            bank %= PSUM_BANK_BYTES
        if strides[0] != row and tensor._shape[0] != 1:
            step = strides[0] // row
    source = None if indirect is None else indirect.index
    index = None if source is None or isinstance(source, VirtualRegister) else view_type(source)
    key = (buffer.space, dtype, tensor._shape, strides, start, bank, step, kind, buffer.address is not None, index)
    tensor._type = known = _interned(key)
    return known


def _interned(key: tuple[Any, ...]) -> ViewType:
    known = _TYPES.get(key)
    if known is None:
        known = _TYPES.setdefault(key, ViewType(len(_TYPES), *key))
    return known
