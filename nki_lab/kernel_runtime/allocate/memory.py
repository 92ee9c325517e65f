"""One memory as intervals of bytes with their last owners: where there is room now, and the owners before."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

FREE: Final = -1


class FreeIntervals:
    """A memory seen from partitions that are always occupied together.

    Interval i goes from `starts[i]` to the next start and belongs to `owners[i]`: the number of a buffer, FREE, or (-2,
    -3, ...) a group of placed buffers that share the bytes. A buffer has left when its last access lies before now.
    """

    __slots__ = ("groups", "last", "owners", "size", "starts")

    def __init__(self, size: int, last: list[int]) -> None:
        self.size = size
        self.last = last
        self.starts = [0, size]
        self.owners = [FREE, FREE]
        self.groups: list[tuple[int, ...]] = []

    def gap(self, start: int, size: int, now: int, limit: int, step: int) -> int:
        """Lowest multiple of `step` from `start` on with `size` free bytes that end by `limit`; -1 without one.

        `limit` is at most the size of the memory.
        """
        starts, owners, last = self.starts, self.owners, self.last
        at = -(-start // step) * step
        if at + size > limit:
            return -1
        row = bisect_right(starts, at) - 1
        while True:
            owner = owners[row]
            row += 1
            end = starts[row]
            if (owner >= 0 and last[owner] >= now) or (owner < FREE and self._busy(owner, now)):
                if end > at:
                    at = -(-end // step) * step
                    if at + size > limit:
                        return -1
            elif end >= at + size:
                return at

    def put(self, number: int, start: int, end: int, now: int) -> list[int]:
        """Give bytes `start` to `end` to a buffer; return the owners of these bytes until now, also those that left."""
        starts, owners = self.starts, self.owners
        first = bisect_right(starts, start) - 1
        after = bisect_left(starts, end, first)
        found = owners[first:after]
        last = self.last
        if min(found) >= FREE and not any(last[owner] >= now for owner in found if owner >= 0):
            # Everybody has left: one interval takes the place of all, with what remains of the outer two.
            bounds, given = [start], [number]
        else:
            bounds = [max(starts[row], start) for row in range(first, after)]
            given = [number if not self._busy(one, now) else self._group(one, number, now) for one in found]
        if starts[first] < start:
            bounds.insert(0, starts[first])
            given.insert(0, found[0])
        if starts[after] > end:
            bounds.append(end)
            given.append(found[-1])
        starts[first:after] = bounds
        owners[first:after] = given
        return [one for owner in found if owner != FREE for one in self._members(owner)]

    def _members(self, owner: int) -> tuple[int, ...]:
        if owner >= 0:
            return (owner,)
        return () if owner == FREE else self.groups[-owner - 2]

    def _busy(self, owner: int, now: int) -> bool:
        return any(self.last[one] >= now for one in self._members(owner))

    def _group(self, owner: int, number: int, now: int) -> int:
        self.groups.append((*[one for one in self._members(owner) if self.last[one] >= now], number))
        return -len(self.groups) - 1


def _end_of(span: tuple[int, int]) -> int:
    return span[1]


class Memory:
    """The intervals of all partitions of one memory. `parts` counts the sets of partitions that differ."""

    __slots__ = ("parts",)

    def __init__(self, size: int, last: list[int], parts: int) -> None:
        self.parts = [FreeIntervals(size, last) for _ in range(parts)]

    def find(
        self,
        parts: Sequence[int],
        start: int,
        size: int,
        now: int,
        limit: int,
        step: int,
        blocked: Sequence[tuple[int, int]] = (),
    ) -> int:
        """Return `FreeIntervals.gap` in all of `parts`, outside the `blocked` (start, end), sorted and apart."""
        if len(parts) == 1 and not blocked:
            return self.parts[parts[0]].gap(start, size, now, limit, step)
        at, agreed, turn = start, 0, 0
        while agreed < len(parts):
            found = self.parts[parts[turn]].gap(at, size, now, limit, step)
            if found < 0:
                return -1
            agreed = agreed + 1 if found == at else 1
            at = found
            turn = (turn + 1) % len(parts)
            if agreed == len(parts):
                row = bisect_right(blocked, at, key=_end_of)
                while row < len(blocked) and blocked[row][0] < at + size:
                    at, agreed = blocked[row][1], 0
                    row += 1
        return at

    def put(self, parts: Sequence[int], number: int, start: int, end: int, now: int) -> set[int]:
        """`FreeIntervals.put` in all of `parts`."""
        return {other for part in parts for other in self.parts[part].put(number, start, end, now)}
