"""The heap that machine code has: the pairs come in the order of `heapq`."""

from __future__ import annotations

import heapq

from hypothesis import given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.timing.heaps import Pair, pop, push

PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1 << 62)), unique=True, max_size=60)


@given(PAIRS, st.lists(st.booleans(), max_size=60))
def test_pairs_come_in_the_order_of_heapq(pairs: list[Pair], takes: list[bool]) -> None:
    mine: list[Pair] = []
    other: list[Pair] = []
    for pair, take in zip(pairs, [*takes, *[False] * len(pairs)], strict=False):
        push(mine, pair)
        heapq.heappush(other, pair)
        if take:
            assert pop(mine) == heapq.heappop(other)
    while other:
        assert pop(mine) == heapq.heappop(other)
    assert not mine
