"""tensor_tensor, tensor_scalar, scalar_tensor_tensor and reciprocal: what the documentation says by example."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nki_lab.diagnostic import NkiError
from tests.calls import kernel_of, traced
from tests.isa.ops.kernels import refused, run

Array = np.ndarray[Any, Any]


def pair(dtype: Any = np.float32, shape: tuple[int, int] = (4, 6)) -> tuple[Array, Array]:
    rng = np.random.default_rng(3)
    return tuple((rng.standard_normal(shape) * 4).astype(dtype) for _ in range(2))  # type: ignore[return-value]


BODY = """
def kernel(a, b):
    x = nl.ndarray(a.shape, a.dtype)
    y = nl.ndarray(b.shape, b.dtype)
    nisa.dma_copy(x, a)
    nisa.dma_copy(y, b)
    z = nl.ndarray({shape}, nl.{dtype})
    {call}
    out = nl.ndarray({shape}, nl.{dtype}, buffer=nl.shared_hbm)
    nisa.dma_copy(out, z)
    return out
"""


def compute(call: str, a: Array, b: Array, dtype: str = "float32", *, target: str = "trn2") -> Array:
    (found,) = run(BODY.format(shape=a.shape, dtype=dtype, call=call), a, b, target=target)
    return found


def test_float32_to_integer_rounds_half_to_even_and_stops_at_the_ends() -> None:
    # Release notes of NKI 0.6: 2.5 gives 2, 3.5 gives 4, -2.5 gives -2; 300.7 to uint8 gives 255, -1 gives 0.
    a = np.array([[2.5, 3.5, -2.5, 300.7, -1.0, 1e10]], np.float32)
    zero = np.zeros_like(a)
    add = "nisa.tensor_tensor(z, x, y, nl.add)"
    assert compute(add, a, zero, "int32")[0].tolist() == [2, 4, -2, 301, -1, 2147483647]
    assert compute(add, a, zero, "uint8")[0].tolist() == [2, 4, 0, 255, 0, 255]
    assert compute(add, a, zero, "int8")[0].tolist() == [2, 4, -2, 127, -1, 127]


def test_int32_is_exact_on_gpsimd_and_float32_on_vector() -> None:
    a = np.array([[2**24 + 1, 2**31 - 1, -(2**31), 7]], np.int32)
    b = np.array([[2, 1, -1, 6]], np.int32)
    assert compute("nisa.tensor_tensor(z, x, y, nl.add)", a, b, "int32")[0].tolist() == [
        2**24 + 3,
        -(2**31),
        2**31 - 1,
        13,
    ]
    vector = "nisa.tensor_tensor(z, x, y, nl.add, engine=nisa.engine.vector)"
    assert compute(vector, a, b, "int32")[0].tolist() == [2**24 + 2, 2**31 - 1, -(2**31), 13]
    assert compute("nisa.tensor_tensor(z, x, y, nl.multiply)", a, b, "int32")[0, 3] == 42


def test_int32_with_uint32_is_exact_too() -> None:
    a = np.array([[-1, 5, -(2**31)]], np.int32)
    b = np.array([[2**32 - 1, 2**31, 1]], np.uint32)
    assert compute("nisa.tensor_tensor(z, x, y, nl.less)", a, b, "int32")[0].tolist() == [1, 1, 1]
    total = compute("nisa.tensor_tensor(z, x, y, nl.add)", a, b, "uint32")[0]
    assert total.tolist() == [(-1 + 2**32 - 1) % 2**32, 2**31 + 5, 2**31 + 1]


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logic_asks_for_nonzero_and_gives_one_or_zero(name: str) -> None:
    a = np.array([[0, 0, 2, -3, np.nan, 0]], np.float32)
    b = np.array([[0, 5, 0, 0.5, 0, np.nan]], np.float32)
    want = getattr(np, name)(a != 0, b != 0).astype(np.float32)
    np.testing.assert_array_equal(compute(f"nisa.tensor_tensor(z, x, y, nl.{name})", a, b), want)


def test_comparisons_with_nan_are_false_but_unequal() -> None:
    a = np.full((1, 1), np.nan, np.float32)
    got = {n: compute(f"nisa.tensor_tensor(z, x, y, nl.{n})", a, a)[0, 0] for n in ("equal", "not_equal", "less_equal")}
    assert got == {"equal": 0, "not_equal": 1, "less_equal": 0}


def test_a_stage_rounds_to_float32_not_to_the_tiles_dtype() -> None:
    # 1 + 2**-9 is no bfloat16; the second stage must still see it.
    a = np.full((1, 1), 1.0, ml_dtypes.bfloat16)
    call = "nisa.tensor_scalar(z, x, nl.add, 2.0**-9, op1=nl.subtract, operand1=1.0)"
    assert compute(call, a, a, "bfloat16")[0, 0] == 2.0**-9


@pytest.mark.parametrize(("op", "forward", "backward"), [("subtract", -1.0, 1.0), ("power", 9.0, 8.0)])
def test_reverse_swaps_the_sides(op: str, forward: float, backward: float) -> None:
    a = np.full((1, 1), 3.0 if op == "power" else 2.0, np.float32)
    number = 2.0 if op == "power" else 3.0
    assert compute(f"nisa.tensor_scalar(z, x, nl.{op}, {number})", a, a)[0, 0] == forward
    assert compute(f"nisa.tensor_scalar(z, x, nl.{op}, {number}, reverse0=True)", a, a)[0, 0] == backward


def test_the_second_stage_swaps_by_itself() -> None:
    a = np.full((1, 1), 2.0, np.float32)
    call = "nisa.tensor_scalar(z, x, nl.multiply, 3.0, op1=nl.subtract, operand1=10.0, reverse1=True)"
    assert compute(call, a, a)[0, 0] == 4.0


def test_a_skipped_stage_passes_the_data_on() -> None:
    a, b = pair()
    np.testing.assert_array_equal(compute("nisa.tensor_scalar(z, x, None, None)", a, b), a)
    call = "nisa.tensor_scalar(z, x, None, None, op1=nl.add, operand1=1.0)"
    np.testing.assert_array_equal(compute(call, a, b), a + np.float32(1))


def test_a_tile_of_one_column_is_broadcast_along_each_row() -> None:
    a, b = pair()
    call = "nisa.tensor_scalar(z, x, nl.multiply, y[:, 2:3], op1=nl.add, operand1=y[:, 0:1])"
    np.testing.assert_array_equal(compute(call, a, b), a * b[:, 2:3] + b[:, 0:1])


def test_bits_are_shifted_without_their_sign() -> None:
    a = np.array([[-1, -(2**31), 5]], np.int32)
    logical = a.view(np.uint32) >> 1
    got = compute("nisa.tensor_scalar(z, x, nl.right_shift, 1)", a, a, "int32")
    np.testing.assert_array_equal(got.view(np.uint32), logical)
    got = compute("nisa.tensor_scalar(z, x, nl.left_shift, 2, op1=nl.bitwise_or, operand1=3)", a, a, "int32")
    np.testing.assert_array_equal(got, (a << 2) | 3)


def test_operands_of_several_free_shapes_meet_element_by_element() -> None:
    text = """
def kernel(a, b):
    x = nl.ndarray((4, 3, 4), nl.float32)
    y = nl.ndarray((4, 4, 3), nl.float32)
    z = nl.ndarray((4, 2, 6), nl.float32)
    nisa.dma_copy(x, a)
    nisa.dma_copy(y, b)
    nisa.tensor_tensor(z, x, y, nl.add)
    out = nl.ndarray((4, 12), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, z)
    return out
"""
    a = np.arange(48, dtype=np.float32).reshape(4, 3, 4)
    b = np.arange(48, dtype=np.float32).reshape(4, 4, 3) * 100
    (got,) = run(text, a, b)
    np.testing.assert_array_equal(got, a.reshape(4, 12) + b.reshape(4, 12))


@pytest.mark.parametrize("shift", [1, -1])
def test_an_overlapping_destination_reads_before_it_writes(shift: int) -> None:
    text = f"""
def kernel(a):
    x = nl.ndarray((2, 9), nl.float32)
    nisa.dma_copy(x, a)
    nisa.tensor_tensor(x[:, {max(shift, 0)}:{8 + max(shift, 0)}], x[:, {max(-shift, 0)}:{8 + max(-shift, 0)}],
                       x[:, 0:8], nl.add)
    return x
"""
    a = np.arange(18, dtype=np.float32).reshape(2, 9)
    (got,) = run(text, a)
    want = a.copy()
    want[:, max(shift, 0) : 8 + max(shift, 0)] = a[:, max(-shift, 0) : 8 + max(-shift, 0)] + a[:, 0:8]
    np.testing.assert_array_equal(got, want)


def test_reciprocal_is_one_over_x() -> None:
    a = np.array([[1, -4, 0, -0.0, np.inf, 3]], np.float32)
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(compute("nisa.reciprocal(z, x)", a, a), 1 / a)


REFUSALS = [
    ("tensor_tensor(z, x, y, nl.abs)", "NKI215"),
    ("tensor_tensor(z, x, y, 'average')", "NKI215"),
    ("tensor_tensor(z, x, y, nl.bitwise_and)", "NKI202"),
    ("tensor_tensor(z, x, y, nl.abs_max)", "NKI221"),
    ("tensor_tensor(p, x, y, nl.power)", "NKI208"),
    ("tensor_tensor(z, x, y, nl.power, engine=nisa.engine.vector)", "NKI208"),
    ("tensor_tensor(z, p, y, nl.add, engine=nisa.engine.gpsimd)", "NKI208"),
    ("tensor_tensor(z, x, y, nl.add, engine=nisa.engine.scalar)", "NKI208"),
    ("tensor_tensor(z, p, p, nl.add)", "NKI223"),
    ("tensor_scalar(z, x, nl.add, None)", "NKI218"),
    ("tensor_scalar(z, x, nl.add, 1.0, op1=nl.add)", "NKI218"),
    ("tensor_scalar(z, x, nl.add, 1.0, operand1=1.0)", "NKI218"),
    ("tensor_scalar(z, x, None, 1.0)", "NKI218"),
    ("tensor_scalar(z, x, nl.abs, 2.0)", "NKI218"),
    ("tensor_scalar(z, x, nl.add, 1.0, op1=nl.bitwise_and, operand1=1)", "NKI202"),
    ("tensor_scalar(i, i, nl.bitwise_and, 1.5)", "NKI202"),
    ("tensor_scalar(z, x, nl.add, w[:, 0:1])", "NKI202"),
    ("tensor_scalar(z, x, nl.relu, None)", "NKI221"),
    ("tensor_scalar(z, x, nl.maximum, 1.0, engine=nisa.engine.scalar)", "NKI208"),
    ("tensor_scalar(z, x, nl.add, 1.0, engine=nisa.engine.gpsimd)", "NKI208"),
    ("tensor_scalar(z, x, 'average', 1.0)", "NKI215"),
    ("tensor_scalar(z, x, nl.add, y)", "NKI203"),
    ("scalar_tensor_tensor(z, x, nl.bitwise_and, 1, nl.add, y)", "NKI215"),
    ("scalar_tensor_tensor(z, x, nl.add, 1.0, nl.abs, y)", "NKI215"),
    ("scalar_tensor_tensor(z, p, nl.add, 1.0, nl.add, p)", "NKI223"),
    ("scalar_tensor_tensor(z, x, nl.add, None, nl.add, y)", "NKI013"),
    ("reciprocal(z, x[:, 0:3])", "NKI203"),
]


@pytest.mark.parametrize(("call", "code"), REFUSALS)
def test_it_is_refused(call: str, code: str) -> None:
    assert refused(call, "trn2") == code


def test_the_scalar_engine_multiplies_and_adds_from_v3() -> None:
    call = "tensor_scalar(z, x, nl.multiply, 2.0, op1=nl.add, operand1=1.0, engine=nisa.engine.scalar)"
    assert refused(call, "trn1") == "NKI208"
    assert refused(call, "trn2") == refused(call, "trn3") == ""


def test_the_scalar_engine_has_all_arithmetic_from_v4() -> None:
    for stages in ("nl.maximum, 1.0", "nl.subtract, c, True", "nl.subtract, c, op1=nl.multiply, operand1=c"):
        call = f"tensor_scalar(z, x, {stages}, engine=nisa.engine.scalar)"
        assert refused(call, "trn2") == "NKI208"
        assert refused(call, "trn3") == ""
    assert refused("tensor_scalar(i, i, nl.bitwise_and, 1, engine=nisa.engine.scalar)", "trn3") == "NKI208"


def test_v4_has_what_older_targets_lack() -> None:
    for call in ("tensor_tensor(z, x, y, nl.abs_max)", "tensor_scalar(z, x, nl.square, None)"):
        assert refused(call, "trn3") == ""


def test_a_message_names_operand_shapes() -> None:
    text = "def kernel(a):\n    x = nl.ndarray((128, 512), nl.float32)\n    nisa.tensor_tensor(x, x, x[:, 0:511], nl.add)\n"
    with pytest.raises(NkiError) as caught:
        traced(kernel_of(text), [np.zeros((1, 1), np.float32)], ["float32"], "trn2")
    (found,) = caught.value.diagnostics
    assert found.message == ("tensor_tensor: data2 (128, 511) has 511 elements per partition, dst (128, 512) has 512")
    assert (found.operand, found.line, found.column) == ("data2", 3, 30)
