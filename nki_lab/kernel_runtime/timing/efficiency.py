"""The rate of transfers that follow each other without a pause, by the same costs and intervals as the walk."""

from __future__ import annotations

from functools import cache
from typing import Final

import nki_lab.isa.ops  # noqa: F401 - fills the table
from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import UINT8
from nki_lab.isa.spec import TABLE, Instruction, Use
from nki_lab.kernel_runtime.ir import Variant
from nki_lab.kernel_runtime.tensor import MemoryRegion, ViewType
from nki_lab.kernel_runtime.timing.costs import VariantCost, cost_of, picoseconds

SIZES: Final = tuple(32 << power for power in range(9))
"""Bytes of the runs at which `curve` is evaluated: 32 B to 8 KiB."""


def cadence(arch: Arch, cost: VariantCost) -> int:
    """Return the picoseconds from one transfer of an HBM tensor to the next that is like it; 0 for other instructions.

    The writer of descriptors, the issue interval of the tensor, and the engines each take one transfer at a time: the
    slowest of the three decides.
    """
    if not cost.engines:
        return 0
    spacing = picoseconds(arch.dma_issue_interval_ns) if cost.spaced else 0
    return max(cost.generation, spacing, cost.interval + picoseconds(arch.dma_engine_overhead_ns))


@cache
def curve(arch: Arch) -> tuple[tuple[int, float], ...]:
    """Return the bytes of a run and the share of the full rate that loads of one such run a partition reach."""
    return tuple((size, _share(arch, size)) for size in SIZES)


def _share(arch: Arch, size: int) -> float:
    copy = next(item for item in TABLE.values() if item.role == "copy" and "dma" in item.engines)
    cost = cost_of(arch, Variant(0, _load(copy, arch, size)))
    return cost.bytes / (arch.dma_engines * arch.dma_bytes_per_ns * cadence(arch, cost) / 1000)


def _load(copy: Instruction, arch: Arch, size: int) -> Use:
    """Return a copy of `size` bytes a partition from HBM to all partitions of SBUF."""
    shape, steps = (arch.pmax, size), (size, 1)
    places = {"dst": MemoryRegion.sbuf, "src": MemoryRegion.shared_hbm}
    types = {name: ViewType(-1, space, UINT8, shape, steps, 0, 0, 1, None) for name, space in places.items()}
    attrs = {name: item.default for name, item in copy.operands.items() if not item.is_tensor}
    return Use(copy, arch, types, attrs, {}, "dma")
