"""Run-time addressing: indices held in registers or SBUF that move a view while the kernel runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from nki_lab.kernel_runtime.tensor.buffer import MemoryRegion, integer_of
from nki_lab.kernel_runtime.tensor.pattern import normalise
from nki_lab.kernel_runtime.tensor.refusal import bad_dimension, partition_refusal, refuse, require_valid
from nki_lab.kernel_runtime.tensor.register import VirtualRegister
from nki_lab.kernel_runtime.tensor.strided_view import Indirect, Kind, Layout, StridedView

GATHER_GROUP: Final = 16
"""Partitions that share one list of offsets on the Vector, Scalar and GpSimd engines (`NkiTensor.indirect`)."""
TENSOR_ENGINE_GATHER_GROUP: Final = 32
"""The same on the Tensor engine."""
_PARTITIONS: Final = 128


def moved(indirect: Indirect, dim: int | None) -> Indirect:
    """Return the record after the frozen dimension went to `dim`."""
    return indirect if indirect.frozen_dim == dim else replace(indirect, frozen_dim=dim)


def require_direct(tensor: StridedView, operation: str) -> None:
    """Refuse a second run-time index on a view that has one."""
    if tensor._indirect is not None:
        raise refuse(
            "NKI309",
            f"{operation}: the view already has a run-time index ({tensor._indirect.kind})",
            tensor,
            limit="one run-time index per view",
            help="copy the first selection into a tile, then index the tile; is_indirect() tells",
        )


def require_no_gather(tensor: StridedView, operation: str) -> None:
    """Refuse to change the layout of a view made by `indirect`."""
    if tensor._indirect is not None and tensor._indirect.kind == "gather":
        raise refuse(
            "NKI309",
            f"{operation}: both dimensions of this view take part in its indirection",
            tensor,
            limit="a view made by indirect() goes to an instruction as it is",
            help=f"call {operation} before indirect()",
        )


def scalar_index(tensor: StridedView, operation: str, index: object) -> StridedView | VirtualRegister:
    """Check that `index` is a run-time scalar, a register or one integer in SBUF, and return it."""
    if isinstance(index, VirtualRegister):
        return index
    tile = _integer_tile(tensor, operation, index, "a register or a (1, 1) integer tensor in SBUF")
    if tile.size != 1:
        raise refuse(
            "NKI309",
            f"{operation}: the index has {tile.size} elements, shape {tile._shape}",
            tensor,
            limit="a scalar index is one element, shape (1, 1)",
            help="one index per partition is vector_select or ap(vector_offset=...)",
        )
    return tile


def vector_index(tensor: StridedView, operation: str, index: object, *, columns: bool = False) -> StridedView:
    """Check that `index` has one integer per partition of an SBUF tensor, and return it.

    With `columns` a full set of partitions may have several each, as a gathered `dma_transpose` reads them.
    """
    if isinstance(index, VirtualRegister):
        raise refuse(
            "NKI309",
            f"{operation}: the index is a register",
            tensor,
            limit="vector_offset is an SBUF tensor of shape (partitions, 1)",
            help="one run-time index for the whole view is select or ap(scalar_offset=...)",
        )
    tile = _integer_tile(tensor, operation, index, "an integer tensor in SBUF of shape (partitions, 1)")
    shape = tile._shape
    if tile.size != shape[0] and not (columns and shape[0] == _PARTITIONS and len(shape) == 2):
        raise refuse(
            "NKI309",
            f"{operation}: the vector of indices has shape {shape}",
            tensor,
            limit=f"one index per partition: shape (partitions, 1), or ({_PARTITIONS}, n) for dma_transpose",
            help="copy the indices into one column, or gather once for each column",
        )
    return tile


def _integer_tile(tensor: StridedView, operation: str, index: object, wanted: str) -> StridedView:
    if not isinstance(index, StridedView):
        found = f"{index!r}" if integer_of(index) is not None else f"a {type(index).__name__}"
        raise refuse(
            "NKI309",
            f"{operation}: the run-time index is {found}",
            tensor,
            limit=f"the index is {wanted}",
            help="an index known at compile time goes into offset= or into plain indexing",
        )
    require_valid(index)
    if index._buffer.space is not MemoryRegion.sbuf:
        raise refuse(
            "NKI309",
            f"{operation}: the index lies in {index._buffer.space.value}",
            tensor,
            limit=f"the index is {wanted}",
            help="copy it into SBUF with dma_copy, or load it into a register with register_load",
        )
    if not index._dtype.is_integer:
        raise refuse(
            "NKI309",
            f"{operation}: the index is {index._dtype.name}",
            tensor,
            limit=f"the index is {wanted}",
            help="make the index int32 or uint32",
        )
    return index


def dynamic_select(tensor: StridedView, dim: int, index: object) -> Indirect:
    """Return the record of `select(dim, index)` with a run-time index; the caller drops the dimension."""
    require_direct(tensor, "select")
    if dim == 0 and tensor._buffer.on_chip:
        raise partition_refusal(tensor, "select", "a run-time index cannot select partitions")
    return _along(tensor, "scalar", dim, scalar_index(tensor, "select", index), None)


def dynamic_slice(tensor: StridedView, dim: int, start: VirtualRegister, size: int) -> Indirect:
    """Return the record of the key `nl.ds(start, size)` at `dim` with a run-time start; the caller sets the size."""
    require_direct(tensor, "nl.ds")
    return _along(tensor, "scalar", dim, start, dim, size)


def _along(
    tensor: StridedView, kind: Kind, dim: int, index: StridedView | VirtualRegister, frozen: int | None, size: int = 1
) -> Indirect:
    """Return the record of an index that picks `size` elements of dimension `dim` inside of that dimension."""
    extent = tensor._shape[dim]
    return Indirect(
        kind=kind,
        index=index,
        stride=tensor._strides[dim],
        dim=dim,
        extent=extent,
        lowest=0,
        highest=extent - size,
        frozen_dim=frozen,
    )


def vector_select(tensor: StridedView, dim: object, vector_offset: object) -> tuple[tuple[int, ...], Indirect]:
    """Return the shape and record of `vector_select(dim, vector_offset)`."""
    require_direct(tensor, "vector_select")
    last = len(tensor._shape) - 1
    number = integer_of(dim)
    if number is None or not 0 <= number <= last:
        raise bad_dimension(tensor, "vector_select", dim, last)
    if number:
        raise refuse(
            "NKI309",
            f"vector_select: dim is {number}",
            tensor,
            limit="dim is 0",
            help="permute the dimension to the front of the HBM tensor first",
        )
    if tensor._buffer.on_chip:
        raise refuse(
            "NKI309",
            f"vector_select: the tensor lies in {tensor._buffer.space.value}",
            tensor,
            limit="vector_select gathers rows of HBM tensors only",
            help="gather inside SBUF with nc_n_gather, local_gather or indirect()",
        )
    index = vector_index(tensor, "vector_select", vector_offset)
    return (index._shape[0], *tensor._shape[1:]), _along(tensor, "vector", 0, index, 0)


def gather(tensor: StridedView, index: object, num_elem: object) -> tuple[Layout, Indirect]:
    """Return the layout and record of `indirect(index, num_elem)`; the generation is checked where the view is used.

    Without `num_elem` all offsets count: `index.size`, or, where that is more than any engine's group of partitions
    holds, those of one group of 16 partitions (guess: the documented default exceeds a group's list there).
    """
    require_direct(tensor, "indirect")
    require_valid(tensor)
    if not tensor._buffer.on_chip:
        raise refuse("NKI309", "indirect: the tensor lies in HBM", tensor, limit="tensor indirection is on-chip")
    tile = _integer_tile(tensor, "indirect", index, "an integer tensor in SBUF of shape (P, K)")
    partitions = tensor._shape[0]
    if tile._shape[0] != partitions:
        raise refuse(
            "NKI309",
            f"indirect: index has {tile._shape[0]} partitions, the tensor {partitions}",
            tensor,
            limit="index.shape[0] == tensor.shape[0]",
        )
    free, steps = normalise(tensor._shape[1:], tensor._strides[1:])
    if len(free) > 1:
        raise refuse(
            "NKI309",
            f"indirect: the free dimensions {tensor._shape[1:]} by {tensor._strides[1:]} have no single step",
            tensor,
            limit="offsets count along one free dimension",
            help="flatten_dims or slice to a two-dimensional view first",
        )
    columns = tile.size // partitions
    most = min(partitions, TENSOR_ENGINE_GATHER_GROUP) * columns
    if num_elem is None:
        count = tile.size if partitions <= TENSOR_ENGINE_GATHER_GROUP else GATHER_GROUP * columns
    else:
        count = integer_of(num_elem) or 0
    if not 1 <= count <= most:
        raise refuse(
            "NKI309",
            f"indirect: num_elem is {num_elem}",
            tensor,
            limit=f"1 <= num_elem <= {most}: offset i is index[i % group, i // group], group <= 32 partitions",
        )
    size, step = (free[0], steps[0]) if free else (1, 1)
    return ((partitions, count), (tensor._strides[0], 0)), Indirect(
        kind="gather",
        index=tile,
        stride=step,
        dim=1,
        extent=size,
        lowest=0,
        highest=size - 1,
        frozen_dim=1,
        num_elem=count,
    )
