"""A heap of pairs of numbers as machine code has it: numba's own takes half as long again.

The interpreter has `heapq`, and takes the same pairs in the same order, as no two of them are equal.
"""

from __future__ import annotations

Pair = tuple[int, int]


def push(heap: list[Pair], pair: Pair) -> None:
    """Add a pair to a heap."""
    heap.append(pair)
    place = len(heap) - 1
    while place > 0:
        above = (place - 1) >> 1
        other = heap[above]
        if not (pair[0] < other[0] or (pair[0] == other[0] and pair[1] < other[1])):
            break
        heap[place] = other
        place = above
    heap[place] = pair


def pop(heap: list[Pair]) -> Pair:
    """Take the smallest pair from a heap that has one."""
    pair = heap.pop()
    count = len(heap)
    if count == 0:
        return pair
    first = heap[0]
    place, below = 0, 1
    while below < count:
        other = heap[below]
        if below + 1 < count:
            beside = heap[below + 1]
            if beside[0] < other[0] or (beside[0] == other[0] and beside[1] < other[1]):
                below += 1
                other = beside
        if not (other[0] < pair[0] or (other[0] == pair[0] and other[1] < pair[1])):
            break
        heap[place] = other
        place, below = below, 2 * below + 1
    heap[place] = pair
    return first
