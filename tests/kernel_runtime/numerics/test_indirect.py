"""Views whose addresses are known while the program runs: reading and writing them, row by row in bounds or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_lab
from nki_lab.diagnostic import NkiError
from nki_lab.isa.dtype import DTYPES
from nki_lab.kernel_runtime.numerics.executor import Executor
from tests.calls import kernel_of, traced
from tests.isa.ops.kernels import run
from tests.scale import scaled

Array = np.ndarray[Any, Any]

TABLE = np.arange(60, dtype=np.int32).reshape(12, 5)


@settings(max_examples=scaled(40))
@given(st.data())
def test_rows_come_and_go_as_numpy_indexes_them(data: Any) -> None:
    count = data.draw(st.integers(1, 10))
    rows = data.draw(st.lists(st.integers(-2, 13), min_size=count, max_size=count))
    start = data.draw(st.integers(0, 3))
    columns = data.draw(st.integers(1, 5 - start))
    text = f"""
def kernel(table, rows, old):
    lanes = nl.ndarray(({count}, 1), nl.int32)
    nisa.dma_copy(lanes, rows)
    x = nl.ndarray(({count}, {columns}), nl.int32)
    nisa.dma_copy(x, old)
    view = table.ap([[5, {count}], [1, {columns}]], offset={start}, vector_offset=lanes)
    nisa.dma_copy(x, view, oob_mode=nisa.oob_mode.skip)
    return x
"""
    old = -np.ones((count, columns), np.int32)
    (got,) = run(text, TABLE, np.array(rows, np.int32).reshape(-1, 1), old)
    for place, row in enumerate(rows):
        want = TABLE[row, start : start + columns] if 0 <= row < 12 else old[place]
        np.testing.assert_array_equal(got[place], want)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int16", "uint8"])
def test_any_integer_tile_holds_rows(dtype: str) -> None:
    text = f"""
def kernel(table, rows):
    lanes = nl.ndarray((3, 1), nl.{dtype})
    nisa.dma_copy(lanes, rows)
    x = nl.ndarray((3, 5), nl.int32)
    nisa.dma_copy(x, table.vector_select(0, lanes))
    return x
"""
    (got,) = run(text, TABLE, np.array([[11], [0], [5]], dtype))
    np.testing.assert_array_equal(got, TABLE[[11, 0, 5]])


def test_an_index_computed_on_the_chip_counts_at_its_time() -> None:
    text = """
def kernel(table):
    lane = nl.ndarray((1, 1), nl.int32)
    out = nl.ndarray((4, 5), nl.int32, buffer=nl.shared_hbm)
    nisa.memset(lane, 1)
    for i in range(4):
        x = nl.ndarray((1, 5), nl.int32)
        nisa.dma_copy(x, table.select(0, lane).expand_dim(0))
        nisa.dma_copy(out[i : i + 1], x)
        nisa.tensor_scalar(lane, lane, nl.multiply, 2)
    return out
"""
    (got,) = run(text, TABLE)
    np.testing.assert_array_equal(got, TABLE[[1, 2, 4, 8]])


def test_an_on_chip_view_moves_along_its_free_dimension() -> None:
    text = """
def kernel(a, place):
    x = nl.ndarray((4, 9), nl.float32)
    nisa.dma_copy(x, a)
    lane = nl.ndarray((1, 1), nl.int32)
    nisa.dma_copy(lane, place)
    y = nl.ndarray((4, 3), nl.float32)
    nisa.tensor_copy(y, x.ap([[9, 4], [1, 3]], offset=0, scalar_offset=lane, indirect_dim=1))
    nisa.tensor_copy(x.ap([[9, 4], [1, 3]], offset=0, scalar_offset=lane, indirect_dim=1), x[:, 0:3])
    return x, y
"""
    a = np.arange(36, dtype=np.float32).reshape(4, 9)
    for place in (0, 2, 6):
        x, y = run(text, a, np.array([[place]], np.int32))
        want = a.copy()
        want[:, place : place + 3] = a[:, 0:3]
        np.testing.assert_array_equal(y, a[:, place : place + 3])
        np.testing.assert_array_equal(x, want)
    for place in (-1, 7):
        with pytest.raises(NkiError) as caught:
            run(text, a, np.array([[place]], np.int32))
        (found,) = caught.value.diagnostics
        assert (found.code, found.line, found.operand) == ("NKI310", 8, "src")
        assert f"index {place}" in found.message
        assert ("takes elements 7 to 9" in found.message) == (place == 7)  # 7 itself is one of 0 to 8
        assert "oob_mode" not in found.help  # tensor_copy has no such argument


def test_a_gather_reads_through_a_cast() -> None:
    text = """
def kernel(table, rows):
    lanes = nl.ndarray((3, 1), nl.int32)
    nisa.dma_copy(lanes, rows)
    x = nl.ndarray((3, 5), nl.bfloat16)
    nisa.dma_copy(x, table.ap([[5, 3], [1, 5]], vector_offset=lanes))
    return x
"""
    (got,) = run(text, TABLE + 1000, np.array([[11], [0], [5]], np.int32))
    np.testing.assert_array_equal(
        got.astype(np.float32), (TABLE + 1000)[[11, 0, 5]].astype(got.dtype).astype(np.float32)
    )


def test_a_user_may_look_through_a_run_time_index() -> None:
    text = """
def kernel(table, rows):
    lanes = nl.ndarray((3, 1), nl.int32)
    nisa.dma_copy(lanes, rows)
    return table.ap([[5, 3], [1, 5]], vector_offset=lanes)
"""
    rows = np.array([[11], [0], [5]], np.int32)
    program, _ = traced(kernel_of(text), [TABLE, rows], ["int32"] * 2, "trn2")
    executor = Executor(program, {0: TABLE, 1: rows})
    executor.run(final=False)
    np.testing.assert_array_equal(executor.read(program.outputs[0]), TABLE[[11, 0, 5]])


def test_an_index_tile_is_kept_until_it_was_used() -> None:
    # The tiles after the index would take its memory if its use by the gather were overlooked.
    text = """
def kernel(table, rows):
    lanes = nl.ndarray((3, 1), nl.int32)
    nisa.dma_copy(lanes, rows)
    x = nl.ndarray((3, 5), nl.int32)
    for i in range(3):
        other = nl.ndarray((3, 1), nl.int32)
        nisa.memset(other, 100)
        more = nl.ndarray((3, 1), nl.int32)
        nisa.tensor_copy(more, other)
    nisa.dma_copy(x, table.ap([[5, 3], [1, 5]], vector_offset=lanes))
    nisa.tensor_copy(nl.ndarray((3, 1), nl.int32), lanes)  # the last time that it is named
    late = nl.ndarray((3, 1), nl.int32)
    nisa.memset(late, 100)
    out = nl.ndarray((3, 5), nl.int32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out
"""
    (got,) = run(text, TABLE, np.array([[11], [0], [5]], np.int32))
    np.testing.assert_array_equal(got, TABLE[[11, 0, 5]])


STRAYING = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(table, rows):
    lanes = nl.ndarray((4, 1), nl.{index}, buffer=nl.sbuf)
    nisa.dma_copy(dst=lanes, src=rows)
    x = nl.ndarray((4, 5), nl.{dtype}, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src={view})
    out = nl.ndarray((4, 5), nl.{dtype}, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out
"""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("index", ["int32", "uint32"])
def test_rows_outside_are_unspecified_and_warned_of_where_that_is_asked_for(dtype: str, index: str) -> None:
    scope: dict[str, Any] = {}
    text = STRAYING.format(index=index, dtype=dtype, view="table.vector_select(0, lanes)")
    exec(compile(text, "<straying>", "exec"), scope)
    table = TABLE.astype(DTYPES[dtype].host)
    rows = np.array([[11], [-1], [0], [12]], np.int32).astype(index)
    with pytest.raises(NkiError, match="NKI310"):
        nki_lab.run(scope["kernel"], table, rows, target="trn2")
    done = nki_lab.run(scope["kernel"], table, rows, target="trn2", oob="warn")
    (found,) = (item for item in done.diagnostics if item.code == "NKI419")
    assert found.line == 11
    assert found.operand == "src"
    assert f"run-time index {int(rows[1, 0])} (row 1)" in found.message
    got = np.asarray(done.outputs).reshape(4, 5)
    np.testing.assert_array_equal(got[[0, 2]], table[[11, 0]])
    if dtype != "int32":
        assert np.isnan(got[[1, 3]].astype(np.float32)).all()


def test_rows_that_are_written_outside_are_dropped_where_only_warned_of() -> None:
    text = STRAYING.format(index="int32", dtype="int32", view="rows[0:4, 0:1].ap([[1, 4], [0, 5]])")
    text = text.replace("dst=out, src=x", "dst=out.vector_select(0, lanes), src=x")
    scope: dict[str, Any] = {}
    exec(compile(text, "<straying>", "exec"), scope)
    rows = np.array([[3], [-1], [0], [4]], np.int32)
    done = nki_lab.run(scope["kernel"], TABLE, rows, target="trn2", oob="warn")
    assert "NKI419" in {item.code for item in done.diagnostics}
    got = np.asarray(done.outputs).reshape(4, 5)
    np.testing.assert_array_equal(got[[3, 0]], np.repeat([[3], [0]], 5, axis=1))


def test_an_unknown_choice_of_oob_is_refused() -> None:
    with pytest.raises(ValueError, match="choose error or warn"):
        nki_lab.Options(oob="skip")  # type: ignore[arg-type]
