"""When all of a buffer is written."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.lifetimes import in_steps

IN, OUT, INOUT = 0, 1, 2
WHOLE, LEFT, RIGHT = 0, 1, 2


def written(*rows: list[tuple[int, int]]) -> int:
    """When a buffer of 8 elements is written by rows of accesses (view, role), one row each 10 ps.

    There are views of all of it and of its halves.
    """
    accesses = np.array([access for row in rows for access in row], np.int64).reshape(-1, 2)
    counts = [0, *itertools.accumulate(len(row) for row in rows)]
    tables: dict[str, dict[str, Any]] = {
        "rows": {"start": [10 * row for row in range(len(rows))], "duration": [10] * len(rows), "op": [0] * len(rows),
                 "lane": [0] * len(rows), "access": counts[:-1]},
        "accesses": {"view": accesses[:, 0], "role": accesses[:, 1]},
        "ops": {"name": ["op"]},
        "lanes": {"name": ["vector"], "kind": [0]},
        "buffers": {"name": ["tile"], "space": [0], "partition_bytes": [4], "pattern": [0]},
        "patterns": {"dtype": ["float32", "float32"], "dim": [0, 2], "rank": [2, 2]},
        "dims": {"size": [4, 2, 4, 1], "step": [2, 1, 2, 1]},
        "views": {"buffer": [0, 0, 0], "pattern": [0, 1, 1], "offset": [0, 0, 1]},
        "stalls": {"name": ["none"]},
    }  # fmt: skip
    recording = Recording(tables, {"kernel": "k", "target": "trn2"})
    (time,) = in_steps(recording.table, np.arange(len(rows)))["written"].tolist()
    return time


@pytest.mark.parametrize(
    ("accesses", "expected"),
    [
        ([(WHOLE, OUT)], 10),
        ([(WHOLE, OUT), (WHOLE, INOUT), (WHOLE, INOUT), (WHOLE, IN)], 30),  # an accumulation
        ([(WHOLE, OUT), (WHOLE, IN), (WHOLE, OUT), (WHOLE, IN)], 10),  # written again in each iteration
        ([(LEFT, OUT), (LEFT, IN), (RIGHT, OUT), (RIGHT, IN)], 30),  # halves that are loaded and used in turn
        ([(WHOLE, OUT), (WHOLE, IN), (RIGHT, OUT)], 10),  # a part that is changed later
        ([(WHOLE, IN), (WHOLE, OUT)], 20),
        ([(WHOLE, IN)], -1),
    ],
)
def test_buffer_is_written_by_what_comes_before_reads_and_by_new_parts(
    accesses: list[tuple[int, int]], expected: int
) -> None:
    assert written(*([access] for access in accesses)) == expected


def test_instruction_that_reads_what_it_writes_does_not_complete_a_buffer() -> None:
    assert written([(WHOLE, OUT)], [(WHOLE, OUT), (WHOLE, IN)]) == 10
