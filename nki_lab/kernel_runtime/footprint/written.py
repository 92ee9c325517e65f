"""The written part of a buffer, as rectangles while accesses are rectangles, and as a bitmap once they are not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nki_lab.kernel_runtime.footprint.rectangles import Rect
from nki_lab.kernel_runtime.footprint.runs import Mask
from nki_lab.kernel_runtime.ir import View
from nki_lab.kernel_runtime.tensor import Buffer

Bits = NDArray[np.uint8]

_NOTHING, _SOME, _ALL = 0, 1, 2


class WrittenPart:
    """The written part of one buffer."""

    __slots__ = ("bitmap", "columns", "left", "rects", "rows", "state", "unit")

    def __init__(self, buffer: Buffer, unit: int, state: int = _NOTHING) -> None:
        self.columns = buffer.row_elements if buffer.on_chip else buffer.shape[-1]
        self.rows = buffer.partitions * buffer.row_elements // self.columns
        self.unit = unit
        self.state = state
        self.rects: list[Rect] = []
        self.bitmap: Bits | None = None
        self.left = 0  # bytes of the bitmap that are still to be written, at least

    @property
    def complete(self) -> bool:
        """Whether all of the buffer is written."""
        return self.state == _ALL

    def write(self, view: View, rect: Rect | None) -> None:
        """Enter a view; `rect` is `rect_of` it."""
        if self.state == _ALL:
            return
        if view.full:
            self._whole()
            return
        self.state = _SOME
        if rect is not None and self.bitmap is None:
            self._add(rect)
            return
        part = self._strided(view)
        part[...] = 1
        self.left -= part.size
        if self.left <= 0 and self.bitmap is not None:
            self._look()

    def holds(self, view: View, rect: Rect | None) -> bool:
        """Whether every element of the view is written."""
        if self.state != _SOME:
            return self.state == _ALL
        if rect is not None and self.bitmap is None:
            p0, p1, c0, c1 = rect
            for a0, a1, b0, b1 in self.rects:
                if a0 <= p0 and p1 <= a1 and b0 <= c0 and c1 <= b1:
                    return True
            if not any(a0 < p1 and p0 < a1 and b0 < c1 and c0 < b1 for a0, a1, b0, b1 in self.rects):
                return False
        return bool(self._strided(view).all())

    def touches(self, view: View) -> bool:
        """Whether any element of the view is written."""
        return self.state == _ALL or (self.state == _SOME and bool(self._strided(view).any()))

    def mask(self, view: View) -> Mask:
        """One truth value for each element of the view: whether all of it is written."""
        bits = self._strided(view)
        return np.array(bits if self.unit == 1 else bits.all(axis=-1), dtype=bool)

    def missing(self) -> int:
        """Unwritten elements of the buffer."""
        if self.state == _ALL:
            return 0
        flat = self._bits()
        return int((flat.size - np.count_nonzero(flat)) // self.unit)

    def bits(self) -> Bits:
        """Return 1 for each written element of the buffer in order, or for each byte of it."""
        return np.ones(self.rows * self.columns * self.unit, np.uint8) if self.state == _ALL else self._bits()

    def widened(self, buffer: Buffer) -> WrittenPart:
        """Return the same part byte by byte."""
        wide = WrittenPart(buffer, buffer.dtype.nbytes, self.state)
        if self.state == _SOME:
            wide.bitmap = np.repeat(self._bits(), buffer.dtype.nbytes)
        return wide

    def _whole(self) -> None:
        self.state = _ALL
        self.rects = []
        self.bitmap = None

    def _add(self, new: Rect) -> None:
        merged = new
        rects = self.rects
        while rects:
            joined = _join(rects[-1], merged)
            if joined is None:
                break
            merged = joined
            rects.pop()
        if merged == (0, self.rows, 0, self.columns):
            self._whole()
            return
        rects.append(merged)
        if len(rects) > 16:
            self._bits()
            self._look()

    def _look(self) -> None:
        """See what is left; a look costs as much as the buffer is large."""
        flat = self._bits()
        self.left = flat.size - int(np.count_nonzero(flat))
        if not self.left:
            self._whole()

    def _bits(self) -> Bits:
        if self.bitmap is None:
            self.bitmap = np.zeros(self.rows * self.columns * self.unit, np.uint8)
            grid = self.bitmap.reshape(self.rows, self.columns * self.unit)
            for p0, p1, c0, c1 in self.rects:
                grid[p0:p1, c0 * self.unit : c1 * self.unit] = 1
            self.rects = []
        return self.bitmap

    def _strided(self, view: View) -> Bits:
        bits = self._bits()
        if view.type.dtype.nbytes == view.buffer.dtype.nbytes and self.unit == 1:
            return np.ndarray(view.type.shape, np.uint8, bits, view.offset, view.type.strides)
        width = view.type.dtype.nbytes
        strides = (*(step * width for step in view.type.strides), 1)
        return np.ndarray((*view.type.shape, width), np.uint8, bits, view.offset * width, strides)


def _join(a: Rect, b: Rect) -> Rect | None:
    """Two rectangles as one, where they share a side's whole length or one holds the other."""
    if a[0] == b[0] and a[1] == b[1] and a[2] <= b[3] and b[2] <= a[3]:
        return (a[0], a[1], min(a[2], b[2]), max(a[3], b[3]))
    if a[2] == b[2] and a[3] == b[3] and a[0] <= b[1] and b[0] <= a[1]:
        return (min(a[0], b[0]), max(a[1], b[1]), a[2], a[3])
    return a if a[0] <= b[0] and b[1] <= a[1] and a[2] <= b[2] and b[3] <= a[3] else None
