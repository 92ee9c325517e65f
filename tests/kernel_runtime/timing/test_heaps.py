"""The heap that machine code has: events come in the order of `heapq`."""

from __future__ import annotations

import heapq

from hypothesis import given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.timing.heaps import Event, pop, push, replace

EVENTS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 1 << 62), st.just(0)), unique=True, max_size=60
)  # times, codes, lanes


@given(EVENTS, st.lists(st.sampled_from(["push", "pop", "replace"]), max_size=60))
def test_events_come_in_the_order_of_heapq(events: list[Event], steps: list[str]) -> None:
    mine: list[Event] = []
    other: list[Event] = []
    for event, step in zip(events, [*steps, *["push"] * len(events)], strict=False):
        if step == "replace" and other:
            assert replace(mine, event) == heapq.heapreplace(other, event)
            continue
        push(mine, event)
        heapq.heappush(other, event)
        if step == "pop":
            assert pop(mine) == heapq.heappop(other)
    while other:
        assert pop(mine) == heapq.heappop(other)
    assert not mine
