"""Memory of an executor: aligned blocks that its tensors take and give back, the large ones kept for the next run.

Memory that is new to the process has to be mapped and cleared page by page, which for a large matrix takes longer than
converting it.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

RESERVED: Final = 256 * 2**20
"""Bytes of large blocks that the process keeps between runs, at most."""

_LARGE: Final = 2**20  # bytes from which on a block is kept: smaller ones the C library keeps itself
_ALIGNMENT: Final = 64  # bytes: NumPy's vector loops are twice as fast on aligned tiles


class Block:
    """Aligned memory as uint8. `bindings` are the ways in which tensors have lain in it."""

    __slots__ = ("bindings", "memory")

    def __init__(self, memory: Array) -> None:
        self.memory = memory
        self.bindings: dict[Any, Any] = {}


class _Reserve:
    """Large blocks that nobody uses, for any thread; those that came first go first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[Block] = []

    def take(self, size: int) -> Block | None:
        with self._lock:
            for place in range(len(self._held) - 1, -1, -1):
                if self._held[place].memory.nbytes == size:
                    return self._held.pop(place)
        return None

    def give(self, blocks: list[Block]) -> None:
        with self._lock:
            self._held += blocks
            total = sum(block.memory.nbytes for block in self._held)
            while total > RESERVED:
                total -= self._held.pop(0).memory.nbytes


_reserve: Final = _Reserve()


class Pool:
    """Blocks of one executor, given back when their tensors are dead and handed out again by size."""

    def __init__(self) -> None:
        self._free: dict[int, list[Block]] = {}
        self._large: list[Block] = []

    def take(self, nbytes: int) -> Block:
        """A block of at least `nbytes` bytes; contents arbitrary."""
        size = _rounded(nbytes)
        held = self._free.get(size)
        return held.pop() if held else self.take_untouched(size)

    def take_untouched(self, nbytes: int) -> Block:
        """A block that no tensor of this executor has been in: nothing that is planned writes it."""
        size = _rounded(nbytes)
        block = _reserve.take(size) if size >= _LARGE else None
        if block is None:
            raw = np.empty(size + _ALIGNMENT, np.uint8)
            start = -raw.ctypes.data % _ALIGNMENT
            block = Block(raw[start : start + size])
        if size >= _LARGE:
            self._large.append(block)
        return block

    def give(self, block: Block) -> None:
        """Put a block back; nothing that still runs may use it."""
        self._free.setdefault(block.memory.nbytes, []).append(block)

    def forget(self, block: Block) -> None:
        """Leave a block to whoever has an array in it."""
        if block in self._large:
            self._large.remove(block)

    def close(self) -> None:
        """Leave the large blocks to the runs to come; nobody may use any of them now."""
        large, self._large = self._large, []
        self._free.clear()
        _reserve.give(large)


def _rounded(nbytes: int) -> int:
    return max(_ALIGNMENT, -(-nbytes // _ALIGNMENT) * _ALIGNMENT)
