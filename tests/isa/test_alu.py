"""The operators of the arithmetic units against plain Python arithmetic, element by element."""

from __future__ import annotations

import math
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from nki_lab.diagnostic import NkiError
from nki_lab.isa.alu import ALU, AluOp, alu_of, exact_int32, identity_of
from nki_lab.isa.dtype import F32, INT8, INT32, UINT32

ARITHMETIC = [op for op in ALU.values() if op.category != "bitvec"]
BITVEC = [op for op in ALU.values() if op.category == "bitvec"]
SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3.4028235e38, -3.4028235e38, 1e20],
    np.float32,
)


def _larger(a: float, b: float) -> float:
    return math.nan if math.isnan(a) or math.isnan(b) else max(a, b)


def _smaller(a: float, b: float) -> float:
    return math.nan if math.isnan(a) or math.isnan(b) else min(a, b)


PLAIN: dict[str, Callable[[float, float], float]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "maximum": _larger,
    "minimum": _smaller,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "greater_equal": operator.ge,
    "greater": operator.gt,
    "less_equal": operator.le,
    "less": operator.lt,
    "logical_and": lambda a, b: a != 0 and b != 0,
    "logical_or": lambda a, b: a != 0 or b != 0,
    "logical_xor": lambda a, b: (a != 0) != (b != 0),
    "logical_not": lambda a, b: a == 0,
    "abs_max": lambda a, b: a if abs(a) > abs(b) else b,
    "abs_min": lambda a, b: a if abs(a) < abs(b) else b,
    "abs": lambda a, b: abs(a),
    "square": lambda a, b: a * a,
    "relu": lambda a, b: _larger(a, 0.0),
    "bypass": lambda a, b: a,
    "average": operator.add,
    "reciprocal": lambda a, b: 1 / a if a else math.copysign(math.inf, a),
}


def _apply(op: AluOp, a: Any, b: Any, out: Any = None) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        return op.apply(a, b, np.empty_like(a) if out is None else out)


def test_the_table_has_every_documented_operator() -> None:
    assert set(ALU) == {
        "invert", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift",
        "add", "subtract", "multiply", "maximum", "minimum", "equal", "not_equal", "greater_equal", "greater",
        "less_equal", "less", "logical_and", "logical_or", "logical_xor", "power", "abs_max", "abs_min",
        "abs", "square", "relu", "rsqrt", "reciprocal", "bypass", "average", "logical_not",
    }  # fmt: skip
    assert {op.name for op in ALU.values() if op.reduction} == {
        "bitwise_and", "bitwise_or", "bitwise_xor", "add", "subtract", "multiply", "maximum", "minimum",
        "logical_and", "logical_or", "logical_xor", "average",
    }  # fmt: skip
    assert {op.name for op in ALU.values() if op.since == 4} == {"abs_max", "abs_min", "square", "relu", "bypass"}


@pytest.mark.parametrize("op", ALU.values(), ids=str)
def test_a_row_is_complete_and_one_object(op: AluOp) -> None:
    assert ALU[op.name] is op
    assert op.doc
    assert op.engines
    assert op.since == min(op.engines.values())
    assert pickle.loads(pickle.dumps(op)) is op
    assert op.reduction or op.identity is None


@pytest.mark.parametrize("name", PLAIN)
def test_arithmetic_agrees_with_python_on_special_values(name: str) -> None:
    a, b = (side.reshape(-1).copy() for side in np.meshgrid(SPECIAL, SPECIAL))
    got = _apply(ALU[name], a, b)
    with np.errstate(over="ignore"):
        expected = np.array([PLAIN[name](float(x), float(y)) for x, y in zip(a, b, strict=True)]).astype(np.float32)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("op", [op for op in ARITHMETIC if op.arity == 2], ids=str)
@pytest.mark.parametrize("scalar", [0.0, -1.5, float("nan"), float("inf"), float("-inf")])
def test_a_scalar_operand_means_what_an_array_of_it_means(op: AluOp, scalar: float) -> None:
    spread = _apply(op, SPECIAL, np.full_like(SPECIAL, scalar))
    for operand in (scalar, np.float32(scalar), np.array(scalar, np.float32), np.full(1, scalar, np.float32)):
        np.testing.assert_array_equal(_apply(op, SPECIAL, operand), spread)


@pytest.mark.parametrize("op", ARITHMETIC, ids=str)
@settings(max_examples=20)
@given(data=st.data())
def test_out_may_be_either_operand(op: AluOp, data: st.DataObject) -> None:
    shape = data.draw(npst.array_shapes(max_dims=3, max_side=7))
    values = npst.arrays(np.float32, shape, elements=st.floats(width=32))
    a, b = data.draw(values), data.draw(values)
    expected = _apply(op, a, b)
    first, second, both = a.copy(), b.copy(), a.copy()
    np.testing.assert_array_equal(_apply(op, first, b, first), expected)
    np.testing.assert_array_equal(_apply(op, a, second, second), expected)
    np.testing.assert_array_equal(_apply(op, both, both, both), _apply(op, a, a))


@pytest.mark.parametrize("op", ARITHMETIC, ids=str)
def test_column_operands_and_strided_views_are_taken(op: AluOp) -> None:
    whole = np.resize(SPECIAL, (8, 24)).astype(np.float32)
    view = whole[::2, ::3]
    column = whole[:4, 1:2]
    expected = _apply(op, np.ascontiguousarray(view), np.ascontiguousarray(np.broadcast_to(column, view.shape)))
    out = np.empty((8, 16), np.float32)
    np.testing.assert_array_equal(_apply(op, view, column, out[::2, ::2]), expected)


def test_logical_and_asks_for_both_to_be_nonzero() -> None:
    a = np.array([0.5, 2, 0, 0, np.nan, 1e-45], np.float32)
    b = np.array([2, -0.25, 3, 0, 1, 4], np.float32)
    np.testing.assert_array_equal(_apply(ALU["logical_and"], a, b), [1, 1, 0, 0, 1, 1])


def test_abs_max_keeps_the_sign_and_prefers_the_second_on_a_tie() -> None:
    a, b = np.array([-3, 2, 2, -2], np.float32), np.array([2, -3, -2, 2], np.float32)
    np.testing.assert_array_equal(_apply(ALU["abs_max"], a, b), [-3, -3, -2, 2])
    np.testing.assert_array_equal(_apply(ALU["abs_min"], a, b), [2, 2, -2, 2])


@given(npst.arrays(np.float32, 64, elements=st.floats(min_value=2.0**-80, max_value=2.0**80, width=32)))
def test_rsqrt_is_within_two_units_in_the_last_place(x: np.ndarray[Any, Any]) -> None:
    exact = 1 / np.sqrt(x.astype(np.float64))
    assert (np.abs(_apply(ALU["rsqrt"], x, None) - exact) <= 2 * np.spacing(exact.astype(np.float32))).all()


def test_rsqrt_at_the_edges() -> None:
    got = _apply(ALU["rsqrt"], np.array([0, np.inf, -1, np.nan], np.float32), None)
    np.testing.assert_array_equal(got, [np.inf, 0, np.nan, np.nan])


@given(
    npst.arrays(np.float32, 16, elements=st.floats(0.125, 8, width=32)),
    npst.arrays(np.float32, 16, elements=st.floats(-8, 8, width=32)),
)
def test_power_follows_float64(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> None:
    np.testing.assert_allclose(_apply(ALU["power"], a, b), a.astype(np.float64) ** b, rtol=1e-6)


# Bit patterns.

BITS: dict[str, Callable[[int, int, int], int]] = {
    "invert": lambda a, b, width: ~a,
    "bitwise_and": lambda a, b, width: a & b,
    "bitwise_or": lambda a, b, width: a | b,
    "bitwise_xor": lambda a, b, width: a ^ b,
    "left_shift": lambda a, b, width: a << b if b < width else 0,
    "right_shift": lambda a, b, width: a >> b,
}


@pytest.mark.parametrize("op", BITVEC, ids=str)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
@settings(max_examples=30)
@given(data=st.data())
def test_bitvec_agrees_with_python_integers(op: AluOp, dtype: type[Any], data: st.DataObject) -> None:
    width = 8 * np.dtype(dtype).itemsize
    numbers = npst.arrays(
        dtype, 9, elements=st.integers(0, 2**width - 1) | st.integers(0, 40).map(lambda n: n % 2**width)
    )
    a, b = data.draw(numbers), data.draw(numbers)
    expected = [BITS[op.name](int(x), int(y), width) % 2**width for x, y in zip(a, b, strict=True)]
    assert _apply(op, a, b).tolist() == expected
    assert _apply(op, a.copy(), b, a).tolist() == expected


def test_right_shift_of_a_negative_pattern_is_logical() -> None:
    patterns = np.array([-1, -8], np.int32).view(np.uint32)
    assert _apply(ALU["right_shift"], patterns, np.uint32(28)).tolist() == [15, 15]


# Reductions.


@pytest.mark.parametrize("op", [op for op in ALU.values() if op.reduction and op.identity is not None], ids=str)
def test_the_identity_leaves_a_value_alone(op: AluOp) -> None:
    bits = op.category == "bitvec"
    values = np.array([0, 1, 7, 200], np.uint8) if bits else np.array([0.0, 1.0, -2.5, np.inf, -np.inf], np.float32)
    if op.name.startswith("logical"):
        values = np.array([0.0, 1.0], np.float32)
    identity = identity_of(op, values.dtype)
    assert identity is not None
    assert identity.dtype == values.dtype
    np.testing.assert_array_equal(_apply(op, values, identity), values)


def test_identities_fit_integer_storage() -> None:
    assert identity_of(ALU["maximum"], np.dtype(np.int32)) == -(2**31)
    assert identity_of(ALU["minimum"], np.dtype(np.uint8)) == 255
    assert identity_of(ALU["bitwise_and"], np.dtype(np.uint32)) == 2**32 - 1
    assert identity_of(ALU["subtract"], np.dtype(np.float32)) is None


# Native 32-bit integers.


@pytest.mark.parametrize(("dtype", "kind"), [(np.int32, INT32), (np.uint32, UINT32)])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
@given(data=st.data())
def test_native_integers_are_exact_modulo_two_to_the_32(
    name: str, dtype: type[Any], kind: Any, data: st.DataObject
) -> None:
    limits = np.iinfo(dtype)
    numbers = npst.arrays(dtype, 8, elements=st.integers(int(limits.min), int(limits.max)))
    a, b = data.draw(numbers), data.draw(numbers)
    native = exact_int32(ALU[name], kind, kind, kind)
    assert native is not None
    got = native(a, b, np.empty_like(a))
    for x, y, result in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        assert (PLAIN[name](x, y) - result) % 2**32 == 0


def test_native_integers_keep_what_float32_cannot() -> None:
    native = exact_int32(ALU["add"], INT32, INT32)
    assert native is not None
    a = np.array([2**24, 2**31 - 2], np.int32)
    assert native(a, np.array([1, 1], np.int32), a).tolist() == [2**24 + 1, 2**31 - 1]


def test_native_maximum_of_a_scalar_stays_exact() -> None:
    native = exact_int32(ALU["maximum"], INT32, INT32)
    assert native is not None
    a = np.array([2**24 + 1, 5], np.int32)
    assert native(a, np.int32(7), np.empty_like(a)).tolist() == [2**24 + 1, 7]


def test_other_dtypes_and_operators_have_no_native_form() -> None:
    assert exact_int32(ALU["add"], INT32, UINT32) is None
    assert exact_int32(ALU["add"], INT32, F32) is None
    assert exact_int32(ALU["add"], INT8, INT8) is None
    assert exact_int32(ALU["power"], INT32, INT32) is None


# Recognition.


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("add", "add"), (np.add, "add"), (np.multiply, "multiply"), (np.max, "maximum"), (np.amax, "maximum"),
        ("min", "minimum"), (np.abs, "abs"), (np.subtract, "subtract"), (np.square, "square"), ("max", "maximum"),
        (np.bitwise_and, "bitwise_and"),
    ],
)  # fmt: skip
def test_operators_are_recognised_by_name_and_by_function(spelling: object, name: str) -> None:
    assert alu_of(spelling) is ALU[name]
    assert alu_of(ALU[name]) is ALU[name]


@pytest.mark.parametrize("spelling", ["ad", "divide", np.exp, None, 3, "", len])
def test_an_unknown_operator_is_refused_with_a_code(spelling: object) -> None:
    with pytest.raises(NkiError) as refused:
        alu_of(spelling)
    assert refused.value.diagnostics[0].code == "NKI012"


def test_a_misspelt_operator_is_answered_with_the_near_one() -> None:
    with pytest.raises(NkiError, match="did you mean maximum"):
        alu_of("maximun")


# Folding and grids.


@pytest.mark.parametrize("op", [op for op in ARITHMETIC if op.reduction], ids=str)
@pytest.mark.parametrize("axes", [(2,), (1, 2)], ids=str)
def test_reduce_folds_the_trailing_axes_from_the_left(op: AluOp, axes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    data = rng.integers(-2, 3, (3, 2, 4)).astype(np.float32)
    rows = data.reshape(*data.shape[: 3 - len(axes)], -1)
    expected = rows[..., 0] != 0 if op.name.startswith("logical") else rows[..., 0]
    expected = expected.astype(np.float32)
    for position in range(1, rows.shape[-1]):
        expected = _apply(op, expected, rows[..., position])
    out = np.full(expected.shape, 9, np.float32)
    assert op.reduce(data, axes, out) is out
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("op", [op for op in BITVEC if op.reduction], ids=str)
def test_reduce_of_bit_patterns(op: AluOp) -> None:
    data = np.array([[12, 10, 9], [255, 1, 3]], np.uint8)
    expected = _apply(op, _apply(op, data[:, 0], data[:, 1]), data[:, 2])
    np.testing.assert_array_equal(op.reduce(data, (1,), np.empty(2, np.uint8)), expected)


@pytest.mark.parametrize("op", [op for op in ALU.values() if op.selects], ids=str)
def test_a_selecting_operator_gives_an_input_or_a_truth_value(op: AluOp) -> None:
    a, b = (side.reshape(-1).copy() for side in np.meshgrid(SPECIAL, SPECIAL))
    got = _apply(op, a, b)
    assert all(g in (x, y, 0, 1) or np.isnan(g) for g, x, y in zip(got, a, b, strict=True))
