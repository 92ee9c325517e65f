"""Memory of tensors that users placed by address: those that overlap share their bytes, in every mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nki_lab.kernel_runtime.numerics.storage import BYTES, Bound
from nki_lab.kernel_runtime.tensor import Buffer


class _Group:
    """Placed buffers that overlap, directly or through each other, and the stretch of memory they cover."""

    __slots__ = ("arena", "box", "members")

    def __init__(self, buffer: Buffer) -> None:
        self.members = [buffer]
        self.box = box_of(buffer)
        self.arena: np.ndarray[Any, Any] | None = None

    @property
    def width(self) -> int:
        return self.box[3] - self.box[2]


def box_of(buffer: Buffer) -> tuple[int, int, int, int]:
    """(first partition, end, first byte, end) of a placed buffer."""
    assert buffer.address is not None
    partition, byte = buffer.address
    return (partition, partition + buffer.partitions, byte, byte + buffer.partition_bytes)


def _overlap(a: tuple[int, int, int, int], b: tuple[int, int, int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


class PlacedMemory:
    """The groups of overlapping placed buffers, memory by memory."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, int], list[_Group]] = {}
        self._of: dict[int, _Group] = {}

    def add(self, buffer: Buffer) -> Iterator[Buffer]:
        """Enter a buffer; gives every buffer that must (again) be bound to shared memory."""
        groups = self._groups.setdefault((buffer.space.value, buffer.core), [])
        new = _Group(buffer)
        box = box_of(buffer)
        for group in [g for g in groups if any(_overlap(box, box_of(member)) for member in g.members)]:
            groups.remove(group)
            new.members = [*group.members, *new.members]
            new.box = (
                min(new.box[0], group.box[0]), max(new.box[1], group.box[1]),
                min(new.box[2], group.box[2]), max(new.box[3], group.box[3]),
            )  # fmt: skip
            if group.arena is not None and group.box == new.box:
                new.arena = group.arena
        groups.append(new)
        for member in new.members:
            self._of[member.id] = new
        if len(new.members) > 1:
            yield from new.members

    def bind(self, buffer: Buffer) -> Bound:
        """The buffer's window into its group's memory; poisoned when it is made."""
        group = self._of[buffer.id]
        if group.arena is None:
            # All bits set: a NaN in every float width.
            group.arena = np.full((group.box[1] - group.box[0]) * group.width, 0xFF, np.uint8)
        first, _, byte, _ = box_of(buffer)
        base = (first - group.box[0]) * group.width + (byte - group.box[2])
        return Bound(BYTES, group.arena, base, buffer.partition_bytes, group.width)
