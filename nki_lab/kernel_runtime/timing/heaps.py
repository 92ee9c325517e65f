"""A heap of events as machine code has it: numba's own takes half as long again.

The interpreter has `heapq`, and takes the same events in the same order, as no two of them have the same time and code.
"""

from __future__ import annotations

Event = tuple[int, int, int]
"""Its time, what it is of which op, its lane."""


def push(heap: list[Event], event: Event) -> None:
    """Add an event to a heap."""
    heap.append(event)
    place = len(heap) - 1
    while place > 0:
        above = (place - 1) >> 1
        other = heap[above]
        if not (event[0] < other[0] or (event[0] == other[0] and event[1] < other[1])):
            break
        heap[place] = other
        place = above
    heap[place] = event


def replace(heap: list[Event], event: Event) -> Event:
    """Take the first event from a heap that has one, and add another one."""
    first = heap[0]
    place, below, count = 0, 1, len(heap)
    while below < count:
        other = heap[below]
        if below + 1 < count:
            beside = heap[below + 1]
            if beside[0] < other[0] or (beside[0] == other[0] and beside[1] < other[1]):
                below += 1
                other = beside
        if not (other[0] < event[0] or (other[0] == event[0] and other[1] < event[1])):
            break
        heap[place] = other
        place, below = below, 2 * below + 1
    heap[place] = event
    return first


def pop(heap: list[Event]) -> Event:
    """Take the first event from a heap that has one."""
    event = heap.pop()
    return replace(heap, event) if heap else event
