"""Streams of ops as the event loop has them, and as lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.timing.streams import chained, listed

STREAMS = st.lists(st.lists(st.integers(0, 5), unique=True, max_size=4), max_size=30)


@given(STREAMS)
def test_each_op_has_the_streams_that_it_had(streams: list[list[int]]) -> None:
    start = np.cumsum([0, *map(len, streams)])
    member = np.array([stream for mine in streams for stream in mine], np.int64)
    found = chained(start, member, 6)
    for op, mine in enumerate(streams):
        seen, stream, at = [], int(found.first[op]), int(found.more_at[op])
        while stream >= 0:
            seen.append(stream)
            if at < 0:
                break
            stream, at = int(found.more[at]), at + 1
        assert seen == mine
    assert [column.tolist() for column in listed(*found[:3])] == [start.tolist(), member.tolist()]
