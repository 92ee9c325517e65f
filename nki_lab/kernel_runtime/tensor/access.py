"""Explicit access patterns: `NkiTensor.ap`."""

from __future__ import annotations

import math
from typing import NamedTuple

from nki_lab.diagnostic import NkiError
from nki_lab.isa.dtype import DType, dtype_of
from nki_lab.kernel_runtime.tensor.buffer import integer_of
from nki_lab.kernel_runtime.tensor.indirect import require_direct, scalar_index, vector_index
from nki_lab.kernel_runtime.tensor.pattern import Sizes, extent
from nki_lab.kernel_runtime.tensor.refusal import refuse
from nki_lab.kernel_runtime.tensor.register import VirtualRegister
from nki_lab.kernel_runtime.tensor.strided_view import Indirect, Kind, StridedView
from nki_lab.printable import shown

Bounded = tuple[Indirect, NkiError | None]
"""A run-time index, and the fault where no value of it keeps the pattern inside of the storage."""


Access = tuple[Sizes, Sizes, int, DType, Indirect | None]
"""Shape, strides, offset, dtype and run-time index of the view that `ap` makes, in elements of the dtype."""


class Walk(NamedTuple):
    """The elements that a pattern reaches from element `start` of a tensor's storage, of `row` elements a partition."""

    tensor: StridedView
    counts: Sizes
    steps: Sizes
    start: int
    row: int

    def fault(self) -> NkiError | None:
        """Return the fault of a walk that leaves the storage, on-chip its own partition; None where it stays inside."""
        counts, steps, start = self.counts, self.steps, self.start
        whole, where = f", the storage has {self.row}", ""
        if self.tensor._buffer.on_chip:
            partitions = self.tensor._buffer.partitions
            partition, start = divmod(start, self.row)
            if partition < 0 or partition + counts[0] > partitions:
                return refuse(
                    "NKI303",
                    f"ap: {counts[0]} partitions from partition {partition}, the storage has {partitions}",
                    self.tensor,
                    limit=f"start partition + partitions <= {partitions}",
                )
            counts, steps = counts[1:], steps[1:]
            whole, where = f" of a partition that holds {self.row}", " in each partition"
        low, high = extent(start, counts, steps)
        if low >= 0 and high < self.row:
            return None
        return refuse(
            "NKI303",
            f"ap: the pattern reaches from element {low} to {high}{whole}",
            self.tensor,
            limit=f"0 <= element < {self.row}{where}",
        )


def access_pattern(
    tensor: StridedView,
    pattern: object,
    offset: object,
    scalar_offset: object,
    vector_offset: object,
    indirect_dim: object,
    dtype: object,
) -> tuple[Access, NkiError | None]:
    """Return the view `tensor.ap(...)` over the tensor's storage, and its fault; see `NkiTensor.ap`."""
    require_direct(tensor, "ap")
    target = tensor._dtype if dtype is None else dtype_of(dtype)
    steps, counts = _pairs(tensor, pattern)
    start = _start(tensor, offset, target)
    row = _row(tensor, target)
    if tensor._buffer.on_chip and steps[0] == _columns(tensor, target):
        steps = (row, *steps[1:])
    if tensor._buffer.on_chip and counts[0] != 1 and steps[0] != row:
        raise refuse(
            "NKI305",
            f"ap: the partition step is {steps[0]}, a partition of this storage holds {row} {target.name}",
            tensor,
            limit="the first step equals the elements of one partition of the storage",
            help=f"write [{row}, {counts[0]}] as the first pair",
        )
    walk = Walk(tensor, counts, steps, start, row)
    if scalar_offset is None and vector_offset is None:
        return (counts, steps, start, target, None), walk.fault()
    if scalar_offset is not None and vector_offset is not None:
        raise refuse(
            "NKI309",
            "ap: both scalar_offset and vector_offset are given",
            tensor,
            limit="at most one of scalar_offset and vector_offset",
        )
    dim = integer_of(indirect_dim)
    if dim is None or not 0 <= dim < len(tensor._shape):
        raise refuse(
            "NKI309",
            f"ap: indirect_dim is {shown(indirect_dim)}",
            tensor,
            limit=f"indirect_dim is a dimension of the tensor ap() is called on: 0..{len(tensor._shape) - 1}",
        )
    stride = _scale(tensor, dim, target)
    record, fault = (
        _scalar(walk, dim, stride, scalar_offset)
        if vector_offset is None
        else _vector(walk, dim, stride, vector_offset)
    )
    return (counts, steps, start, target, record), fault


def _pairs(tensor: StridedView, pattern: object) -> tuple[Sizes, Sizes]:
    """Return the steps and counts of `pattern`."""
    steps, counts = [], []
    if isinstance(pattern, tuple | list) and pattern:
        for pair in pattern:
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                break
            step, count = integer_of(pair[0]), integer_of(pair[1])
            if step is None or count is None or count < 1:
                break
            steps.append(step)
            counts.append(count)
        else:
            return tuple(steps), tuple(counts)
    raise refuse(
        "NKI305",
        f"ap: pattern is {shown(pattern)}",
        tensor,
        limit="a pattern is a list of [step, count] pairs of integers, outermost first, count >= 1",
        help="for example [[512, 128], [1, 512]]",
    )


def _start(tensor: StridedView, offset: object, dtype: DType) -> int:
    """Return the first element of the pattern, in elements of `dtype`: the view's own offset plus `offset`."""
    base, odd = divmod(tensor._offset * tensor._dtype.nbytes, dtype.nbytes)
    if odd:
        raise refuse(
            "NKI305",
            f"ap: offset {tensor._offset} of the view is no whole number of {dtype.name} elements",
            tensor,
            limit=f"the view starts at a multiple of {dtype.nbytes} bytes",
        )
    if offset is None:
        return base
    added = integer_of(offset)
    if added is None:
        raise refuse(
            "NKI304",
            f"ap: offset is {shown(offset)}",
            tensor,
            limit="offset is a compile-time integer or None",
            help="a run-time offset goes into scalar_offset= or vector_offset=",
        )
    return base + added


def _row(tensor: StridedView, dtype: DType) -> int:
    """Return the elements of `dtype` in one partition of the storage; in HBM, in all of it."""
    row, odd = divmod(tensor._buffer.partition_bytes, dtype.nbytes)
    if odd and tensor._buffer.on_chip:
        raise refuse(
            "NKI305",
            f"ap: a partition of {tensor._buffer.partition_bytes} bytes is no whole number of {dtype.name} elements",
            tensor,
            limit=f"the bytes of a partition are a multiple of {dtype.nbytes}",
        )
    return row


def _columns(tensor: StridedView, dtype: DType) -> int:
    """Return the elements of `dtype` in one partition of the tensor that `ap` is called on, a part of its storage.

    guess: not documented, but AWS's library derives the partition step of views of a part of a tile from their shape,
    and its compiler takes that as a step of one partition.
    """
    return math.prod(tensor._shape[1:]) * tensor._dtype.nbytes // dtype.nbytes


def _scale(tensor: StridedView, dim: int, dtype: DType) -> int:
    """Return the elements of `dtype` that an index of 1 moves: the tensor's stride of `dim`, rescaled to the new dtype.

    guess: the unit under `dtype=` is not documented; scaling keeps the index counting the tensor's own rows.
    """
    stride, odd = divmod(tensor._strides[dim] * tensor._dtype.nbytes, dtype.nbytes)
    if odd or stride <= 0:
        raise refuse(
            "NKI309",
            f"ap: dimension {dim} of the tensor steps {tensor._strides[dim]} {tensor._dtype.name} elements",
            tensor,
            limit=f"an indexed dimension steps forward by a whole number of {dtype.name} elements",
        )
    return stride


def _vector(walk: Walk, dim: int, stride: int, vector_offset: object) -> Bounded:
    tensor, counts = walk.tensor, walk.counts
    index = vector_index(tensor, "ap", vector_offset, columns=True)
    if dim:
        raise refuse("NKI309", f"ap: vector_offset with indirect_dim {dim}", tensor, limit="indirect_dim is 0")
    if tensor._buffer.on_chip:
        raise refuse(
            "NKI309",
            f"ap: vector_offset on a tensor in {tensor._buffer.space.value}",
            tensor,
            limit="vector_offset gathers rows of HBM tensors only",
            help="gather inside SBUF with nc_n_gather, local_gather or indirect()",
        )
    if index.size < counts[0]:
        raise refuse(
            "NKI309",
            f"ap: {counts[0]} rows in the pattern, {index.size} indices in vector_offset",
            tensor,
            limit="one index for each step of the leading dimension",
            help="take as many rows in the pattern as there are indices",
        )
    return _bounded("vector", tensor, index, dim, stride, *extent(walk.start, counts[1:], walk.steps[1:]), walk.row)


def _scalar(walk: Walk, dim: int, stride: int, scalar_offset: object) -> Bounded:
    tensor, counts, steps, row = walk.tensor, walk.counts, walk.steps, walk.row
    index = scalar_index(tensor, "ap", scalar_offset)
    if not tensor._buffer.on_chip:
        return _bounded("scalar", tensor, index, dim, stride, *extent(walk.start, counts, steps), row)
    partition, first = divmod(walk.start, row)
    if dim == 0:
        if stride % row:
            raise refuse(
                "NKI309",
                f"ap: dimension 0 of the tensor steps {stride} elements, a partition holds {row}",
                tensor,
                limit="an indexed partition dimension steps by whole partitions",
            )
        static = walk._replace(counts=(1, *counts[1:]), steps=(row, *steps[1:]), start=first)
        low = partition * row
        high, total = low + (counts[0] - 1) * row, (tensor._buffer.partitions - 1) * row + 1
    else:
        static = walk._replace(counts=counts[:1], steps=(row,), start=partition * row)
        (low, high), total = extent(first, counts[1:], steps[1:]), row
    record, no_index = _bounded("scalar", tensor, index, dim, stride, low, high, total)
    return record, static.fault() or no_index


def _bounded(
    kind: Kind,
    tensor: StridedView,
    index: StridedView | VirtualRegister,
    dim: int,
    stride: int,
    low: int,
    high: int,
    total: int,
) -> Bounded:
    """Return the record whose index values keep elements low..high, moved by `value * stride`, within 0..total-1.

    The dimensions of a pattern are not those of the tensor, so a scalar index freezes none of them.
    """
    lowest, highest = -(low // stride), (total - 1 - high) // stride
    fault = None
    if highest < lowest:
        fault = refuse(
            "NKI303",
            f"ap: the pattern spans elements {low} to {high} of {total}; no index keeps it inside",
            tensor,
            limit=f"0 <= element < {total}",
        )
    return Indirect(
        kind=kind,
        index=index,
        stride=stride,
        dim=dim,
        extent=tensor._shape[dim],
        lowest=lowest,
        highest=highest,
        frozen_dim=dim if kind == "vector" else None,
    ), fault
