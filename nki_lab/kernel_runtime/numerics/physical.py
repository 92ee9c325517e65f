"""SBUF and PSUM as the chip has them: every tensor at its address, so that what overlaps is overwritten."""

from __future__ import annotations

import numpy as np

from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.numerics.pool import Bound
from nki_lab.kernel_runtime.numerics.rounding import Array
from nki_lab.kernel_runtime.numerics.storage import BYTES
from nki_lab.kernel_runtime.tensor import Buffer, MemoryRegion


class PhysicalMemory:
    """The two memories of each core, and where an allocation put each tensor."""

    def __init__(self, arch: Arch, allocation: Allocation) -> None:
        self._allocation = allocation
        self._widths = {MemoryRegion.sbuf: arch.sbuf_partition_bytes, MemoryRegion.psum: arch.psum_partition_bytes}
        self._partitions = arch.pmax
        self._memories: dict[tuple[MemoryRegion, int], Array] = {}

    def bind(self, buffer: Buffer) -> Bound | None:
        """Return the buffer's place; None for one in HBM, or one that did not fit and stays in virtual memory."""
        partition, byte = int(self._allocation.partition[buffer.id]), int(self._allocation.byte[buffer.id])
        width = self._widths.get(buffer.space)
        if width is None or partition < 0:
            return None
        memory = self._memories.get((buffer.space, buffer.core))
        if memory is None:
            # All bits set: a NaN in every float width.
            memory = self._memories[buffer.space, buffer.core] = np.full(self._partitions * width, 0xFF, np.uint8)
        return Bound(BYTES, memory, partition * width + byte, buffer.partition_bytes, width)
