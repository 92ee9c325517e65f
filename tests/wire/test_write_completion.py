"""When a buffer counts as wholly there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.wire.write_completion import WriteCompletion

IN, OUT, INOUT = 0, 1, 2
WHOLE, LEFT, RIGHT = 0, 1, 2


def recording() -> Recording:
    """One buffer of 8 elements, with views of all of it and of its halves."""
    tables: dict[str, dict[str, Any]] = {
        "buffers": {"name": ["tile"], "space": [0], "partition_bytes": [4], "pattern": [0]},
        "patterns": {"dtype": ["float32", "float32"], "dim": [0, 2], "rank": [2, 2]},
        "dims": {"size": [4, 2, 4, 1], "step": [2, 1, 2, 1]},
        "views": {"buffer": [0, 0, 0], "pattern": [0, 1, 1], "offset": [0, 0, 1]},
        "stalls": {"name": ["none"]},
    }
    return Recording(tables, {"kernel": "k", "target": "trn2"})


def filled(accesses: list[tuple[int, int]], piece: int) -> int:
    """When the buffer is filled by accesses (view, role), one a step, each ready 10 ps after the one before."""
    filling = WriteCompletion(recording())
    view, role = np.array(accesses, np.int64).reshape(-1, 2).T
    step = np.arange(len(view))
    for low in reversed(range(0, len(view), piece)):
        part = slice(low, low + piece)
        filling.see(step[part], view[part], role[part], 10 * (step[part] + 1))
    (time,) = filling.times().tolist()
    return time


@pytest.mark.parametrize("piece", [1, 2, 100])
@pytest.mark.parametrize(
    ("accesses", "expected"),
    [
        ([(WHOLE, OUT)], 10),
        ([(WHOLE, OUT), (WHOLE, INOUT), (WHOLE, INOUT), (WHOLE, IN)], 30),  # an accumulation
        ([(WHOLE, OUT), (WHOLE, IN), (WHOLE, OUT), (WHOLE, IN)], 10),  # written anew in each pass
        ([(LEFT, OUT), (LEFT, IN), (RIGHT, OUT), (RIGHT, IN)], 30),  # halves that are loaded and used in turn
        ([(WHOLE, OUT), (WHOLE, IN), (RIGHT, OUT)], 10),  # a part that is changed later
        ([(WHOLE, IN), (WHOLE, OUT)], 20),
        ([(WHOLE, IN)], -1),
    ],
)
def test_buffer_is_filled_by_what_comes_before_reads_and_by_new_parts(
    accesses: list[tuple[int, int]], expected: int, piece: int
) -> None:
    assert filled(accesses, piece) == expected


def test_instruction_that_reads_what_it_writes_does_not_fill() -> None:
    filling = WriteCompletion(recording())
    filling.see(
        np.array([0, 1, 1]), np.array([WHOLE] * 3), np.array([OUT, OUT, IN]), np.array([10, 20, 20])
    )  # dst and data of one op are the same tile
    assert filling.times().tolist() == [10]
