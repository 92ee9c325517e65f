"""Memory by address: of tensors that users placed, which share bytes where they overlap, and the whole chip's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.footprint import Box, box_of, boxes_overlap
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


class _Group:
    """Placed buffers that overlap, directly or through each other, and the memory that they cover."""

    __slots__ = ("arena", "box", "boxes", "members")

    def __init__(self, buffer: Buffer) -> None:
        self.members = [buffer]
        self.box = box_of(buffer)
        self.boxes = {self.box}
        self.arena: NDArray[np.uint8] | None = None

    def overlaps(self, box: Box) -> bool:
        """Whether a box shares bytes with a member."""
        return boxes_overlap(box, self.box) and any(boxes_overlap(box, own) for own in self.boxes)


class PlacedMemory:
    """The groups of overlapping placed buffers, memory by memory."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, int], dict[Box, _Group]] = {}
        self._of: dict[int, _Group] = {}

    def add(self, buffer: Buffer) -> Iterator[Buffer]:
        """Enter a buffer; yield every buffer that must (again) be bound to shared memory before it is accessed.

        A kernel with an allocator of its own places thousands of tiles on the same bytes: those take one look-up each.
        """
        groups = self._groups.setdefault((buffer.space.value, buffer.core), {})
        box = box_of(buffer)
        known = groups.get(box)
        if known is not None:
            if len(known.members) == 1:
                yield known.members[0]
            known.members.append(buffer)
            self._of[buffer.id] = known
            yield buffer
            return
        new = _Group(buffer)
        overlapped = [group for group in dict.fromkeys(groups.values()) if group.overlaps(box)]
        tops, bottoms, lefts, rights = zip(box, *(group.box for group in overlapped), strict=True)
        new.box = (min(tops), max(bottoms), min(lefts), max(rights))
        moved = self._join(new, overlapped)
        groups.update(dict.fromkeys(new.boxes, new))
        self._of[buffer.id] = new
        yield from moved
        if overlapped:
            yield buffer

    def _join(self, new: _Group, overlapped: list[_Group]) -> list[Buffer]:
        """Make the members of some groups those of a new one; return the members whose memory changes."""
        moved: list[Buffer] = []
        for group in overlapped:
            new.boxes |= group.boxes
            if group.arena is not None and group.box == new.box and new.arena is None:
                new.arena = group.arena
            elif group.arena is not None or len(group.members) == 1:  # others have no memory yet
                moved += group.members
            new.members = [*group.members, *new.members]
            self._of.update((member.id, new) for member in group.members)
        return moved

    def bind(self, buffer: Buffer) -> Bound:
        """Return the buffer's part of its group's memory; poisoned when it is made."""
        group = self._of[buffer.id]
        top, bottom, left, right = group.box
        width = right - left
        if group.arena is None:
            # All bits set: a NaN in every float width.
            group.arena = np.full((bottom - top) * width, 0xFF, np.uint8)
        first, _, byte, _ = box_of(buffer)
        return Bound(BYTES, group.arena, (first - top) * width + byte - left, buffer.partition_bytes, width)
