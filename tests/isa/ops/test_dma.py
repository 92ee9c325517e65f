"""dma_copy: element order, casts, run-time rows, and who may move what."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab.diagnostic import NkiError
from tests.isa.ops.kernels import refusal, refused, run

Array = np.ndarray[Any, Any]


def test_views_of_any_shape_are_copied_in_row_major_order() -> None:
    text = """
def kernel(a):
    x = nl.ndarray((6, 20), nl.float32)
    nisa.dma_copy(x, a.permute((1, 0)))
    out = nl.ndarray((10, 4, 3), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out
"""
    a = np.arange(120, dtype=np.float32).reshape(20, 6)
    (got,) = run(text, a)
    np.testing.assert_array_equal(got, a.T.reshape(10, 4, 3))


def test_hbm_may_be_copied_to_hbm() -> None:
    text = """
def kernel(a):
    out = nl.ndarray((8, 3), nl.int32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, a[:, 2:5])
    return out
"""
    a = np.arange(2**24, 2**24 + 64, dtype=np.int32).reshape(8, 8)
    (got,) = run(text, a)
    np.testing.assert_array_equal(got, a[:, 2:5])


GATHER = """
def kernel(table, rows):
    lanes = nl.ndarray(({count}, 1), nl.int32)
    nisa.dma_copy(lanes, rows)
    x = nl.zeros(({count}, 5), nl.{dtype})
    nisa.dma_copy(x, table.ap([[5, {count}], [1, 5]], vector_offset=lanes){more})
    return x
"""


def gathered(rows: list[int], *, dtype: str = "float32", more: str = "", target: str = "trn2") -> Array:
    table = np.arange(100, dtype=np.dtype(dtype)).reshape(20, 5) + 2**24 * (dtype == "int32")
    index = np.array(rows, np.int32).reshape(-1, 1)
    (found,) = run(GATHER.format(count=len(rows), dtype=dtype, more=more), table, index, target=target)
    return found


def test_rows_are_gathered_in_the_order_of_the_index() -> None:
    got = gathered([7, 0, 19, 7])
    np.testing.assert_array_equal(got[:, 0], [35, 0, 95, 35])


@pytest.mark.parametrize("row", [20, -1])
def test_a_row_outside_is_an_error_that_names_it(row: int) -> None:
    with pytest.raises(NkiError) as caught:
        gathered([3, row, 4])
    (found,) = caught.value.diagnostics
    assert found.code == "NKI310"
    assert str(row) in found.message
    assert found.operand == "src"
    assert found.line == 6


def test_rows_outside_are_skipped_and_leave_what_was_there() -> None:
    got = gathered([3, 20, -5, 4], dtype="int32", more=", oob_mode=nisa.oob_mode.skip")
    assert got[0, 0] == 2**24 + 15
    assert got[3, 4] == 2**24 + 24
    assert not got[1:3].any()


def test_an_index_of_more_rows_than_the_pattern_takes_gives_its_first() -> None:
    text = """
def kernel(table, rows):
    lanes = nl.ndarray((8, 1), nl.int32)
    nisa.dma_copy(lanes, rows)
    x = nl.ndarray((3, 5), nl.float32)
    nisa.dma_copy(x, table.ap([[5, 3], [1, 5]], vector_offset=lanes))
    return x
"""
    table = np.arange(100, dtype=np.float32).reshape(20, 5)
    rows = np.array([[4], [2], [9], [99], [99], [99], [99], [99]], np.int32)
    (got,) = run(text, table, rows)
    np.testing.assert_array_equal(got, table[[4, 2, 9]])


def test_rows_are_scattered_and_the_others_stay() -> None:
    text = """
def kernel(table, rows, new):
    lanes = nl.ndarray((3, 1), nl.int32)
    nisa.dma_copy(lanes, rows)
    x = nl.ndarray((3, 5), nl.float32)
    nisa.dma_copy(x, new)
    nisa.dma_copy(table.ap([[5, 3], [1, 5]], vector_offset=lanes), x, oob_mode=nisa.oob_mode.skip)
    return table
"""
    table = np.arange(100, dtype=np.float32).reshape(20, 5)
    rows = np.array([[4], [25], [9]], np.int32)
    new = -np.ones((3, 5), np.float32)
    (got,) = run(text, table.copy(), rows, new)
    want = table.copy()
    want[[4, 9]] = -1
    np.testing.assert_array_equal(got, want)


def test_a_scalar_offset_moves_the_whole_view() -> None:
    text = """
def kernel(table, row):
    lane = nl.ndarray((1, 1), nl.int32)
    nisa.dma_copy(lane, row)
    x = nl.ndarray((2, 5), nl.float32)
    nisa.dma_copy(x, table.ap([[5, 2], [1, 5]], scalar_offset=lane, indirect_dim=0))
    return x
"""
    table = np.arange(100, dtype=np.float32).reshape(20, 5)
    (got,) = run(text, table, np.array([[18]], np.int32))
    np.testing.assert_array_equal(got, table[18:20])
    with pytest.raises(NkiError, match="NKI310"):
        run(text, table, np.array([[19]], np.int32))


def test_tensors_gather_columns_of_their_own_on_v4() -> None:
    # Entry i of a group's list of 16 partitions lies at [i % 16, i // 16].
    text = """
def kernel(a, index):
    x = nl.ndarray((32, 10), nl.float32)
    nisa.dma_copy(x, a)
    lists = nl.ndarray((32, 2), nl.uint16)
    nisa.dma_copy(lists, index)
    z = nl.ndarray((32, 20), nl.float32)
    nisa.tensor_copy(z, x.indirect(lists, 20))
    return z
"""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((32, 10)).astype(np.float32)
    index = rng.integers(0, 10, (32, 2)).astype(np.uint16)
    index[10:16, 1] = 60000  # entries beyond the twentieth are not looked at
    index[26:32, 1] = 60000
    (got,) = run(text, a, index, target="trn3")
    want = np.array([[a[p, index[p // 16 * 16 + i % 16, i // 16]] for i in range(20)] for p in range(32)])
    np.testing.assert_array_equal(got, want)
    with pytest.raises(NkiError, match="NKI309"):
        run(text, a, index, target="trn2")


CASES = [
    ("dma_copy(x, h)", "trn1", ""),
    ("dma_copy(h, x)", "trn1", ""),
    ("dma_copy(w, h)", "trn2", ""),
    ("dma_copy(p, h)", "trn2", "NKI201"),
    ("dma_copy(h, p)", "trn2", "NKI201"),
    ("dma_copy(x, h[0:63])", "trn2", "NKI203"),
    ("dma_copy(x, h, priority=1)", "trn2", "NKI222"),
    ("dma_copy(x, h, priority=3)", "trn3", ""),
    ("dma_copy(x, h, priority=4)", "trn3", "NKI222"),
    ("dma_copy(x, h, priority=1.5)", "trn3", "NKI222"),
    ("dma_copy(x, h, dge_mode=nisa.dge_mode.hwdge)", "trn1", "NKI222"),
    ("dma_copy(x, h, dge_mode=nisa.dge_mode.hwdge)", "trn2", ""),
    ("dma_copy(w, h, dge_mode=nisa.dge_mode.hwdge)", "trn2", "NKI222"),
    ("dma_copy(w, h, dge_mode=nisa.dge_mode.swdge)", "trn2", ""),
    ("dma_copy(x, h, engine=nisa.engine.sync)", "trn2", "NKI222"),
    ("dma_copy(x, h, dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.sync)", "trn2", ""),
    ("dma_copy(x, h, dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.vector)", "trn2", "NKI222"),
    ("dma_copy(x, h.ap([[96, 64], [1, 96]], vector_offset=n))", "trn1", "NKI222"),
    ("dma_copy(x, h.ap([[96, 64], [1, 96]], vector_offset=n))", "trn2", ""),
    ("dma_copy(x, h.ap([[96, 64], [1, 96]], vector_offset=n), dge_mode=nisa.dge_mode.hwdge)", "trn2", "NKI222"),
    ("dma_copy(x, h, dge_mode=2)", "trn2", ""),
    ("dma_copy(x, h, dge_mode=9)", "trn2", "NKI012"),
    ("dma_copy(x, h, oob_mode='skip')", "trn2", "NKI012"),
    ("dma_copy(nl.ndarray((64, 96), nl.float8_e5m2_x4), h)", "trn3", "NKI207"),
    ("dma_copy(nl.ndarray((200, 4), nl.float32), h[0:25, 0:32])", "trn2", "NKI204"),
    ("dma_copy(x, h, mask=None)", "trn2", "NKI602"),
    ("dma_copy(x, h, dst_rmw_op=nl.add)", "trn2", "NKI602"),
]


@pytest.mark.parametrize(("call", "target", "code"), CASES)
def test_what_it_takes(call: str, target: str, code: str) -> None:
    assert refused(call, target) == code


ROWS = "h.ap([[96, 64], [1, 96]], vector_offset=n)"


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        ("dma_copy(x, h, dge_mode=nisa.dge_mode.hwdge)", "leave dge_mode out"),
        (f"dma_copy(x, {ROWS})", "choose target='trn2', or copy the rows one by one"),
        (f"dma_compute({ROWS}, (x, {ROWS}), nl.add)", "choose target='trn2', or copy the rows one by one"),
    ],
)
def test_what_a_target_is_too_old_for_has_a_remedy_of_its_own(call: str, remedy: str) -> None:
    found = refusal(call, "trn1")
    assert found is not None
    assert found.help.startswith(remedy)
    assert found.limit.endswith("targets: trn2, trn3")


@pytest.mark.parametrize("count", [256, 192, 128, 16])
def test_an_index_of_several_columns_names_rows_column_by_column(count: int) -> None:
    text = f"""
def kernel(table, rows):
    lanes = nl.ndarray((128, 2), nl.int32)
    nisa.dma_copy(lanes, rows)
    x = nl.ndarray((16, {count}), nl.bfloat16)
    nisa.dma_transpose(x, table.ap([[16, {count}], [1, 16]], vector_offset=lanes, indirect_dim=0))
    return x
"""
    table = np.arange(40 * 16).reshape(40, 16).astype(ml_dtypes.bfloat16)
    rows = np.random.default_rng(0).integers(0, 40, (128, 2)).astype(np.int32)
    (got,) = run(text, table, rows)
    np.testing.assert_array_equal(got, table[rows.T.reshape(-1)[:count]].T)


@pytest.mark.parametrize(
    ("dtype", "code"), [("float32", "NKI222"), ("uint8", "NKI222"), ("float16", ""), ("int16", "")]
)
def test_gathered_rows_are_transposed_in_elements_of_two_bytes(dtype: str, code: str) -> None:
    rows = f"nl.ndarray((40, 16), nl.{dtype}, buffer=nl.hbm).vector_select(0, nl.zeros((16, 1), nl.uint32))"
    assert refused(f"dma_transpose(nl.ndarray((16, 16), nl.{dtype}), {rows})", "trn2") == code


@pytest.mark.parametrize(("lanes", "code"), [(16, ""), (24, "NKI222"), (32, ""), (100, "NKI222"), (112, "")])
def test_the_index_of_a_gathered_transpose_has_a_multiple_of_16_partitions(lanes: int, code: str) -> None:
    rows = f"nl.ndarray((40, 16), nl.bfloat16, buffer=nl.hbm).ap([[16, 16], [1, 16]], vector_offset=nl.zeros(({lanes}, 1), nl.uint32))"
    assert refused(f"dma_transpose(nl.ndarray((16, 16), nl.bfloat16), {rows})", "trn2") == code


@pytest.mark.parametrize(("index", "code"), [("(16, 1)", ""), ("(16,)", "NKI222"), ("(16, 1, 1)", "NKI222")])
def test_the_index_of_a_gathered_transpose_has_two_dimensions(index: str, code: str) -> None:
    rows = f"nl.ndarray((40, 16), nl.bfloat16, buffer=nl.hbm).ap([[16, 16], [1, 16]], vector_offset=nl.zeros({index}, nl.uint32))"
    assert refused(f"dma_transpose(nl.ndarray((16, 16), nl.bfloat16), {rows})", "trn2") == code


@pytest.mark.parametrize(("count", "shape"), [(256, (64, 2)), (100, (128, 2)), (128, (128, 2)), (256, (128, 2))])
def test_other_indices_of_several_columns_are_refused(count: int, shape: tuple[int, int]) -> None:
    text = f"""
def kernel(table):
    lanes = nl.zeros({shape}, nl.int32)
    x = nl.ndarray(({count}, 16), nl.bfloat16, buffer=nl.shared_hbm)
    nisa.dma_copy(x, table.ap([[16, {count}], [1, 16]], vector_offset=lanes, indirect_dim=0))
    return x
"""
    with pytest.raises(NkiError, match="NKI309"):
        run(text, np.zeros((40, 16), ml_dtypes.bfloat16))


@pytest.mark.parametrize("space", ["sbuf", "shared_hbm"])
def test_a_transpose_into_hbm_is_warned_of(space: str) -> None:
    def kernel(a: Any) -> Any:
        turned = nl.ndarray((64, 16), a.dtype, buffer=getattr(nl, space))
        nisa.dma_transpose(turned, a)
        out = nl.ndarray((64, 16), a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, turned)
        return out

    a = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    done = nki_lab.run(nki.jit(kernel), a, target="trn2")
    np.testing.assert_array_equal(done.outputs[0], a.T)
    found = [(item.severity, item.operand) for item in done.diagnostics if item.code == "NKI606"]
    assert found == ([("warning", "dst")] if space == "shared_hbm" else [])
