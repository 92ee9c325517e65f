"""nki.language: its functions compute what NumPy does, in new tiles, and double as operators of instructions."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nki_lab.diagnostic import NkiError
from nki_lab.isa.alu import ALU
from nki_lab.kernel_runtime.language import namespaces
from tests.calls import kernel_of, traced
from tests.isa.ops.kernels import run
from tests.reference.activation import FUNCTIONS, apply
from tests.reference.elementwise import FORMULAS, UNARY

Array = np.ndarray[Any, Any]


def data(*shape: int, dtype: Any = np.float32) -> Array:
    return (np.random.default_rng(len(shape)).standard_normal(shape or (4, 6)) * 3).astype(dtype)


def evaluate(expression: str, *arrays: Array, target: str = "trn3") -> Array:
    """An expression over the tiles x, y, ... of arrays."""
    names = ["x", "y", "z"][: len(arrays)]
    lines = [f"def kernel({', '.join('h' + name for name in names)}):"]
    lines += [f"    {name} = nl.load(h{name})" for name in names]
    text = "\n".join([*lines, f"    return {expression}", ""])
    (found,) = run(text, *arrays, target=target)
    return found


BINARY = [name for name, op in ALU.items() if op.arity == 2 and op.category == "arithmetic" and name in FORMULAS]


@pytest.mark.parametrize("name", [n for n in BINARY if n != "power"])
def test_binary_functions_take_tiles_and_numbers(name: str) -> None:
    x, y = data(4, 6), data(6, 4).T.copy()
    formula = FORMULAS[name]
    np.testing.assert_array_equal(evaluate(f"nl.{name}(x, y)", x, y), np.asarray(formula(x, y), np.float32))
    two = np.float32(2)
    np.testing.assert_array_equal(evaluate(f"nl.{name}(x, 2.0)", x), np.asarray(formula(x, two), np.float32))
    np.testing.assert_array_equal(evaluate(f"nl.{name}(2.0, x)", x), np.asarray(formula(two, x), np.float32))


@pytest.mark.parametrize("name", sorted(n for n in FUNCTIONS if n not in ("copy", "prelu", "sin")))
def test_unary_functions_are_the_activation_functions(name: str) -> None:
    x = np.abs(data()) + np.float32(0.1)
    got = evaluate(f"nl.{name}(x)", x)
    want = apply(name, x.astype(np.float64))
    assert (np.abs(got - want.value) <= np.asarray(want.slack) + 2.0**-21 * np.abs(want.value)).all()


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_rsqrt_runs_on_gpsimd(target: str) -> None:
    text = "def kernel(a):\n    return nl.rsqrt(nl.load(a))\n"
    program, _ = traced(kernel_of(text), [data()], ["float32"], target)
    assert [op.variant.engine for op in program.ops()] == ["dma", "gpsimd"]


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"])
def test_bit_functions_take_integers(name: str) -> None:
    x, y = np.arange(24, dtype=np.int32).reshape(4, 6), np.full((4, 6), 3, np.int32)
    np.testing.assert_array_equal(evaluate(f"nl.{name}(x, y)", x, y), getattr(np, name)(x, y))


def test_invert_and_logical_not() -> None:
    x = np.array([[0, 1, -5]], np.int32)
    np.testing.assert_array_equal(evaluate("nl.invert(x)", x), ~x)
    np.testing.assert_array_equal(evaluate("nl.logical_not(x)", x.astype(np.float32)), [[1, 0, 0]])


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("x + y", lambda x, y: x + y), ("x - 1.0", lambda x, y: x - 1), ("1.0 - x", lambda x, y: 1 - x),
        ("x * y", lambda x, y: x * y), ("2 * x", lambda x, y: 2 * x), ("-x", lambda x, y: -x),
        ("abs(x)", lambda x, y: np.abs(x)), ("x < y", lambda x, y: x < y), ("x >= 0.0", lambda x, y: x >= 0),
        ("x / 4.0", lambda x, y: x / 4), ("x[:, 0:3] + y[:, 3:6]", lambda x, y: x[:, 0:3] + y[:, 3:6]),
        ("x + y[:, 0:1]", lambda x, y: x + y[:, 0:1]),
    ],
)  # fmt: skip
def test_python_operators_are_the_functions(expression: str, want: Any) -> None:
    x, y = data(4, 6), data(6, 4).T.copy()
    np.testing.assert_array_equal(evaluate(expression, x, y), np.asarray(want(x, y), np.float32))


def test_division_multiplies_by_the_reciprocal() -> None:
    x, y = data(4, 6), data(6, 4).T.copy()
    np.testing.assert_allclose(evaluate("nl.divide(x, y)", x, y), x / y, rtol=3e-7)
    np.testing.assert_allclose(evaluate("nl.divide(1.0, y)", x, y), 1 / y, rtol=3e-7)
    np.testing.assert_allclose(evaluate("x / 3.0", x), x / 3, rtol=3e-7)
    with np.errstate(divide="ignore", invalid="ignore"):
        np.testing.assert_array_equal(evaluate("nl.divide(x, 0.0)", x), x / np.float32(0))
        np.testing.assert_array_equal(evaluate("nl.divide(x, -0.0)", x), x / np.float32(-0.0))


REDUCTIONS = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize(
    ("axis", "keep", "shape"),
    [(1, False, (4, 1)), (-1, True, (4, 1)), ([1], False, (4, 1))],
)
def test_reductions_keep_two_dimensions(name: str, axis: Any, keep: bool, shape: tuple[int, ...]) -> None:
    x = data(4, 6)
    got = evaluate(f"nl.{name}(x, {axis}, keepdims={keep})", x)
    assert got.shape == shape
    np.testing.assert_allclose(got[:, 0], REDUCTIONS[name](x.astype(np.float64), axis=1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize(
    ("axis", "keep", "shape"),
    [(2, False, (4, 3)), (2, True, (4, 3, 1)), ((1, 2), False, (4, 1)), ((1, 2), True, (4, 1, 1))],
)
def test_reductions_of_more_dimensions(name: str, axis: Any, keep: bool, shape: tuple[int, ...]) -> None:
    x = data(4, 3, 5)
    got = evaluate(f"nl.{name}(x, {axis}, keepdims={keep})", x)
    assert got.shape == shape
    want = REDUCTIONS[name](x.astype(np.float64), axis=axis, keepdims=keep)
    np.testing.assert_allclose(got.reshape(-1), want.reshape(-1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(4, 6), (4, 3, 5)])
def test_softmax_sums_to_one_along_the_last_dimension(shape: tuple[int, ...]) -> None:
    x = data(*shape) * 20
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(-1, keepdims=True))
    got = evaluate("nl.softmax(x, -1)", x)
    np.testing.assert_allclose(got, powers / powers.sum(-1, keepdims=True), rtol=2e-5, atol=1e-7)
    assert evaluate("nl.softmax(x, -1, nl.bfloat16)", x).dtype == ml_dtypes.bfloat16


def test_transposes_and_products() -> None:
    x, y = data(16, 24), data(24, 8)
    np.testing.assert_array_equal(evaluate("nl.transpose(x)", x), x.T)
    np.testing.assert_allclose(evaluate("nl.matmul(x, y)", x, y), x @ y, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        evaluate("nl.matmul(x, y, transpose_x=True)", x.T.copy(), y), x @ y, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8"])
@pytest.mark.parametrize("place", ["sbuf", "psum", "shared_hbm"])
def test_constants_fill_every_memory(dtype: str, place: str) -> None:
    text = f"""
def kernel(a):
    where = nl.{place}
    return (nl.zeros((4, 6), nl.{dtype}, buffer=where), nl.ones((4, 3, 2), nl.{dtype}, buffer=where),
            nl.full((4, 6), 3, nl.{dtype}, buffer=where))
"""
    zeros, ones, threes = run(text, np.zeros((1, 1), np.float32))
    assert not zeros.any()
    assert (ones == 1).all()
    assert ones.shape == (4, 3, 2)
    assert (threes == 3).all()


def test_tensors_in_hbm_are_filled_beyond_128_rows_and_in_one_dimension() -> None:
    text = "def kernel(a):\n    return nl.ones((300, 5), nl.float32, buffer=nl.shared_hbm), nl.full((7,), 2, nl.int32, buffer=nl.shared_hbm)\n"
    ones, twos = run(text, np.zeros((1, 1), np.float32))
    assert (ones == 1).all()
    assert twos.tolist() == [2] * 7


def test_likes_take_what_is_not_said_from_their_model() -> None:
    text = """
def kernel(a):
    x = nl.load(a)
    like = nl.empty_like(x, dtype=nl.bfloat16)
    nisa.tensor_copy(like, x)
    return like, nl.zeros_like(x), nl.zeros_like(x, buffer=nl.psum)
"""
    x = data()
    like, zeros, psum = run(text, x)
    assert like.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(like.view(np.uint16), x.astype(ml_dtypes.bfloat16).view(np.uint16))
    assert not zeros.any()
    assert not psum.any()


def test_loads_cast_and_stores_take_tiles_and_numbers() -> None:
    text = """
def kernel(a):
    out = nl.ndarray((4, 6), nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a, dtype=nl.bfloat16))
    nl.store(out[0:1], 5.0)
    return out
"""
    x = data()
    (got,) = run(text, x)
    np.testing.assert_array_equal(got[1:], x.astype(ml_dtypes.bfloat16).astype(np.float32)[1:])
    assert (got[0] == 5).all()


def test_assignments_copy() -> None:
    text = """
def kernel(a):
    x = nl.load(a)
    x[0:2] = x[2:4]
    x[:, 3:6] = 7.0
    out = nl.ndarray((4, 6), nl.float32, buffer=nl.shared_hbm)
    out[...] = x
    return out
"""
    x = data()
    (got,) = run(text, x)
    want = x.copy()
    want[0:2] = x[2:4]
    want[:, 3:6] = 7
    np.testing.assert_array_equal(got, want)


def test_an_identity_matrix() -> None:
    (got,) = run("def kernel(a):\n    return nl.shared_identity_matrix(32, nl.float32)\n", np.zeros((1, 1), np.float32))
    np.testing.assert_array_equal(got, np.eye(32))


def test_copies_of_integers_are_exact() -> None:
    x = np.array([[2**24 + 1, 2**31 - 1]], np.int32)
    np.testing.assert_array_equal(evaluate("nl.copy(x)", x), x)


def refusal(line: str) -> str:
    text = f"def kernel(a):\n    x = nl.load(a)\n    p = nl.ndarray((4, 6), nl.float32, buffer=nl.psum)\n    {line}\n"
    with pytest.raises(NkiError) as caught:
        traced(kernel_of(text), [data()], ["float32"], "trn2")
    (found,) = caught.value.diagnostics
    assert found.span is not None
    return found.code


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("nl.load(3)", "NKI013"), ("nl.store(a, p)", "NKI201"), ("nl.store(3, x)", "NKI013"),
        ("nl.add(x, x[:, 0:5])", "NKI203"), ("nl.add(x, x[0:2])", "NKI203"), ("nl.add(1.0, 2.0)", "NKI013"),
        ("nl.exp(3.0)", "NKI013"), ("nl.sum(x, 0)", "NKI217"), ("nl.sum(x, 'x')", "NKI012"),
        ("nl.max(x, None)", "NKI012"), ("nl.transpose(None)", "NKI013"), ("nl.matmul(x, 3)", "NKI013"),
        ("nl.broadcast_to(x, 5)", "NKI012"), ("nl.broadcast_to(x, (4, 7))", "NKI305"), ("nl.divide(x, None)", "NKI013"),
        ("nl.zeros_like(3)", "NKI013"), ("nl.ndarray((4, 'a'), nl.float32)", "NKI307"),
        ("nl.ndarray((4, 4), 'float64')", "NKI012"), ("nl.ndarray((4, 4), nl.float32, buffer='sbuf')", "NKI311"),
        ("nl.program_id('x')", "NKI012"), ("nl.affine_range(1.5)", "NKI012"), ("nl.affine_range(0, 4, 0)", "NKI012"),
        ("nl.tile_size.no_such_size", "NKI006"), ("x % x", "NKI017"),
    ],
)  # fmt: skip
def test_mistakes_are_coded(line: str, code: str) -> None:
    assert refusal(line) == code


def test_loops_are_ranges() -> None:
    for name in ("affine_range", "sequential_range", "static_range"):
        loop = namespaces.language_names()[name]
        assert list(loop(3)) == [0, 1, 2]
        assert list(loop(1, 8, 3)) == [1, 4, 7]


def test_tile_sizes_are_the_targets() -> None:
    text = "def kernel(a):\n    x = nl.zeros((nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax), nl.float32)\n    return x\n"
    assert run(text, np.zeros((1, 1), np.float32))[0].shape == (128, 512)


def test_functions_are_operators_and_say_what_they_do() -> None:
    names = namespaces.language_names()
    for name in {*FORMULAS} - {"abs_max", "abs_min"}:
        if name in names and name not in UNARY:
            assert ALU[name].doc in (names[name].__doc__ or "")
            assert names[name].nki_op == name
    for name, value in names.items():
        if callable(value) and not isinstance(value, type) and name != "range":
            assert (getattr(value, "__doc__", "") or "").strip() or name in ("average", "bypass"), name


def test_a_grid_of_one_program_is_number_zero() -> None:
    text = "def kernel(a):\n    return nl.full((1, 4), nl.program_id(0) + 10 * nl.num_programs(0), nl.int32)\n"
    assert run(text, np.zeros((1, 1), np.float32))[0].tolist() == [[10] * 4]
    assert math.isfinite(1)
