"""Memory of an executor: aligned blocks that its tensors take and give back, the large ones kept for the next run.

Memory that is new to the process has to be mapped and cleared page by page, which for a large matrix takes longer than
converting it. What a run will need is known before it is checked and timed: another thread maps it meanwhile, and
widens arguments.
"""

from __future__ import annotations

import _thread
import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from nki_lab.kernel_runtime.numerics.blas import Floats
from nki_lab.kernel_runtime.numerics.rounding import Array
from nki_lab.processors import processor_count

RESERVED: Final = 256 * 2**20
"""Bytes of large blocks that the process keeps between runs, at most."""

_LARGE: Final = 2**20  # bytes from which on a block is kept: smaller ones the C library keeps itself
_ALIGNMENT: Final = 64  # bytes: NumPy's vector loops are twice as fast on aligned tiles
_PIECE: Final = 4 * 2**20  # bytes that are mapped at a time: a run that ends does not wait for more
_STEP: Final = 1024  # bytes, a part of a page: NumPy keeps other threads waiting while it writes few numbers
_WIDENED: Final = 16 * 2**20
"""Bytes of arguments that are widened before the run, at most: of larger ones the product takes longer by far."""


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

    def sizes(self) -> list[int]:
        with self._lock:
            return [block.memory.nbytes for block in self._blocks]

    def give(self, blocks: Iterable[Block]) -> None:
        with self._lock:
            self._blocks += blocks
            total = sum(block.memory.nbytes for block in self._blocks)
            while total > RESERVED:
                total -= self._blocks.pop(0).memory.nbytes


_reserve: Final = _Reserve()


class _Ahead(NamedTuple):
    """A block that is filled before the run: with zeros for who asks for as many bytes, or with the values of `source`
    in float32 for who asks for that array by its `number`.
    """

    block: Block
    number: int = -1
    source: Array | None = None

    def fill(self, start: int) -> None:
        """Fill a piece of the block, from byte `start`."""
        if self.source is None:
            self.block.memory[start : start + _PIECE : _STEP] = 0
        else:
            values = self.source[start // 4 : (start + _PIECE) // 4]
            np.copyto(self.block.memory[start : start + 4 * len(values)].view(np.float32), values)


class _Mapped:
    """Large blocks of some sizes, and `widened` ones: a thread fills one after the other, until somebody takes them.

    A process that is forked meanwhile has no such thread, and gets none of them.
    """

    def __init__(self, sizes: Iterable[int], widened: Iterable[_Ahead] = ()) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._waiting = deque([*(_Ahead(_new_block(size)) for size in sizes), *widened])
        self._ready: list[_Ahead] = []
        self._current: _Ahead | None = None
        self._is_mapped = threading.Condition(self._lock)
        with suppress(RuntimeError):  # no thread can begin: the blocks are new ones, as without
            # Not `threading.Thread`: it waits until the thread runs, which may be milliseconds. This one is not counted
            # among Python's, and a copy of the process may be made beside it: it holds no lock that the copy asks for.
            _thread.start_new_thread(self._map, ())

    def _map(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    return
                item = self._current = self._waiting.popleft()
            for start in range(0, item.block.memory.nbytes, _PIECE):
                if self._current is item:
                    item.fill(start)
            with self._lock:
                if self._current is item:
                    self._ready.append(item)
                self._current = None
                self._is_mapped.notify_all()

    def take(self, size: int) -> Block | None:
        """Return a block of a size, after waiting for one that is being mapped; None where there is none."""

        def fits(item: _Ahead) -> bool:
            return item.source is None and item.block.memory.nbytes == size

        item, _ = self._taken(fits)
        return None if item is None else item.block

    def take_widened(self, number: int) -> Block | None:
        """Return the block with an array's values, after waiting while they are being widened; None where that has not
        begun.
        """
        item, is_filled = self._taken(lambda item: item.number == number)
        return item.block if item is not None and is_filled else None

    def _taken(self, fits: Callable[[_Ahead], bool]) -> tuple[_Ahead | None, bool]:
        """Remove a block that fits, and return it with whether it is filled; one that is being filled is waited for."""
        if self._process != os.getpid():
            return None, False
        with self._lock:
            self._is_mapped.wait_for(
                lambda: any(map(fits, self._ready)) or self._current is None or not fits(self._current)
            )
            for items in (self._ready, self._waiting):
                item = next(filter(fits, items), None)
                if item is not None:
                    items.remove(item)
                    return item, items is self._ready
        return None, False

    def close(self) -> None:
        """Leave the blocks that nobody took."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._waiting.clear()
            self._ready.clear()
            self._current = None


class Pool:
    """Blocks of one executor, given back when their tensors are dead and handed out again by size.

    `nbytes` are the bytes of all its blocks.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[Block]] = {}
        self._large: list[Block] = []
        self._mapped: _Mapped | None = None
        self.nbytes = 0

    def foresee(self, sizes: Iterable[int], narrow: Mapping[int, Array] = MappingProxyType({})) -> None:
        """Have large blocks of these sizes, in bytes, mapped by another thread until `take` asks for them, and `narrow`
        arrays widened to float32 until `take_widened` asks for them, by number.

        Blocks that earlier runs have left are mapped already, and at most as many bytes are mapped as are kept between
        runs. Of the arrays, flat and of a dtype that NumPy converts, it takes those that are small enough to pay. A
        thread would not help where there is one processor.
        """
        if self._mapped is not None or processor_count() == 1:
            return
        wanted, total = [], 0
        known = _reserve.sizes()
        for size in map(_rounded, sizes):
            if size in known:
                known.remove(size)
            elif size >= _LARGE and total + size <= RESERVED:
                wanted.append(size)
                total += size
        if not _LARGE <= 4 * sum(source.size for source in narrow.values()) <= _WIDENED:
            narrow = {}
        if wanted or narrow:
            with suppress(MemoryError):  # the blocks that are needed may have room one after the other
                widened = []
                for number, source in narrow.items():
                    size, block = _rounded(4 * source.size), None
                    if size in known:  # a block that the sizes above leave
                        known.remove(size)
                        block = _reserve.take(size)
                    widened.append(_Ahead(block or _new_block(size), number, source))
                self._mapped = _Mapped(wanted, widened)

    def take_widened(self, number: int) -> Block | None:
        """Return a block that begins with the foreseen array of a number in float32; None where there is none.

        It counts among this pool's until it is given to `give_up`.
        """
        block = None if self._mapped is None else self._mapped.take_widened(number)
        self.nbytes += 0 if block is None else block.memory.nbytes
        return block

    def give_up(self, blocks: Iterable[Block]) -> None:
        """Leave blocks from `take_widened` to the runs to come; nothing that still runs may use them."""
        blocks = list(blocks)
        self.nbytes -= sum(block.memory.nbytes for block in blocks)
        _reserve.give(blocks)

    def take(self, nbytes: int) -> Block:
        """Return a block of at least `nbytes` bytes; contents arbitrary."""
        size = _rounded(nbytes)
        free = self._free.get(size)
        return free.pop() if free else self.take_untouched(size)

    def take_untouched(self, nbytes: int) -> Block:
        """Return a block that no tensor of this executor has been in: nothing that is planned writes it."""
        size = _rounded(nbytes)
        block = _reserve.take(size) if size >= _LARGE else None
        if block is None and size >= _LARGE and self._mapped is not None:
            block = self._mapped.take(size)
        if block is None:
            block = _new_block(size)
        if size >= _LARGE:
            self._large.append(block)
        self.nbytes += size
        return block

    def forget_foreseen(self) -> None:
        """Let go of mapped blocks that nobody has asked for."""
        if self._mapped is not None:
            self._mapped.close()
            self._mapped = None

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
        self.forget_foreseen()
        large, self._large = self._large, []
        _reserve.give(large)
        self._free.clear()
        self.nbytes = 0


def _new_block(size: int) -> Block:
    raw = np.empty(size + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return Block(raw[start : start + size])


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT or _ALIGNMENT
