"""Messages of a tile's values: what they count is what NumPy counts, of every dtype."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.isa.dtype import DTYPES, DType
from nki_lab.isa.element_values import element_bits, element_values
from nki_lab.kernel_runtime.protocols import TileContent
from nki_lab.wire.values import HISTOGRAM, MARKS, ValuesAsked, encode_values, relative_error
from tests.wire.reader import read

Array = np.ndarray[Any, Any]
ASKED = ValuesAsked(request=7, step=3, buffer=2)


def content(dtype: DType, codes: Array, **more: Any) -> TileContent:
    """A tile of the given bits."""
    host = np.dtype(dtype.host)
    return TileContent(dtype=dtype, values=codes.astype(f"u{dtype.nbytes}").view(host).reshape(codes.shape), **more)


def drawn(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> TileContent:
    codes = np.random.default_rng(seed).integers(0, 1 << 8 * dtype.nbytes, shape, np.uint64)
    return content(dtype, codes & 1 if dtype.kind == "bool" else codes)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_the_counts_of_every_dtype_are_those_of_numpy(dtype: DType) -> None:
    tile = drawn(dtype, (16, 64))
    with np.errstate(all="ignore"):
        header, tables = read(encode_values(ASKED, tile))
        numbers = element_values(tile.values, dtype).astype(np.float64)
    columns = 64 * (4 if dtype.kind == "packed" else 1)
    assert (header["request"], header["step"], header["buffer"], header["dtype"]) == (7, 3, 2, dtype.name)
    assert (header["rows"], header["columns"], header["shape"]) == (16, columns, [16, 64])
    counts = header["counts"]
    assert counts["nan"] == np.isnan(numbers).sum()
    assert counts["inf"] == np.isinf(numbers).sum()
    assert counts["zero"] == (numbers == 0).sum()
    assert counts["unwritten"] == 0
    finite = numbers[np.isfinite(numbers)]
    if dtype.kind in {"float", "packed"}:
        assert counts["saturated"] == (np.abs(finite) >= dtype.max_finite).sum()
        smallest = 2.0 ** (dtype.smallest_exponent + dtype.mantissa_bits) if dtype.mantissa_bits else 0
        assert counts["subnormal"] == ((np.abs(finite) < smallest) & (finite != 0)).sum()
    assert header["low"] == finite.min()
    assert header["high"] == finite.max()
    assert math.isclose(header["mean"], finite.mean(), rel_tol=1e-9)
    assert math.isclose(header["std"], finite.std(), rel_tol=1e-9)
    assert tables["histogram"]["count"].sum() == len(finite)
    with np.errstate(all="ignore"):
        found = tables["cells"]["value"].astype(np.float64)
    assert np.array_equal(found, numbers.ravel(), equal_nan=True)
    nan = tables["cells"]["marks"] & MARKS["nan"]
    assert np.array_equal(nan != 0, np.isnan(numbers).ravel())


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn_x4"])
def test_bits_of_narrow_floats_go_with_their_numbers(name: str) -> None:
    tile = drawn(DTYPES[name], (4, 8))
    _, tables = read(encode_values(ASKED, tile))
    assert np.array_equal(tables["bits"]["bits"], element_bits(tile.values, tile.dtype).ravel())


def test_payloads_of_nan_survive() -> None:
    codes = np.array([[0x7FC00001, 0xFFC12345, 0x7F800001, 0x3F800000]])
    _, tables = read(encode_values(ASKED, content(DTYPES["float32"], codes)))
    assert tables["cells"]["value"].dtype == np.float32
    assert tables["cells"]["value"].view(np.uint32).tolist() == codes.ravel().tolist()


def test_every_code_of_packed_numbers_is_read() -> None:
    codes = np.array([[0x7654, 0x3210, 0xFEDC, 0xBA98]])
    tile = content(DTYPES["float4_e2m1fn_x4"], codes)
    _, tables = read(encode_values(ASKED, tile))
    assert tables["cells"]["value"].tolist() == [
        *(2, 3, 4, 6), *(0, 0.5, 1, 1.5), *(-2, -3, -4, -6), *(-0.0, -0.5, -1, -1.5)
    ]  # fmt: skip
    assert tables["bits"]["bits"].tolist()[:5] == [4, 5, 6, 7, 0]


def test_what_nothing_wrote_is_counted_apart() -> None:
    values = np.full((4, 4), np.nan, np.float32)
    values[:2] = 1
    written = np.zeros((4, 4), bool)
    written[:2] = True
    header, tables = read(encode_values(ASKED, TileContent(dtype=DTYPES["float32"], values=values, written=written)))
    assert header["counts"] == {"nan": 0, "inf": 0, "saturated": 0, "subnormal": 0, "zero": 0, "unwritten": 8}
    assert (header["low"], header["high"]) == (1, 1)
    assert (tables["cells"]["marks"] == np.where(written, 0, MARKS["unwritten"]).ravel()).all()


@pytest.mark.parametrize("shape", [(1,), (1, 1), (128, 0), (0, 4), (2, 3, 4, 5, 6), (7,)])
def test_any_shape_is_a_table(shape: tuple[int, ...]) -> None:
    header, tables = read(encode_values(ASKED, drawn(DTYPES["bfloat16"], shape)))
    assert header["rows"] * header["columns"] == math.prod(shape) == len(tables["cells"]["value"])
    assert header["shape"] == list(shape)
    if not math.prod(shape):
        assert "low" not in header
        assert "histogram" not in tables


def test_rows_of_hbm_are_all_dimensions_but_the_last() -> None:
    tile = drawn(DTYPES["float32"], (2, 3, 4), seed=1)
    header, _ = read(encode_values(ASKED, TileContent(dtype=tile.dtype, values=tile.values, rows=2)))
    assert (header["rows"], header["columns"], header["lead"]) == (6, 4, 2)


@given(st.integers(1, 40), st.integers(1, 90), st.integers(1, 64), st.integers(0, 2**32 - 1), st.integers(0, 4))
def test_a_cell_shows_the_largest_magnitude_of_its_elements_and_every_mark(
    rows: int, columns: int, most: int, seed: int, broken: int
) -> None:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((rows, columns)).astype(np.float32)
    for _ in range(broken):
        values[rng.integers(rows), rng.integers(columns)] = rng.choice([np.nan, np.inf])
    written = rng.random((rows, columns)) > 0.1
    tile = TileContent(dtype=DTYPES["float32"], values=values, written=written)
    header, tables = read(encode_values(ASKED, tile, most_cells=most))
    high, wide = -(-rows // header["row_bin"]), -(-columns // header["column_bin"])
    assert high * wide <= most
    value, marks = (tables["cells"][name].reshape(high, wide) for name in ("value", "marks"))
    for row in range(high):
        for column in range(wide):
            part = np.s_[
                row * header["row_bin"] : (row + 1) * header["row_bin"],
                column * header["column_bin"] : (column + 1) * header["column_bin"],
            ]
            known = values[part][written[part]]
            finite = known[np.isfinite(known)]
            assert bool(marks[row, column] & MARKS["nan"]) == bool(np.isnan(known).any())
            assert bool(marks[row, column] & MARKS["inf"]) == bool(np.isinf(known).any())
            assert bool(marks[row, column] & MARKS["unwritten"]) == (not written[part].all())
            if finite.size:
                assert abs(value[row, column]) == np.abs(finite).max()
    if header["excerpt"]:
        row, column, height, width = header["excerpt"]
        shown = tables["excerpt"]["value"].reshape(height, width)
        assert np.array_equal(shown, values[row : row + height, column : column + width], equal_nan=True)


def test_a_window_lies_inside_of_its_tile() -> None:
    tile = drawn(DTYPES["int32"], (64, 100))
    asked = ValuesAsked(request=1, step=0, buffer=0, excerpt=(60, 10**9))
    header, tables = read(encode_values(asked, tile, most_cells=16))
    assert header["excerpt"] == [32, 68, 32, 32]
    assert np.array_equal(tables["excerpt"]["value"].reshape(32, 32), tile.values[32:, 68:])


def test_a_change_is_zero_where_bits_are_the_same() -> None:
    kind = DTYPES["float32"]
    old = TileContent(dtype=kind, values=np.array([[1, np.nan, np.inf, 2]], np.float32))
    new = TileContent(dtype=kind, values=np.array([[1.5, np.nan, np.inf, np.nan]], np.float32))
    header, tables = read(encode_values(ASKED, new, before=old))
    assert tables["cells"]["value"][:3].tolist() == [0.5, 0, 0]
    assert np.isnan(tables["cells"]["value"][3])
    assert header["kind"] == "float"


def test_errors_are_relative_to_the_reference_or_a_share_of_its_row() -> None:
    have = np.array([[1.1, 0.001, np.nan, np.inf], [1, 2, 3, 4]])
    want = np.array([[1.0, 0.0, 1.0, np.inf], [1, 2, 3, 4]])
    error = relative_error(have, want)
    assert error[0].tolist() == [pytest.approx(0.1), pytest.approx(0.1), np.inf, 0]
    assert not error[1].any()


def test_a_reference_stands_beside_the_values() -> None:
    tile = drawn(DTYPES["bfloat16"], (8, 8), seed=4)
    values = np.random.default_rng(1).standard_normal((8, 8))
    tile = TileContent(dtype=tile.dtype, values=values.astype(tile.values.dtype))
    asked = ValuesAsked(request=1, step=0, buffer=0, against="shadow")
    header, tables = read(encode_values(asked, tile, reference=values, references=("shadow",)))
    assert header["against"] == "shadow"
    assert header["references"] == ["shadow"]
    error = relative_error(tile.values.astype(np.float32), values)
    assert np.array_equal(tables["cells"]["error"], error.ravel())
    assert header["error"]["largest"] == error.max()
    assert (header["error"]["row"], header["error"]["column"]) == np.unravel_index(error.argmax(), error.shape)
    assert tables["histogram"]["reference"].sum() == 64
    other, rest = read(encode_values(asked, tile, reference=values[:4]))
    assert other["against"] == ""
    assert "error" not in rest["cells"]


def test_a_histogram_of_equal_values_has_one_step() -> None:
    tile = TileContent(dtype=DTYPES["uint8"], values=np.full((3, 5), 9, np.uint8))
    _, tables = read(encode_values(ASKED, tile))
    assert len(tables["histogram"]["count"]) == HISTOGRAM
    assert sorted(tables["histogram"]["count"].tolist())[-2:] == [0, 15]
