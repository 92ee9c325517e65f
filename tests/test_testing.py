"""Comparing arrays: what counts as close, and what is said where it is not."""

from __future__ import annotations

import math
import re
from typing import Any

import ml_dtypes
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nki_lab
from nki_lab import testing
from nki_lab.isa.dtype import DTYPES, FLOATS
from nki_lab.query import explain
from nki_lab.testing import assert_close, quantize_mx, tolerance, ulp

NARROW = ["float16", "bfloat16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2"]


def test_the_documented_table_is_the_one_in_use() -> None:
    rows = re.findall(r"^\| (\w[\w, ]*) \| 2\^(-\d+) \| (\d+) \| ([\d.e-]+) \|$", testing.__doc__ or "", re.MULTILINE)
    documented = {
        name: (int(u), int(growth), float(rtol)) for names, u, growth, rtol in rows for name in names.split(", ")
    }
    assert set(documented) == {kind.name for kind in testing.GROWTH}
    for name, (u, growth, rtol) in documented.items():
        kind = DTYPES[name]
        assert (-(kind.mantissa_bits + 1), testing.GROWTH[kind]) == (u, growth)
        assert tolerance(name) == pytest.approx(rtol, rel=0.03)


def test_integers_are_compared_exactly() -> None:
    assert tolerance("int32") == tolerance(nl.bool_) == tolerance(nl.float8_e5m2_x4) == 0
    assert_close(np.arange(5, dtype=np.int32), np.arange(5))
    with pytest.raises(AssertionError, match=r"1 of 5 elements differ; the worst at \[3\]: actual 3, expected 4"):
        assert_close(np.arange(5, dtype=np.int32), [0, 1, 2, 4, 4])
    with pytest.raises(AssertionError, match="elements differ"):
        assert_close(np.array([True]), np.array([False]))
    assert_close(np.array([5], np.int32), np.array([6]), atol=1)


@pytest.mark.parametrize("name", NARROW)
@given(data=st.data())
def test_what_is_rounded_once_is_close(name: str, data: st.DataObject) -> None:
    kind = DTYPES[name]
    values = data.draw(st.lists(st.floats(-kind.max_finite, kind.max_finite), min_size=1, max_size=20))
    wanted = np.array(values)
    assert_close(wanted.astype(kind.host), wanted)


@pytest.mark.parametrize("name", ["float32", *NARROW])
def test_what_is_off_by_twice_the_tolerance_is_not_close(name: str) -> None:
    kind = DTYPES[name]
    wanted = np.full(8, 1.0)
    actual = wanted.copy()
    actual[5] = 1 + 4 * tolerance(name)
    with pytest.raises(AssertionError, match=rf"1 of 8 elements.*{name}") as caught:
        assert_close(actual.astype(kind.host), wanted)
    assert "worst at [5]" in str(caught.value)
    assert "ulp" in str(caught.value)


def test_small_sums_of_large_terms_are_judged_by_the_terms() -> None:
    wanted = np.array([1000.0, 0.001])
    assert_close(np.array([1000.0, 0.002], np.float32), wanted)
    with pytest.raises(AssertionError):
        assert_close(np.array([1000.0, 0.002], np.float32), wanted, atol=0)


def test_given_tolerances_win() -> None:
    assert_close(np.float32([1.0]), [1.5], rtol=0.5)
    assert_close(np.float32([1.0]), [1.5], atol=0.5)
    with pytest.raises(AssertionError):
        assert_close(np.float32([1.0]), [1.0001], rtol=0, atol=0)
    assert_close(np.float32([1.0]), [1.001], dtype="bfloat16")


def test_special_values_are_close_to_themselves_only() -> None:
    special = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    assert_close(special, special.astype(np.float64))
    for wrong in ([1.0, np.inf, -np.inf, 1.0], [np.nan, -np.inf, -np.inf, 1.0], [np.nan, np.inf, -np.inf, np.nan],
                  [np.nan, 1e30, -np.inf, 1.0]):  # fmt: skip
        with pytest.raises(AssertionError, match="1 of 4 elements"):
            assert_close(np.float32(wrong), special)
        with pytest.raises(AssertionError, match="1 of 4 elements"):
            assert_close(special, np.float32(wrong))


def test_what_overflows_in_the_dtype_is_its_infinity() -> None:
    assert_close(np.array([np.inf], np.float16), np.array([70000.0]))
    with pytest.raises(AssertionError):
        assert_close(np.array([np.inf], np.float16), np.array([60000.0]))


def test_shapes_must_be_equal() -> None:
    with pytest.raises(AssertionError, match=r"shapes differ: actual is \(2, 1\), expected \(2,\)"):
        assert_close(np.ones((2, 1), np.float32), np.ones(2))


def test_numbers_and_empty_arrays_are_arrays_too() -> None:
    assert_close(1.0, 1.0)
    assert_close(3, 3)
    assert_close(np.ones((0, 3), np.float32), np.ones((0, 3)))
    with pytest.raises(AssertionError, match="the only element"):
        assert_close(np.float32(1.0), 2.0)


def test_packed_values_are_compared_bit_by_bit() -> None:
    host = np.dtype(nl.float8_e5m2_x4)
    one = np.arange(4, dtype=np.uint32)
    assert_close(one.view(host), one.view(host))
    with pytest.raises(AssertionError, match="elements differ"):
        assert_close(one.view(host), one[::-1].copy().view(host))


def test_arrays_of_dtypes_that_nki_lacks_are_widened() -> None:
    assert_close(np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-7]))
    assert_close(np.array([1, 2]), np.array([1, 2]))


@pytest.mark.parametrize("kind", sorted(FLOATS, key=str), ids=str)
@given(data=st.data())
def test_an_ulp_is_the_distance_to_the_next_value(kind: Any, data: st.DataObject) -> None:
    if kind.name in ("tfloat32", "float8_e8m0fnu"):
        value, expected = 1.0, 2.0**-kind.mantissa_bits
    else:
        bits = np.dtype(f"u{kind.nbytes}")
        number = data.draw(st.integers(0, 2 ** (8 * kind.nbytes - 1) - 2))
        value, above = (float(np.array(n, bits).view(kind.host)) for n in (number, number + 1))
        if not (math.isfinite(value) and math.isfinite(above)):
            return
        expected = above - value
    assert ulp(value, kind) == expected


def test_an_ulp_of_no_number_is_none() -> None:
    assert math.isnan(ulp(math.inf, DTYPES["float32"]))


def test_the_message_tells_the_size_of_the_error() -> None:
    actual = np.ones((4, 3), ml_dtypes.bfloat16)
    actual[2, 1] = 1.5
    with pytest.raises(AssertionError) as caught:
        assert_close(actual, np.ones((4, 3)))
    assert str(caught.value) == (
        "1 of 12 elements (8.33 %) are further off than bfloat16 explains\n"
        "  worst at [2, 1]: actual 1.5, expected 1\n"
        "  difference 0.5, which is 64 ulp; allowed 0.0156 + 0.0156 * |expected| = 0.0312"
    )


@pytest.mark.parametrize("dtype", ["float8_e5m2", "float8_e4m3fn"])
def test_both_algorithms_of_mx_quantization_have_a_reference(dtype: str) -> None:
    import nki
    import nki.isa as nisa
    import nki.language as nl

    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        packed = nl.ndarray((32, 16), getattr(nl, f"{dtype}_x4"), buffer=nl.sbuf)
        scale = nl.ndarray((32, 16), nl.uint8, buffer=nl.sbuf)
        nisa.memset(dst=scale, value=0)
        nisa.quantize_mx(dst=packed, src=tile, dst_scale=scale)
        out = nl.ndarray(packed.shape, packed.dtype, buffer=nl.shared_hbm)
        scales = nl.ndarray(scale.shape, scale.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=packed)
        nisa.dma_copy(dst=scales, src=scale)
        return out, scales

    x = np.random.default_rng(3).normal(size=(32, 64)) * np.exp2(np.arange(64) % 13)
    x[:8, :4] = 0
    x = x.astype(ml_dtypes.bfloat16)
    packed, scales = (np.asarray(item) for item in nki_lab.run(kernel, x, target="trn3").outputs)
    elements, bytes_ = quantize_mx(x, dtype)
    np.testing.assert_array_equal(np.ascontiguousarray(packed).view(np.uint8).reshape(32, 64), elements.view(np.uint8))
    np.testing.assert_array_equal(scales[:4], bytes_)
    assert bytes_[0, 0] == 0
    wide, narrow = quantize_mx(x, dtype, "ocp")
    assert (bytes_[bytes_ > 0] == narrow[bytes_ > 0] + 1).all()  # half the scale
    kept = np.abs(wide.astype(np.float64)) < float(ml_dtypes.finfo(wide.dtype).max)
    normal = kept & (np.abs(elements.astype(np.float64)) > float(ml_dtypes.finfo(wide.dtype).smallest_normal))
    np.testing.assert_array_equal(wide[normal].astype(np.float64), 2 * elements[normal].astype(np.float64))
    with pytest.raises(ValueError, match="choose float8_e5m2"):
        quantize_mx(x, "bfloat16")


def test_the_explanation_of_quantize_mx_names_the_other_algorithm() -> None:
    assert "OCP" in explain("quantize_mx")
    assert "testing.quantize_mx" in explain("quantize_mx")
