"""The interned class of a view: all that legality and cost read of it, without buffer identity or place in HBM."""

from __future__ import annotations

import math
from typing import Final

from nki_lab.isa.arch import V3
from nki_lab.isa.dtype import DType
from nki_lab.kernel_runtime.tensor.buffer import MemoryRegion
from nki_lab.kernel_runtime.tensor.pattern import extent, is_dense, normalise

PSUM_BANK_BYTES: Final = V3.psum_bank_bytes
"""Bytes of a PSUM bank in one partition, the same on every generation: view types do not know the target."""


class ViewType:
    """One class of views; equal classes are the same object, `id` counts them from 0 in this process.

    `shape`, `strides` are the view's, in elements. On-chip: `partitions` and `start_partition` (physical where the
    buffer has an address, else counted from the tensor's own first partition), `partition_step` (1, more for strided
    partitions, 0 for one that is read for all of them), `free_*` describe one partition. In HBM `partitions` is 1 and
    all dimensions are free. `free_shape`, `free_strides` are merged (see `normalise`), empty for a single element;
    `free_size` counts the elements; `span_bytes` reaches from the first to the last byte of them. `contiguous` as
    `NkiTensor.is_contiguous`; `innermost_stride` is the stride of the last merged free dimension, 1 for a single
    element. `bank_offset` is the byte, modulo a PSUM bank, at which a PSUM view starts in its partition; 0 elsewhere.
    `indirect` is None, "scalar", "vector" or "gather". `placed` states whether the buffer has an address. `index` is
    the type of the tensor that holds run-time indices, None where there is none or a register holds it.
    """

    __slots__ = (
        "bank_offset",
        "contiguous",
        "dtype",
        "free_shape",
        "free_size",
        "free_strides",
        "id",
        "index",
        "indirect",
        "innermost_stride",
        "on_chip",
        "partition_step",
        "partitions",
        "placed",
        "shape",
        "space",
        "span_bytes",
        "start_partition",
        "strides",
    )

    def __init__(
        self,
        id: int,  # noqa: A002 - the contract's name
        space: MemoryRegion,
        dtype: DType,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        start_partition: int,
        bank_offset: int,
        partition_step: int,
        indirect: str | None,
        placed: bool = False,
        index: ViewType | None = None,
    ) -> None:
        self.id = id
        self.space = space
        self.dtype = dtype
        self.shape = shape
        self.strides = strides
        self.start_partition = start_partition
        self.bank_offset = bank_offset
        self.partition_step = partition_step
        self.indirect = indirect
        self.placed = placed
        self.index = index
        self.on_chip = space is MemoryRegion.sbuf or space is MemoryRegion.psum
        first = 1 if self.on_chip else 0
        self.partitions = shape[0] if self.on_chip else 1
        free, steps = shape[first:], strides[first:]
        self.free_shape, self.free_strides = normalise(free, steps)
        self.free_size = math.prod(free)
        self.contiguous = is_dense(free, steps)
        self.innermost_stride = self.free_strides[-1] if self.free_strides else 1
        low, high = extent(0, self.free_shape, self.free_strides)
        self.span_bytes = (high - low + 1) * dtype.nbytes

    def __repr__(self) -> str:
        place = f" partition {self.start_partition}" if self.on_chip else ""
        kind = f" {self.indirect}" if self.indirect else ""
        what = f"{self.shape} by {self.strides} {self.dtype.name} in {self.space.value}"
        return f"<view type {self.id}: {what}{place}{kind}>"
