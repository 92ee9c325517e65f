"""Recordings to test with: drawn ones of every form, large synthetic ones, and small chunks for both."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import strategies as st

from nki_lab.kernel_runtime.recording import Recording, columns, folder, stored, zoom

Tables = dict[str, dict[str, Any]]

STALLS = ("none", "data from dma", "psum bank", "queue", "table load")
NAMES = ("", "acc", "größe", 'a,b\n"c"', "🜂")


@contextlib.contextmanager
def small_chunks() -> Iterator[None]:
    """Pyramids, row groups and passes as large recordings have them, for recordings of a few rows."""
    with contextlib.ExitStack() as stack:
        for module, name, value in (
            (zoom, "MIN_ROWS", 1),
            (zoom, "ROWS_PER_BUCKET", 1),
            (zoom, "COARSEST", 2),
            (stored, "DEFAULT_CHUNK", 5),
            (stored, "CHUNK_ROWS", {"lane_rows": 3, "steps": 4, "lane_sums": 4}),
            (stored, "KEPT_BYTES", 256),
            (stored, "READ_WHOLE", 2000),
        ):
            stack.enter_context(mock.patch.object(module, name, value))
        stack.enter_context(mock.patch.object(columns.pieces, "__defaults__", (7,)))
        yield


@st.composite
def tables(draw: st.DrawFn, max_rows: int = 40) -> Tables:
    """The tables of a valid recording."""
    lanes = draw(st.integers(1, 4))
    length = st.one_of(st.integers(0, 40), st.integers(0, 10**7))
    drawn = draw(
        st.lists(
            st.tuples(
                st.integers(0, lanes - 1), length, length, st.integers(0, len(STALLS) - 1), st.integers(0, 60), length
            ),
            max_size=max_rows,
        )
    )
    backwards = draw(st.sets(st.integers(0, lanes - 1)))
    count = len(drawn)
    start = np.zeros(count, np.int64)
    setup = np.zeros(count, np.int64)
    for lane in range(lanes):
        mine = [row for row in range(count) if drawn[row][0] == lane]
        free = 0
        for row in reversed(mine) if lane in backwards else mine:
            _, gap, duration, _, share, _ = drawn[row]
            setup[row] = gap * share // 100 if share > 20 else 0
            start[row] = free + gap
            free = int(start[row]) + max(duration, 1)  # two of no duration at one time have no order
    duration = np.array([row[2] for row in drawn], np.int64)
    rows: dict[str, Any] = {
        "start": start, "duration": duration, "setup": setup,
        "lane": [row[0] for row in drawn], "stall": [row[3] for row in drawn],
        "setup_stall": np.where(setup > 0, 4, 0), "ready": start + [row[5] for row in drawn],
    }  # fmt: skip
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return _rest(rows, lanes, count, numbers)


def _rest(rows: Tables, lanes: int, count: int, numbers: np.random.Generator) -> Tables:
    """Everything around rows whose times are chosen: operands, buffers, sites."""
    buffers, views, sites, passes = 5, 8, 4, 6
    operands = numbers.integers(0, 4, count)
    total = int(operands.sum())
    order = np.lexsort((np.arange(count), rows["start"]))
    after = np.full(count, -1)
    for place in range(1, count):  # only ever an earlier step, so that no circle closes
        after[order[place]] = order[numbers.integers(0, place)] if numbers.random() < 0.8 else -1
    edges = sorted({(int(a), int(b)) for a, b in numbers.integers(0, max(count, 1), (count, 2)) if a != b})
    return {
        "rows": {
            **rows,
            "op": numbers.integers(0, 3, count),
            "site": numbers.integers(-1, sites, count),
            "iteration": numbers.integers(-1, passes, count),
            "access": np.cumsum(operands) - operands,
            "after": after,
            "work": numbers.integers(0, 2**32, count),
            "bytes": numbers.integers(0, 2**20, count),
            "confidence": numbers.integers(0, 4, count),
            "held": numbers.integers(0, len(STALLS), count),
            "pace": numbers.integers(0, 65536, count),
        },
        "accesses": {"view": numbers.integers(0, views, total), "role": numbers.integers(0, 3, total)},
        "edges": {
            "row": [a for a, _ in edges],
            "before": [b for _, b in edges],
            "kind": numbers.integers(0, 5, len(edges)),
        },
        "views": {
            "buffer": numbers.integers(0, buffers, views),
            "pattern": numbers.integers(0, 2, views),
            "offset": numbers.integers(0, 2**40, views),
            "indirect": numbers.integers(0, 4, views),
        },
        "patterns": {"dtype": ["bfloat16", "float32"], "dim": [0, 2], "rank": [2, 3]},
        "dims": {"size": [128, 512, 4, 128, 64], "step": [512, 1, 8192, 64, 1]},
        "buffers": {
            "name": [NAMES[n] for n in numbers.integers(0, len(NAMES), buffers)],
            "space": numbers.integers(0, 4, buffers),
            "kind": numbers.integers(0, 4, buffers),
            "pattern": numbers.integers(-1, 2, buffers),
            "partition": numbers.choice([-1, 0, 32, 64], buffers),
            "partitions": numbers.integers(1, 65, buffers),
            "byte": numbers.integers(-1, 1000, buffers),
            "partition_bytes": numbers.integers(1, 4096, buffers),
            "site": numbers.integers(-1, sites, buffers),
            "core": numbers.integers(0, 2, buffers),
        },
        "lanes": {
            "name": [f"lane {number}" for number in range(lanes)],
            "kind": numbers.integers(0, 2, lanes),
            "core": numbers.integers(0, 2, lanes),
        },
        "stalls": {"name": STALLS},
        "ops": {
            "name": ["nc_matmul", "dma_copy", "activation"],
            "detail": [NAMES[n] for n in numbers.integers(0, len(NAMES), 3)],
            "work_unit": ["", "elements", "multiply-adds"],
        },
        "sites": {
            "source": [0, 0, 1, 1],
            "line": numbers.integers(1, 9, sites),
            "column": [0, 4, 4, 0],
            "end_line": [1, 2, 3, 9],
            "end_column": [9, 9, 9, 9],
            "function": ["kernel", "kernel", "helper", ""],
        },
        "sources": {"path": ["kernel.py", "lib/größe.py"], "text": ["x = 1\n", ""]},
        "iterations": {
            "parent": [-1, 0, 1, -1, 3, 3],
            "loop": ["i", "j", "k", "i", "j", "j"],
            "value": [0, 3, -7, 1, 0, 1],
        },
    }


def drawn(max_rows: int = 40) -> st.SearchStrategy[Recording]:
    """Valid recordings."""
    return tables(max_rows).map(lambda given: Recording(given, {"target": "trn2", "flops": 12, "mfu": 0.25}))


def synthetic(count: int, lanes: int = 21) -> Tables:
    """The tables of a long run: engines and DMA queues, loops, three operands and two edges a row."""
    numbers = np.random.default_rng(0)
    row = np.arange(count)
    duration = numbers.choice(np.array([59_000, 112_000, 700_000, 230_000, 64_000]), count)
    stall = numbers.integers(0, len(STALLS), count).astype(np.uint8)
    gap = np.where(stall > 0, numbers.integers(1, 50_000, count), 0)
    start = np.zeros(count, np.int64)
    for lane in range(lanes):
        mine = slice(lane, None, lanes)
        start[mine] = np.cumsum(duration[mine] + gap[mine]) - duration[mine]
    buffers = count // 20 + 16
    return {
        "rows": {
            "start": start,
            "duration": duration,
            "ready": start + duration + 64_000,
            "lane": (row % lanes).astype(np.uint16),
            "stall": stall,
            "op": numbers.integers(0, 200, count).astype(np.uint32),
            "site": numbers.integers(0, 500, count).astype(np.int32),
            "iteration": (row // 30).astype(np.int32),
            "access": (row * 3).astype(np.uint32),
            "after": np.maximum(row - lanes * numbers.integers(1, 3, count), -1).astype(np.int32),
            "work": numbers.choice(np.array([128, 65_536, 8_388_608], np.uint32), count),
            "bytes": numbers.choice(np.array([0, 65_536], np.uint32), count),
            "confidence": numbers.integers(0, 4, count).astype(np.uint8),
        },
        "accesses": {
            "view": ((np.arange(count * 3) // 1500 * 16 + np.arange(count * 3) % 16) % buffers).astype(np.uint32),
            "role": np.tile(np.array([1, 0, 0], np.uint8), count),
        },
        "edges": {
            "row": np.repeat(row[1:], 2).astype(np.uint32),
            "before": np.maximum(np.repeat(row[1:], 2) - numbers.integers(1, 40, 2 * (count - 1)), 0).astype(np.uint32),
            "kind": np.zeros(2 * (count - 1), np.uint8),
        },
        "views": {
            "buffer": np.arange(buffers),
            "pattern": np.zeros(buffers, np.uint32),
            "offset": np.zeros(buffers, np.int64),
        },
        "patterns": {"dtype": ["bfloat16"], "dim": [0], "rank": [2]},
        "dims": {"size": [128, 512], "step": [512, 1]},
        "buffers": {
            "name": np.zeros(buffers, np.uint32),
            "space": np.arange(buffers) % 2,
            "partition": np.zeros(buffers, np.int16),
            "partitions": np.full(buffers, 128),
            "byte": np.zeros(buffers, np.int64),
            "partition_bytes": np.full(buffers, 1024),
        },
        "lanes": {
            "name": ["tensor", "vector", "scalar", "gpsimd", "sync", *(f"dma q{n}" for n in range(lanes - 5))],
            "kind": [0] * 5 + [1] * (lanes - 5),
        },
        "stalls": {"name": STALLS},
        "ops": {"name": [f"instruction {number}" for number in range(200)]},
        "sites": {"source": [0] * 500, "line": range(1, 501)},
        "sources": {"path": ["kernel.py"], "text": ["x = 1\n" * 500]},
        "iterations": {
            "parent": np.full(count // 30 + 1, -1),
            "loop": ["i"] * (count // 30 + 1),
            "value": np.arange(count // 30 + 1),
        },
    }


def manifest_of(path: Path) -> dict[str, Any]:
    """The manifest of a saved recording."""
    found: dict[str, Any] = json.loads((path / folder.MANIFEST).read_text())
    return found


def tables_of(path: Path) -> dict[str, Path]:
    """The files of a saved recording by table."""
    return {name: path / entry["file"] for name, entry in manifest_of(path)["tables"].items()}
