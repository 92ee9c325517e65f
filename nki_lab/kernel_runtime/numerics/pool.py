"""Memory of an executor: aligned blocks that its tensors take and give back, the large ones kept for the next run.

Memory that is new to the process has to be mapped and cleared page by page, which for a large matrix takes longer than
converting it.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.numerics.blas import Floats
from nki_lab.kernel_runtime.numerics.rounding import Array

RESERVED: Final = 256 * 2**20
"""Bytes of large blocks that the process keeps between runs, at most."""

_LARGE: Final = 2**20  # bytes from which on a block is kept: smaller ones the C library keeps itself
_ALIGNMENT: Final = 64  # bytes: NumPy's vector loops are twice as fast on aligned tiles


class Bound:
    """A buffer's storage: `flat` in units of the binding, its first element at `base`, rows `pitch` units apart.

    `wide` says that its values are yet to be rounded onto the grid of their dtype.
    """

    __slots__ = ("base", "flat", "kind", "pitch", "row", "unit", "wide")

    def __init__(self, kind: int, flat: Array, base: int, row: int, pitch: int, *, wide: bool = False) -> None:
        self.kind = kind
        self.flat = flat
        self.base = base
        self.row = row
        self.pitch = pitch
        self.unit = flat.dtype.itemsize
        self.wide = wide


class Block:
    """Aligned memory as uint8. `bindings` are the ways in which tensors have lain in it."""

    __slots__ = ("bindings", "memory")

    def __init__(self, memory: Array) -> None:
        self.memory = memory
        self.bindings: dict[Hashable, Bound] = {}

    def floats(self, count: int) -> Floats:
        """Return the beginning of the block as `count` numbers."""
        return self.memory[: 4 * count].view(np.float32)


class _Reserve:
    """Large blocks that nobody uses, for any thread; the oldest are dropped first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks: list[Block] = []

    def take(self, size: int) -> Block | None:
        with self._lock:
            place = next((i for i, block in reversed([*enumerate(self._blocks)]) if block.memory.nbytes == size), None)
            return None if place is None else self._blocks.pop(place)

    def give(self, blocks: list[Block]) -> None:
        with self._lock:
            self._blocks += blocks
            total = sum(block.memory.nbytes for block in self._blocks)
            while total > RESERVED:
                total -= self._blocks.pop(0).memory.nbytes


_reserve: Final = _Reserve()


class Pool:
    """Blocks of one executor, given back when their tensors are dead and handed out again by size.

    `nbytes` are the bytes of all its blocks.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[Block]] = {}
        self._large: list[Block] = []
        self.nbytes = 0

    def take(self, nbytes: int) -> Block:
        """Return a block of at least `nbytes` bytes; contents arbitrary."""
        size = _rounded(nbytes)
        free = self._free.get(size)
        return free.pop() if free else self.take_untouched(size)

    def take_untouched(self, nbytes: int) -> Block:
        """Return a block that no tensor of this executor has been in: nothing that is planned writes it."""
        size = _rounded(nbytes)
        block = _reserve.take(size) if size >= _LARGE else None
        if block is None:
            raw = np.empty(size + _ALIGNMENT, np.uint8)
            start = -raw.ctypes.data % _ALIGNMENT
            block = Block(raw[start : start + size])
        if size >= _LARGE:
            self._large.append(block)
        self.nbytes += size
        return block

    def give(self, block: Block) -> None:
        """Put a block back; nothing that still runs may use it."""
        self._free.setdefault(block.memory.nbytes, []).append(block)

    def forget(self, block: Block) -> None:
        """Leave a block to whoever has an array in it."""
        self.nbytes -= block.memory.nbytes
        if block in self._large:
            self._large.remove(block)

    def close(self) -> None:
        """Leave the large blocks to the runs to come; nobody may use any of them now."""
        _reserve.give(self._large)
        self._large = []
        self._free.clear()
        self.nbytes = 0


def _rounded(nbytes: int) -> int:
    return max(_ALIGNMENT, -(-nbytes // _ALIGNMENT) * _ALIGNMENT)
