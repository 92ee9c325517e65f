"""Element-by-element functions of Beta 1: values, promotion, broadcasting."""

from __future__ import annotations

import operator
from typing import Any

import neuronxcc.nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.beta1 import names
from tests.scale import scaled


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).uniform(0.5, 2, size=shape).astype(np.float32)


def apply(execute: Any, function: Any, *arrays: Any, dtype: Any = nl.float32, precise: bool = False) -> Any:
    """`function` of the loaded arrays, stored as `dtype`."""

    def kernel(*tensors: Any) -> Any:
        result = function(*[nl.load(tensor) for tensor in tensors])
        out = nl.ndarray(result.shape, dtype=dtype, buffer=nl.shared_hbm)
        nl.store(out, result)
        return out

    return execute(kernel, *arrays, precise=precise).outputs


@pytest.mark.parametrize(
    ("name", "numpy"),
    [
        ("exp", np.exp), ("log", np.log), ("sqrt", np.sqrt), ("square", np.square), ("abs", np.abs),
        ("sign", np.sign), ("tanh", np.tanh), ("arctan", np.arctan), ("negative", np.negative),
        ("reciprocal", np.reciprocal), ("rsqrt", lambda x: 1 / np.sqrt(x)), ("relu", lambda x: np.maximum(x, 0)),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x))), ("silu", lambda x: x / (1 + np.exp(-x))),
        ("softplus", lambda x: np.log1p(np.exp(x))), ("logical_not", lambda x: (x == 0).astype(np.float32)),
    ],
)  # fmt: skip
def test_unary_functions_are_numpys(execute: Any, name: str, numpy: Any) -> None:
    source = random(8, 6)
    np.testing.assert_allclose(apply(execute, getattr(nl, name), source), numpy(source), rtol=2e-6)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "maximum", "minimum", "power"])
@pytest.mark.parametrize("shapes", [((8, 6), (8, 6)), ((8, 6), (8, 1)), ((8, 6), (1, 6)), ((8, 6), (1, 1)),
                                    ((8, 1), (1, 6)), ((1, 6), (8, 6))])  # fmt: skip
def test_functions_broadcast_over_partitions_too(execute: Any, name: str, shapes: Any) -> None:
    x, y = random(*shapes[0]), random(*shapes[1])
    want = getattr(np, name)(x, y)
    np.testing.assert_allclose(apply(execute, getattr(nl, name), x, y), want, rtol=2e-6)


def test_operators_broadcast_over_free_dimensions_only(execute: Any) -> None:
    x, y = random(8, 6), random(8, 1)
    np.testing.assert_array_equal(apply(execute, operator.add, x, y), x + y)
    with pytest.raises(NkiError, match="NKI203 the operands of add have 8 and 1 partitions"):
        apply(execute, operator.add, x, random(1, 6))


def test_a_column_broadcasts_against_a_tile_of_more_dimensions(execute: Any) -> None:
    x, y = random(8, 3, 4), random(8, 1)
    np.testing.assert_array_equal(apply(execute, nl.multiply, x, y), x * y[:, :, None])


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_comparisons_of_tiles_are_truth_values(execute: Any, name: str) -> None:
    function = getattr(operator, name)
    x, y = random(8, 6), random(8, 6)
    y[::2] = x[::2]

    def check(a: Any, b: Any) -> Any:
        result = function(a, b)
        assert result.dtype == nl.bool_
        return result

    np.testing.assert_array_equal(apply(execute, check, x, y), function(x, y).astype(np.float32))
    np.testing.assert_array_equal(apply(execute, lambda a: function(a, 1.0), x), function(x, 1).astype(np.float32))


def test_truth_values_combine_with_and_or_and_not(execute: Any) -> None:
    x = random(8, 6)
    want = ((x > 1) & (x < 1.5)) | ~(x < 0.75) ^ (x > 1.75)
    found = apply(execute, lambda a: ((a > 1) & (a < 1.5)) | ~(a < 0.75) ^ (a > 1.75), x)
    np.testing.assert_array_equal(found, want.astype(np.float32))


def test_bit_operators_work_on_integers(execute: Any) -> None:
    x = np.arange(48, dtype=np.int32).reshape(8, 6)
    for function in (lambda a: (a & 6) | 1, lambda a: a ^ 5, lambda a: a << 2, lambda a: a >> 1, lambda a: ~a):
        np.testing.assert_array_equal(apply(execute, function, x, dtype=nl.int32), function(x))


def test_numbers_stand_on_either_side(execute: Any) -> None:
    x = random(8, 6)
    found = apply(execute, lambda a: 3 - 1 / (2 * a) + np.float32(4), x)
    np.testing.assert_allclose(found, 3 - 1 / (2 * x) + 4, rtol=1e-6)


def test_the_operator_for_remainders_is_mod(execute: Any) -> None:
    x = np.arange(-48, 48, dtype=np.float32).reshape(8, 12)
    np.testing.assert_array_equal(apply(execute, lambda a: a % 7, x), x % 7)
    np.testing.assert_array_equal(apply(execute, lambda a: a % (a + 100.0), x), x % (x + 100))


@pytest.mark.parametrize("divisor", [7, -7, 0.25, 2.5])
def test_quotients_are_rounded_down(execute: Any, divisor: float) -> None:
    x = np.arange(-48, 48, dtype=np.float32).reshape(8, 12)
    np.testing.assert_array_equal(apply(execute, lambda a: a // divisor, x), x // np.float32(divisor))
    np.testing.assert_array_equal(apply(execute, lambda a: divisor // (a + 100.0), x), np.float32(divisor) // (x + 100))


def test_quotients_of_integers_are_integers(execute: Any) -> None:
    x = np.arange(1, 97, dtype=np.int32).reshape(8, 12)

    def check(a: Any) -> Any:
        result = a // 3
        assert result.dtype == nl.int32
        return result

    np.testing.assert_array_equal(apply(execute, check, x, dtype=nl.int32), x // 3)
    np.testing.assert_array_equal(apply(execute, lambda a: 1000 // a, x, dtype=nl.int32), 1000 // x)
    np.testing.assert_array_equal(apply(execute, lambda a: (a * 5) // a, x, dtype=nl.int32), 5)


NUMPY_SCALARS = [np.float64(1.5), np.float32(3), np.sqrt(16), np.prod((2, 3)), np.int32(3)]


@pytest.mark.parametrize("number", NUMPY_SCALARS, ids=lambda number: type(number).__name__)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "lt", "ge", "eq", "ne"])
def test_numbers_of_numpy_stand_on_either_side(execute: Any, name: str, number: Any) -> None:
    function, x = getattr(operator, name), np.array([[0.5, 1.5, 3, 4, 6]] * 4, np.float32)
    want, reflected = function(x, np.float32(number)), function(np.float32(number), x)
    np.testing.assert_allclose(apply(execute, lambda a: function(a, number), x), want, rtol=1e-6)
    np.testing.assert_allclose(apply(execute, lambda a: function(number, a), x), reflected, rtol=1e-6)


def test_a_number_of_64_bits_has_the_dtype_of_a_python_number(execute: Any) -> None:
    def kernel(tensor: Any) -> None:
        tile = nl.load(tensor, dtype=nl.bfloat16)
        assert (tile * np.sqrt(2)).dtype == (np.sqrt(2) * tile).dtype == (tile * 2**0.5).dtype == nl.float32
        assert (tile * np.int64(2)).dtype == nl.bfloat16
        assert nl.multiply(tile, np.float64(2)).dtype == nl.float32

    execute(kernel, random(4, 4))


PROMOTIONS = [
    ("int8", "uint8", "int16"), ("int8", "uint16", "int32"), ("int32", "uint32", "float32"),
    ("float16", "bfloat16", "float32"), ("int32", "bfloat16", "bfloat16"), ("float8_e4m3", "float8_e5m2", "bfloat16"),
    ("int8", 2, "int32"), ("float16", 1.2, "float32"), ("float16", np.float16(2), "float16"), ("uint8", True, "uint8"),
    ("bfloat16", 3, "bfloat16"),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right", "result"), PROMOTIONS)
def test_results_have_the_promoted_dtype(execute: Any, left: str, right: Any, result: str) -> None:
    def kernel(a: Any) -> None:
        x = nl.load(a, dtype=getattr(nl, left))
        y = nl.load(a, dtype=getattr(nl, right)) if isinstance(right, str) else right
        assert nl.add(x, y).dtype == getattr(nl, result)
        assert nl.add(y, x).dtype == getattr(nl, result)
        assert nl.add(x, y, dtype=nl.float32).dtype == nl.float32

    execute(kernel, np.ones((4, 4), np.float32))


def test_quotients_of_integers_are_float32(execute: Any) -> None:
    x = np.arange(1, 25, dtype=np.int32).reshape(4, 6)
    np.testing.assert_allclose(apply(execute, lambda a: a / 4, x), x / np.float32(4))
    np.testing.assert_allclose(apply(execute, lambda a: nl.divide(a, a + 1), x), x / (x + 1), rtol=1e-6)


def test_low_precision_stays_in_float32_until_the_result_unless_asked(execute: Any) -> None:
    x = random(8, 6)
    rounded = x.astype(nl.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(apply(execute, lambda a: nl.copy(a, dtype=nl.bfloat16), x), x)
    np.testing.assert_array_equal(apply(execute, lambda a: nl.copy(a, dtype=nl.bfloat16), x, precise=True), rounded)


def test_both_operands_in_psum_are_no_fault(execute: Any) -> None:
    x = random(8, 6)
    found = apply(execute, lambda a: nl.matmul(a, a, transpose_x=True) + nl.matmul(a, a, transpose_x=True), x)
    np.testing.assert_allclose(found, 2 * (x.T @ x), rtol=1e-5)


@settings(max_examples=scaled(25))
@given(st.lists(st.sampled_from(["+", "-", "*", "max", "half", "neg"]), min_size=1, max_size=8))
def test_expressions_are_numpys(execute: Any, steps: list[str]) -> None:
    def work(x: Any, y: Any, module: Any) -> Any:
        for step in steps:
            match step:
                case "+":
                    x = x + y
                case "-":
                    x = 1.0 - x
                case "*":
                    x = x * y
                case "max":
                    x = module.maximum(x, y)
                case "half":
                    x = x * 0.5
                case "neg":
                    x = -x
        return x

    x, y = random(8, 6), random(8, 1)
    found = apply(execute, lambda a, b: work(a, b, nl), x, y)
    np.testing.assert_allclose(found, np.broadcast_to(work(x, y, np), found.shape), rtol=1e-5)


@pytest.mark.parametrize(
    "bits", [lambda x: x & 255, lambda x: 7 | x, lambda x: x ^ 9, lambda x: x << 1, lambda x: x >> 2]
)
@pytest.mark.parametrize("dtype", [np.uint32, np.int32])
def test_bits_of_a_tile_and_a_number_stay_integers(execute: Any, bits: Any, dtype: Any) -> None:
    values = np.random.default_rng(3).integers(2**29, 2**30, (8, 6)).astype(dtype)  # more digits than float32 has
    np.testing.assert_array_equal(apply(execute, bits, values, dtype=dtype), bits(values))


@pytest.mark.parametrize(
    ("use", "code"),
    [
        (lambda t: nl.add(t, np.ones((8, 6))), "NKI013"),
        (lambda t: nl.add(t, nl.arange(6)[None, :]), "NKI013"),
        (lambda t: t + nl.arange(6)[None, :], "NKI013"),
        (lambda t: nl.arange(6)[None, :] * t, "NKI013"),
        (lambda t: nl.add(t, t[:, 0:4]), "NKI203"),
        (lambda t: t @ t, "NKI017"),
        (lambda t: nl.exp(3.0), "NKI013"),
        (lambda t: bool(t > 0), "NKI017"),
        (lambda t: nl.exp(nl.ndarray((2, nl.par_dim(8), 6), nl.float32)), "NKI312"),
    ],
)
def test_wrong_operands_are_refused(execute: Any, use: Any, code: str) -> None:
    with pytest.raises(NkiError) as caught:
        apply(execute, use, random(8, 6))
    assert caught.value.diagnostics[0].code == code


def test_rsqrt_stays_on_the_scalar_engine(execute: Any) -> None:
    def kernel(a: Any) -> Any:
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.rsqrt(nl.load(a)))
        return out

    done = execute(kernel, np.ones((8, 6), np.float32))
    assert [op.variant.engine for op in done.program.ops()] == ["dma", "scalar", "dma"]


def test_functions_bear_their_names_as_operators() -> None:
    for name, function in names().items():
        if hasattr(function, "nki_op"):
            assert function.__name__ == function.nki_op == name
            assert function.__doc__


@pytest.mark.parametrize("use", [lambda i, t: nl.less(i, 4), lambda i, t: t * i, lambda i, t: nl.exp(i < 4)])
def test_an_index_for_an_operand_is_told_from_an_array(execute: Any, use: Any) -> None:
    def kernel(a: Any) -> None:
        use(nl.arange(6)[None, :], nl.load(a))

    with pytest.raises(NkiError, match="NKI013") as caught:
        execute(kernel, random(8, 6))
    assert "i_p < n" in caught.value.diagnostics[0].help
