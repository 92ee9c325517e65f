"""The activation functions against float64 mathematics, at their edges, and in place."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from nki_lab.diagnostic import NkiError
from nki_lab.isa.activation import ACTIVATIONS, Activation, activation_of

Array = np.ndarray[Any, Any]

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _sigmoid(x: Array) -> Array:
    fall = np.exp(-np.abs(x))
    return np.where(x < 0, fall, 1.0) / (1 + fall)


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _normal(x: Array) -> Array:
    return 0.5 * _erfc(-x / math.sqrt(2))


# name -> reference in float64, most units in the last place for |x| < 4, most error anywhere over max(1, |f(x)|)
REFERENCES: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    "copy": (lambda x: x, 0, 0),
    "square": (lambda x: x * x, 0.5, 2**-24),
    "relu": (lambda x: np.maximum(x, 0), 0, 0),
    "abs": (np.abs, 0, 0),
    "sign": (np.sign, 0, 0),
    "exp": (np.exp, 4, 2**-21),
    "log": (np.log, 4, 2**-22),
    "sigmoid": (_sigmoid, 4, 2**-22),
    "silu": (lambda x: x * _sigmoid(x), 4, 2**-22),
    "silu_dx": (lambda x: _sigmoid(x) + x * _sigmoid(x) * _sigmoid(-x), math.inf, 2**-22),
    "tanh": (np.tanh, 4, 2**-22),
    "softplus": (_softplus, 4, 2**-22),
    "mish": (lambda x: x * np.tanh(_softplus(x)), 6, 2**-22),
    "erf": (_erf, 4, 2**-22),
    "erf_dx": (lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x), 8, 2**-21),
    "gelu": (lambda x: x * _normal(x), 8, 2**-22),
    "gelu_dx": (
        lambda x: _normal(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi), math.inf, 2**-22),
    "gelu_apprx_tanh": (
        lambda x: x * _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)), 24, 2**-22),
    "gelu_apprx_sigmoid": (lambda x: x * _sigmoid(1.702 * x), 12, 2**-22),
    "gelu_apprx_sigmoid_dx": (
        lambda x: _sigmoid(1.702 * x) + 1.702 * x * _sigmoid(1.702 * x) * _sigmoid(-1.702 * x), math.inf, 2**-22),
    "sin": (np.sin, 3, 2**-22),
    "arctan": (np.arctan, 3, 2**-22),
    "sqrt": (np.sqrt, 0.5, 2**-24),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 2, 2**-22),
    "reciprocal": (lambda x: 1 / x, 0.5, 2**-24),
}  # fmt: skip


def _apply(name: str, x: Any, *parameters: Any) -> Array:
    x = np.asarray(x, np.float32)
    with np.errstate(all="ignore"):
        return ACTIVATIONS[name].apply(x, np.empty_like(x), *parameters)


def _inputs(function: Activation) -> Array:
    rng = np.random.default_rng(7)
    x = np.concatenate([
        rng.standard_normal(4000) * 3,
        rng.uniform(-88, 88, 4000),
        np.exp(rng.uniform(-60, 60, 4000)) * rng.choice([-1, 1], 4000),
        np.linspace(-4, 4, 4001),
    ]).astype(np.float32)  # fmt: skip
    low, high = function.valid
    size = np.abs(x) if function.valid_by_magnitude else x
    return x[(size >= low) & (size <= high)]


def test_the_table_has_every_documented_function() -> None:
    assert set(ACTIVATIONS) == set(REFERENCES) | {"prelu"}
    assert len(ACTIVATIONS) == 26


@pytest.mark.parametrize("function", ACTIVATIONS.values(), ids=str)
def test_a_row_is_complete_and_one_object(function: Activation) -> None:
    assert ACTIVATIONS[function.name] is function
    assert pickle.loads(pickle.dumps(function)) is function
    assert function.formula
    assert function.valid[0] < function.valid[1]
    assert function.table_source
    assert function.table_confidence == "guess"


@pytest.mark.parametrize("name", REFERENCES)
def test_values_follow_float64(name: str) -> None:
    reference, ulps, relative = REFERENCES[name]
    x = _inputs(ACTIVATIONS[name])
    got = _apply(name, x).astype(np.float64)
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64))
        rounded = exact.astype(np.float32)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    x, got, exact = x[finite], got[finite], exact[finite]
    error = np.abs(got - exact)
    # 2**-121: where x / (1 + e**-x) flushes to zero.
    assert (error <= relative * np.maximum(1, np.abs(exact)) + 2.0**-121).all()
    near = (np.abs(x) < 4) & (np.abs(exact) > 1e-30)
    unit = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    assert (error[near] <= ulps * unit[near]).all(), (error / unit)[near].max()


@pytest.mark.parametrize(("name", "x", "expected"), [
    ("silu", -100, -0.0), ("silu", 100, 100), ("silu", -np.inf, 0), ("silu", np.inf, np.inf),
    ("sigmoid", -200, 0), ("sigmoid", 200, 1), ("sigmoid", -np.inf, 0), ("sigmoid", np.inf, 1),
    ("softplus", 1000, 1000), ("softplus", -1000, 0), ("softplus", np.inf, np.inf), ("softplus", -np.inf, 0),
    ("gelu", -1000, 0), ("gelu", -np.inf, 0), ("gelu", 1e30, 1e30), ("gelu", np.inf, np.inf), ("gelu", -15, 0),
    ("gelu_dx", -np.inf, 0), ("gelu_dx", np.inf, 1), ("gelu_dx", 0, 0.5),
    ("gelu_apprx_tanh", -1e20, 0), ("gelu_apprx_tanh", 1e20, 1e20), ("gelu_apprx_tanh", -np.inf, 0),
    ("gelu_apprx_tanh", np.inf, np.inf), ("gelu_apprx_sigmoid", -np.inf, 0), ("gelu_apprx_sigmoid", 3e38, 3e38),
    ("gelu_apprx_sigmoid_dx", -3e38, 0), ("gelu_apprx_sigmoid_dx", np.inf, 1),
    ("silu_dx", -np.inf, 0), ("silu_dx", np.inf, 1), ("silu_dx", -3.6e11, 0), ("silu_dx", 0, 0.5),
    ("mish", -np.inf, 0), ("mish", np.inf, np.inf), ("mish", 1e30, 1e30), ("mish", -1000, 0),
    ("erf", np.inf, 1), ("erf", -np.inf, -1), ("erf", -5, -1), ("erf_dx", np.inf, 0), ("erf_dx", 1e30, 0),
    ("exp", 1000, np.inf), ("exp", -1000, 0), ("tanh", 1e30, 1), ("tanh", -np.inf, -1),
    ("relu", -np.inf, 0), ("relu", np.inf, np.inf), ("square", 1e30, np.inf), ("copy", -np.inf, -np.inf),
    ("log", 0, -np.inf), ("log", -1, np.nan), ("sqrt", -1, np.nan), ("rsqrt", 0, np.inf), ("reciprocal", 0, np.inf),
    ("reciprocal", -0.0, -np.inf), ("arctan", np.inf, np.float32(math.pi / 2)), ("sign", -0.0, 0),
    ("abs", -np.inf, np.inf),
])  # fmt: skip
def test_the_edges_are_the_limits_of_the_function(name: str, x: float, expected: float) -> None:
    np.testing.assert_array_equal(_apply(name, [x]), np.array([expected], np.float32))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_nan_stays_nan(name: str) -> None:
    assert np.isnan(_apply(name, [np.nan, np.float32(np.nan)])).all()


def test_erf_keeps_relative_accuracy_near_zero_and_is_odd() -> None:
    x = np.exp(np.linspace(-60, 1.3, 3000)).astype(np.float32)
    got = _apply("erf", x)
    np.testing.assert_allclose(got, _erf(x.astype(np.float64)), rtol=3e-7)
    np.testing.assert_array_equal(_apply("erf", -x), -got)
    assert np.signbit(_apply("erf", [-0.0])[0])


def test_gelu_keeps_relative_accuracy_in_its_tail() -> None:
    x = np.linspace(-12, -0.01, 3000).astype(np.float32)
    exact = x.astype(np.float64) * _normal(x.astype(np.float64))
    np.testing.assert_allclose(_apply("gelu", x), exact, rtol=1e-6)


# sin.


def test_sin_of_nine_is_the_documented_extrapolation() -> None:
    assert _apply("sin", [9.0])[0] == pytest.approx(27.65, abs=0.005)
    assert _apply("sin", [-9.0])[0] == pytest.approx(-27.65, abs=0.005)


def test_sin_leaves_the_valid_range_without_a_step() -> None:
    edge = np.float32(math.pi)
    x = np.linspace(edge - np.float32(1e-3), edge + np.float32(1e-3), 401, dtype=np.float32)
    np.testing.assert_allclose(np.diff(_apply("sin", x)), -np.diff(x), rtol=0.02, atol=1e-9)


@given(npst.arrays(np.float32, 8, elements=st.floats(-100, 100, width=32)))
def test_sin_is_odd_and_cubic_outside_its_range(x: Array) -> None:
    np.testing.assert_array_equal(_apply("sin", -x), -_apply("sin", x))
    distance = np.abs(x.astype(np.float64)) - math.pi
    outside = np.sign(x) * (distance**3 / 6 - distance)
    expected = np.where(np.abs(x) > np.float32(math.pi), outside, np.sin(x.astype(np.float64)))
    np.testing.assert_allclose(_apply("sin", x), expected, rtol=1e-6, atol=1e-6)


def test_sin_of_infinity_follows_the_cubic() -> None:
    np.testing.assert_array_equal(_apply("sin", [np.inf, -np.inf]), [np.inf, -np.inf])


# prelu.


def test_prelu_takes_a_slope_of_one_number_or_one_a_partition() -> None:
    x = np.array([[-2, 3, -0.5], [-1, 0, 4]], np.float32)
    np.testing.assert_array_equal(_apply("prelu", x, 0.25), [[-0.5, 3, -0.125], [-0.25, 0, 4]])
    np.testing.assert_array_equal(_apply("prelu", x, np.array([[2], [-1]], np.float32)), [[-4, 3, -1], [1, 0, 4]])
    np.testing.assert_array_equal(_apply("prelu", x), np.maximum(x, 0))
    assert ACTIVATIONS["prelu"].parameter == "relu_param"


# Calling convention.


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("shape", [(1,), (0, 3), (3, 5), (2, 3, 4), (129, 513)], ids=str)
def test_results_do_not_depend_on_layout_or_aliasing(name: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    x = np.asarray(rng.standard_normal(shape) * 5, np.float32)
    expected = _apply(name, x)
    function = ACTIVATIONS[name]
    with np.errstate(all="ignore"):
        in_place = x.copy()
        assert function.apply(in_place, in_place) is in_place
        np.testing.assert_array_equal(in_place, expected)
        wide = np.zeros((*shape[:-1], 2 * shape[-1] + 1), np.float32)
        view = wide[..., 1::2]
        view[...] = x
        np.testing.assert_array_equal(function.apply(view, np.empty_like(x)), expected)
        np.testing.assert_array_equal(function.apply(x, view), expected)
        view[...] = x
        np.testing.assert_array_equal(function.apply(view, view), expected)
        turned = np.asfortranarray(x)
        np.testing.assert_array_equal(function.apply(turned, np.empty_like(turned)), expected)
        assert not wide[..., ::2].any()


# Recognition.


@pytest.mark.parametrize(
    ("spelling", "name"), [("gelu", "gelu"), (np.exp, "exp"), (np.square, "square"), (np.abs, "abs")]
)
def test_functions_are_recognised_by_name_and_by_function(spelling: object, name: str) -> None:
    assert activation_of(spelling) is ACTIVATIONS[name]
    assert activation_of(ACTIVATIONS[name]) is ACTIVATIONS[name]


@pytest.mark.parametrize("spelling", ["cosine", np.cos, None, 1, ""])
def test_an_unknown_function_is_refused_with_a_code(spelling: object) -> None:
    with pytest.raises(NkiError) as refused:
        activation_of(spelling)
    assert refused.value.diagnostics[0].code == "NKI012"


def test_a_misspelt_function_is_answered_with_the_near_one() -> None:
    with pytest.raises(NkiError, match="gelu_apprx_tanh"):
        activation_of("gelu_approx_tanh")
