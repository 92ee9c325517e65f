"""Transposes in memory: the same elements from rows of any pitch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.isa.ops.transposing import transpose_into

DTYPES = (np.uint8, np.uint16, np.float32, np.float64)


@given(
    rows=st.integers(1, 128),
    columns=st.integers(1, 130),
    more=st.sampled_from((0, 1, 16, 384, 512, 1024)),
    step=st.sampled_from((1, 2)),
    kind=st.sampled_from(DTYPES),
)
def test_every_element_changes_its_place(rows: int, columns: int, more: int, step: int, kind: type) -> None:
    held = np.arange(rows * step * (columns + more)).reshape(rows, step * (columns + more)).astype(kind)
    data = held[:, : columns * step : step]
    dst = np.full((columns + 3, rows + 5), 7, kind)
    transpose_into(dst[1 : columns + 1, 2 : rows + 2], data)
    assert np.array_equal(dst[1 : columns + 1, 2 : rows + 2], data.T)
    around = np.ones(dst.shape, bool)
    around[1 : columns + 1, 2 : rows + 2] = False
    assert (dst[around] == 7).all()


@pytest.mark.parametrize("pitch", [512, 1024, 2048, 4096])
def test_rows_that_share_their_lines_are_laid_apart(pitch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.arange(128 * pitch, dtype=np.float32).reshape(128, pitch)[:, 128:256]
    dst = np.empty((128, 128), np.float32)
    read = []
    copy = np.copyto
    monkeypatch.setattr(np, "copyto", lambda into, values: (read.append(values.strides), copy(into, values)))
    transpose_into(dst, data)
    assert np.array_equal(dst, data.T)
    assert read == [(4 * pitch, 4), (4, 576)]
    read.clear()
    transpose_into(dst[:, :32], data[:32, :128].copy())
    assert read == [(4, 512)]
