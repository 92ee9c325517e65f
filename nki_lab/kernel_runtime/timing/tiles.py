"""The Tensor Engine's array where instructions use parts of it: those that have no part in common run side by side."""

from __future__ import annotations

from nki_lab.kernel_runtime.timing.path import Columns

_WHOLE = -1


class ArrayTiles:
    """The instructions under way on the array, and when it is idle again.

    Instructions start in the order of their lane, each as soon as its part of the array is free. In the columns, which
    have one row at a time for a lane, a row lasts until the next one starts, or until the array is idle; all of that
    counts as its work. Results come when the instruction itself ends.
    """

    __slots__ = ("_busy", "_last", "until")

    def __init__(self) -> None:
        self._busy: list[tuple[int, int]] = []  # (blocks, end)
        self._last = -1
        self.until = 0

    def free(self, blocks: int, time: int) -> int:
        """Return when some blocks (0: all) are free, at `time` or later."""
        wanted = blocks or _WHOLE
        return max([time, *(end for other, end in self._busy if other & wanted)])

    def take(self, op: int, blocks: int, start: int, end: int) -> None:
        """An op has its blocks from `start`, which never goes back, to `end`."""
        self._busy = [item for item in self._busy if item[1] > start]
        self._busy.append((blocks or _WHOLE, end))
        self._last = op
        self.until = max(self.until, end)

    def cut(self, columns: Columns, time: int) -> None:
        """The next instruction wants the lane from `time` on: the row of the one before ends there at the latest."""
        last = self._last
        if last < 0:
            return
        duration, left = columns.duration[last], time - columns.start[last]
        if left < duration:
            columns.busy[last] = columns.busy[last] * left // duration
            columns.duration[last] = left
