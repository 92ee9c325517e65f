"""Subscripts of Beta 1 address what NumPy's fancy indexing addresses."""

from __future__ import annotations

from typing import Any

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.diagnostic import NkiError
from tests.scale import scaled


@st.composite
def keys(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], list[tuple[int, tuple[int, ...]]]]:
    """A tensor shape, a grid shape, and for each dimension an affine (offset, steps) that stays inside."""
    rank = draw(st.integers(1, 3))
    grid = tuple(draw(st.integers(1, 4)) for _ in range(draw(st.integers(2, 4))))
    affine, shape = [], []
    for _ in range(rank):
        steps = tuple(draw(st.integers(-2, 3)) if draw(st.booleans()) else 0 for _ in grid)
        low = sum(min(0, step * (size - 1)) for step, size in zip(steps, grid, strict=True))
        high = sum(max(0, step * (size - 1)) for step, size in zip(steps, grid, strict=True))
        offset = -low + draw(st.integers(0, 2))
        affine.append((offset, steps))
        shape.append(offset + high + 1 + draw(st.integers(0, 2)))
    return tuple(shape), grid, affine


def grid_key(grid: tuple[int, ...], affine: Any, indices: Any) -> tuple[Any, ...]:
    parts = []
    for offset, steps in affine:
        index: Any = offset
        for step, walk in zip(steps, indices, strict=True):
            if step:
                index = index + step * walk
        parts.append(index)
    return tuple(parts)


@settings(max_examples=scaled(60))
@given(keys(), st.booleans())
def test_an_index_grid_reads_what_numpy_reads(execute: Any, drawn: Any, dense: bool) -> None:
    shape, grid, affine = drawn
    source = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    if dense:
        theirs = np.mgrid[tuple(slice(0, size) for size in grid)]
    else:
        theirs = [np.arange(n).reshape([-1 if k == d else 1 for k in range(len(grid))]) for d, n in enumerate(grid)]
    expected = source[grid_key(grid, affine, theirs)]
    if expected.ndim < 2:
        return

    def kernel(a: Any) -> Any:
        if dense:
            indices = nl.mgrid[tuple(slice(0, size) for size in grid)]
        else:
            indices = [
                nl.arange(n)[tuple(slice(None) if k == d else None for k in range(len(grid)))]
                for d, n in enumerate(grid)
            ]
        tile = nl.load(a[grid_key(grid, affine, indices)])
        out = nl.ndarray(tile.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    np.testing.assert_array_equal(execute(kernel, source).outputs, np.broadcast_to(expected, expected.shape))


@settings(max_examples=scaled(40))
@given(st.integers(1, 128), st.integers(1, 6), st.integers(1, 6), st.integers(1, 3))
def test_collapsed_axes_of_a_tile_are_strided_views(execute: Any, p: int, a: int, b: int, step: int) -> None:
    """t[p, a*step*b + b] over three dimensions of a two-dimensional tile, read and written."""
    source = np.arange(p * a * b * step, dtype=np.float32).reshape(p, -1)

    def kernel(x: Any) -> Any:
        i_p, i_a, i_b = nl.arange(p)[:, None, None], nl.arange(a)[None, :, None], nl.arange(b)[None, None, :]
        tile = nl.load(x)
        turned = nl.ndarray((p, b * a), dtype=x.dtype)
        turned[i_p, i_b * a + i_a] = nl.copy(tile[i_p, i_a * (b * step) + i_b * step])
        out = nl.ndarray((p, b * a), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, turned)
        return out

    want = source.reshape(p, a, b, step)[:, :, :, 0].transpose(0, 2, 1).reshape(p, -1)
    done = execute(kernel, source)
    np.testing.assert_array_equal(done.outputs, want)
    assert not done.diagnostics


def test_overlapping_windows_are_one_view(execute: Any) -> None:
    source = np.random.default_rng(0).normal(size=(20, 12)).astype(np.float32)

    def kernel(a: Any) -> Any:
        i_h, i_kh, i_w = nl.mgrid[0:18, 0:3, 0:12]
        rows = nl.load(a[i_h + i_kh, i_w])
        i_h, i_kh, i_w, i_kw = nl.mgrid[0:18, 0:3, 0:10, 0:3]
        best = nl.max(rows[i_h, i_kh, i_w + i_kw], axis=[1, 3])
        assert best.shape == [18, 10]
        out = nl.ndarray((18, 10), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, best)
        return out

    want = np.lib.stride_tricks.sliding_window_view(source, (3, 3)).max((2, 3))
    np.testing.assert_array_equal(execute(kernel, source).outputs, want)


def test_strided_scatter_leaves_the_rest_alone(execute: Any) -> None:
    source = np.arange(32, dtype=np.float32).reshape(4, 8)

    def kernel(a: Any) -> Any:
        tile = nl.zeros((4, 16), dtype=a.dtype)
        grid = nl.mgrid[0:4, 0:8]
        tile[grid.p, 2 * grid.x + 1] = nl.load(a)
        out = nl.ndarray((4, 16), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    want = np.zeros((4, 16), np.float32)
    want[:, 1::2] = source
    np.testing.assert_array_equal(execute(kernel, source).outputs, want)


def test_integers_and_slices_keep_the_rank_rules_of_tiles(execute: Any) -> None:
    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        assert tile[:, 0].shape == (4, 1)
        assert tile[2].shape == [1, 8]
        assert tile[0:2, nl.ds(2, 3)].shape == (2, 3)
        assert a[0].shape == (8,)
        assert nl.load(a[0]).shape == (8, 1)
        assert tile[nl.mgrid[0:4, 0:8]].shape == (4, 8)
        out = nl.ndarray((4, 1), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile[:, 7])
        return out

    source = np.arange(32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_array_equal(execute(kernel, source).outputs, source[:, 7:])


@pytest.mark.parametrize("form", ["tile", "view"])
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_rows_picked_by_an_index_tile_are_gathered_and_scattered(execute: Any, form: str, target: str) -> None:
    table = np.arange(64, dtype=np.float32).reshape(16, 4)
    rows = np.array([3, 1, 15, 1, 0], np.int32)

    def kernel(a: Any, numbers: Any) -> Any:
        i_p, i_f = nl.arange(5)[:, None], nl.arange(4)[None, :]
        index = nl.load(numbers[i_p])
        assert index.shape == (5, 1)
        picked = nl.load(a[index, i_f] if form == "tile" else a[index[i_p, 0], i_f])
        out = nl.ndarray((16, 4), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.zeros((16, 4), a.dtype))
        nl.store(out[index, i_f], value=picked)
        return out

    want = np.zeros_like(table)
    want[rows] = table[rows]
    np.testing.assert_array_equal(execute(kernel, table, rows, target=target).outputs, want)


def test_one_row_number_moves_a_whole_view(execute: Any) -> None:
    table = np.arange(6 * 8 * 4, dtype=np.float32).reshape(6, 8, 4)

    def kernel(a: Any, number: Any) -> Any:
        index = nl.load(number)
        i_p, i_f = nl.mgrid[0:8, 0:4]
        out = nl.ndarray((8, 4), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a[index, i_p, i_f]))
        return out

    np.testing.assert_array_equal(execute(kernel, table, np.array([[4]], np.int32)).outputs, table[4])


def test_row_numbers_behind_a_fixed_block(execute: Any) -> None:
    table = np.arange(2 * 8 * 4, dtype=np.float32).reshape(2, 8, 4)

    def kernel(a: Any) -> Any:
        index = nisa.iota(7 - 2 * nl.arange(4)[:, None], dtype=np.int32)
        out = nl.ndarray((4, 4), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a[1, index, nl.arange(4)[None, :]]))
        return out

    np.testing.assert_array_equal(execute(kernel, table).outputs, table[1, [7, 5, 3, 1]])


def test_row_numbers_may_be_indexed_by_a_grid(execute: Any) -> None:
    table = np.arange(24, dtype=np.float32).reshape(8, 3)
    rows = np.array([[5], [0], [7], [5]], np.int32)

    def kernel(a: Any, rows: Any) -> Any:
        i, j = nl.mgrid[0:4, 0:3]  # i has a column for each of j
        numbers = nl.load(rows)
        out = nl.ndarray((4, 3), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out[i, j], nl.load(a[numbers[i, 0], j]))
        turned = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(turned, nl.zeros(a.shape, a.dtype))
        nl.store(turned[numbers[i, 0], j], nl.load(a[numbers[i, 0], j]))
        return out, turned

    out, turned = execute(kernel, table, rows).outputs
    np.testing.assert_array_equal(out, table[[5, 0, 7, 5]])
    np.testing.assert_array_equal(turned, np.where(np.isin(np.arange(8), rows)[:, None], table, 0))


@pytest.mark.parametrize(
    ("use", "code"),
    [
        (lambda t, a: t[nl.arange(4), 0], "NKI304"),  # a flat index of a tile
        (lambda t, a: t[nl.arange(4)[:, None], 0:8], "NKI304"),  # slice and index
        (lambda t, a: t[nl.arange(4)[:, None]], "NKI304"),  # a dimension without index
        (lambda t, a: t[nl.arange(4)[None, :], nl.arange(8)[:, None]], "NKI312"),  # partitions in dimension 1
        (lambda t, a: t[nl.arange(4)[:, None], nl.arange(4)[:, None]], "NKI312"),  # a diagonal
        (lambda t, a: t[nl.arange(4)[:, None], 1.5], "NKI304"),
        (lambda t, a: t[nl.arange(4)[:, None], None], "NKI304"),
        (lambda t, a: nl.load(a[nl.arange(5)[:, None], nl.arange(8)[None, :]]), "NKI303"),  # a row too many
        (lambda t, a: nl.exp(t[nl.arange(4)[:, None], nl.arange(8)[None, :] - 1]), "NKI303"),
        (lambda t, a: t[0:5, :], "NKI303"),
        (lambda t, a: nl.exp(t[nl.arange(2)[:, None] < 1, nl.arange(8)[None, :]]), "NKI010"),
        (lambda t, a: a[nl.arange(2)[:, None], nl.load(a[0:2, 0:1])], "NKI309"),
        (lambda t, a: a[nl.load(a[0:2, 0:1]), nl.arange(8)[None, :]], "NKI309"),  # row numbers that are floats
    ],
)
def test_bad_subscripts_are_refused(execute: Any, use: Any, code: str) -> None:
    def kernel(a: Any) -> Any:
        use(nl.load(a), a)
        out = nl.ndarray((4, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a))
        return out

    with pytest.raises(NkiError) as caught:
        execute(kernel, np.ones((4, 8), np.float32))
    assert caught.value.diagnostics[0].code == code


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda t, i, j: t[i, None, j], "dimension 1 of a subscript is None"),
        (lambda t, i, j: t[:, None, :], "dimension 1 of a subscript is None"),
        (lambda t, i, j: t[i, ...], "dimension 1 is ... and others are indexed by nl.arange"),
        (lambda t, i, j: t[..., j], "dimension 0 is ... and others are indexed by nl.arange"),
        (lambda t, i, j: t[i, 0:2, 0:1], "dimension 1 is sliced and others are indexed by nl.arange"),
        (lambda t, i, j: t[i], r"1 index for the 2 dimensions of \(4, 8\)"),
    ],
)
def test_a_bad_subscript_is_named(execute: Any, use: Any, message: str) -> None:
    def kernel(a: Any) -> None:
        use(nl.load(a), nl.arange(4)[:, None], nl.arange(8)[None, :])

    with pytest.raises(NkiError, match=f"NKI304 {message}"):
        execute(kernel, np.ones((4, 8), np.float32))


def test_an_error_names_the_line_of_the_call_though_the_tile_is_used_later(execute: Any) -> None:
    def kernel(a: Any) -> Any:
        tile = nl.exp(a)
        out = nl.ndarray((4, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    with pytest.raises(NkiError, match="NKI201 activation: data is in HBM") as caught:
        execute(kernel, np.ones((4, 8), np.float32))
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert span.line == kernel.__code__.co_firstlineno + 1
