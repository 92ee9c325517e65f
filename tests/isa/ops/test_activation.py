"""activation: scale and bias before the function, and the accumulation registers from call to call."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from tests.isa.ops.kernels import refused, run

Array = np.ndarray


def kernel(*lines: str, target: str = "trn2", a: Array | None = None) -> list[Array]:
    text = "\n".join(
        [
            "def kernel(a):",
            "    x = nl.ndarray(a.shape, a.dtype)",
            "    nisa.dma_copy(x, a)",
            "    z = nl.ndarray(a.shape, nl.float32)",
            "    total = nl.zeros((a.shape[0], 1), nl.float32)",
            "    again = nl.zeros((a.shape[0], 1), nl.float32)",
            "    cmd = nisa.reduce_cmd",
            *("    " + line for line in lines),
            "    return z, total, again",
            "",
        ]
    )
    return run(text, data() if a is None else a, target=target)


def data() -> Array:
    return np.random.default_rng(5).standard_normal((8, 16)).astype(np.float32)


def test_scale_comes_first_then_bias_then_the_function() -> None:
    z, _, _ = kernel("nisa.activation(z, nl.square, x, bias=1.0, scale=2.0)")
    np.testing.assert_array_equal(z, (data() * np.float32(2) + np.float32(1)) ** 2)


def test_bias_and_scale_may_be_tiles_of_one_column() -> None:
    z, _, _ = kernel("nisa.activation(z, nl.copy, x, bias=x[:, 0:1], scale=x[:, 1:2])")
    np.testing.assert_array_equal(z, data() * data()[:, 1:2] + data()[:, 0:1])


def test_a_sum_is_taken_of_float32_results_before_the_cast() -> None:
    a = np.full((1, 64), 1.0 + 2.0**-12, np.float32)
    text = """
def kernel(a):
    x = nl.ndarray((1, 64), nl.float32)
    nisa.dma_copy(x, a)
    z = nl.ndarray((1, 64), nl.bfloat16)
    total = nl.ndarray((1, 1), nl.float32)
    nisa.activation(z, nl.copy, x, reduce_op=nl.add, reduce_res=total, reduce_cmd=nisa.reduce_cmd.reset_reduce)
    return z, total
"""
    z, total = run(text, a)
    assert (z == 1).all()
    assert total[0, 0] == 64 * (1.0 + 2.0**-12)


def test_reduce_adds_once_to_what_the_registers_hold() -> None:
    _, total, again = kernel(
        "nisa.activation(z, nl.exp, x, reduce_op=nl.add, reduce_res=total, reduce_cmd=cmd.reset_reduce)",
        "nisa.activation(z, nl.exp, x, reduce_op=nl.add, reduce_res=again, reduce_cmd=cmd.reduce)",
    )
    np.testing.assert_allclose(total[:, 0], np.exp(data()).sum(1), rtol=1e-5)
    np.testing.assert_allclose(again[:, 0], 2 * np.exp(data()).sum(1), rtol=1e-5)


def test_a_call_without_a_command_leaves_the_registers_alone() -> None:
    # NKI 0.2 fixed that the default cleared them.
    _, total, _ = kernel(
        "nisa.activation(z, nl.copy, x, reduce_op=nl.add, reduce_cmd=cmd.reset_reduce)",
        "nisa.activation(z, nl.exp, x)",
        "nisa.activation(z, nl.exp, x, reduce_res=total)",
    )
    np.testing.assert_allclose(total[:, 0], data().sum(1), rtol=1e-5, atol=1e-6)


def test_reset_clears_and_adds_nothing() -> None:
    _, total, _ = kernel(
        "nisa.activation(z, nl.copy, x, reduce_cmd=cmd.reduce)",
        "nisa.activation(z, nl.copy, x, reduce_res=total, reduce_cmd=cmd.reset)",
    )
    assert not total.any()


def test_each_lane_has_its_own_register() -> None:
    text = """
def kernel(a):
    x = nl.ndarray((64, 4), nl.float32)
    nisa.dma_copy(x, a)
    z = nl.ndarray((64, 4), nl.float32)
    total = nl.zeros((32, 1), nl.float32)
    cmd = nisa.reduce_cmd
    nisa.activation(z, nl.copy, x, reduce_cmd=cmd.reset_reduce)
    nisa.activation(z[32:64], nl.copy, x[32:64], reduce_cmd=cmd.reset)
    nisa.activation(z[0:32], nl.copy, x[0:32], reduce_res=total)
    rest = nl.zeros((32, 1), nl.float32)
    nisa.activation(z[32:64], nl.copy, x[32:64], reduce_res=rest)
    return total, rest
"""
    a = np.arange(256, dtype=np.float32).reshape(64, 4)
    total, rest = run(text, a)
    np.testing.assert_array_equal(total[:, 0], a[:32].sum(1))
    assert not rest.any()


def test_a_result_column_inside_the_destination_holds_the_sum() -> None:
    # NKI 0.6 fixed that the write of dst clobbered it.
    text = """
def kernel(a):
    x = nl.ndarray((8, 16), nl.float32)
    nisa.dma_copy(x, a)
    nisa.activation(x, nl.copy, x, reduce_op=nl.add, reduce_res=x[:, 3:4], reduce_cmd=nisa.reduce_cmd.reset_reduce)
    return x
"""
    (got,) = run(text, data())
    np.testing.assert_allclose(got[:, 3], data().sum(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(np.delete(got, 3, axis=1), np.delete(data(), 3, axis=1))


def test_a_copied_sum_is_rounded_onto_its_tiles_grid() -> None:
    # The function gives values of data's grid, their sum does not.
    text = """
def kernel(a):
    x = nl.ndarray((1, 300), nl.float8_e5m2)
    nisa.dma_copy(x, a)
    z = nl.ndarray((1, 300), nl.bfloat16)
    total = nl.ndarray((1, 1), nl.bfloat16)
    nisa.activation(z, nl.copy, x, reduce_res=total, reduce_cmd=nisa.reduce_cmd.reset_reduce)
    back = nl.ndarray((1, 1), nl.float32)
    nisa.tensor_copy(back, total)
    return back
"""
    a = np.full((1, 300), 1.25, ml_dtypes.float8_e5m2)
    a[0, 0] = 1.5
    (back,) = run(text, a)
    assert back[0, 0] == np.float32(ml_dtypes.bfloat16(a.astype(np.float64).sum()))
    assert back[0, 0] != a.astype(np.float64).sum()


def test_sin_goes_on_as_a_cubic_outside_its_range() -> None:
    a = np.array([[9.0, -9.0, 1.0]], np.float32)
    z, _, _ = kernel("nisa.activation(z, nl.sin, x)", a=a)
    assert z[0, 0] == pytest.approx(27.65, abs=0.01)
    assert z[0, 1] == -z[0, 0]
    assert z[0, 2] == pytest.approx(np.sin(1.0), rel=1e-6)


CASES = [
    ("activation(z, nl.exp, x)", "trn2", ""),
    ("activation(z, nl.prelu, x)", "trn2", "NKI221"),
    ("activation(z, nl.prelu, x)", "trn3", ""),
    ("activation(z, nl.add, x)", "trn2", "NKI012"),
    ("activation(z, nl.exp, x, bias=1.0)", "trn1", "NKI221"),
    ("activation(z, nl.exp, x, bias=0)", "trn1", ""),
    ("activation(z, nl.exp, x, bias=c)", "trn1", ""),
    ("activation(z, nl.exp, x, bias=1.0)", "trn2", ""),
    ("activation(z, nl.reciprocal, x, bias=c)", "trn1", "NKI221"),
    ("activation(z, nl.reciprocal, x, bias=c)", "trn2", ""),
    ("activation(z, nl.exp, x, bias=y)", "trn2", "NKI203"),
    ("activation(z, nl.exp, x, scale=w[:, 0:1])", "trn2", "NKI202"),
    ("activation(z, nl.exp, x, scale=None)", "trn2", "NKI013"),
    ("activation(z, nl.exp, x, reduce_op=nl.maximum)", "trn2", "NKI215"),
    ("activation(z, nl.exp, x, reduce_cmd=nisa.reduce_cmd.load_reduce)", "trn2", "NKI012"),
    ("activation(z, nl.exp, x, reduce_res=y)", "trn2", "NKI203"),
    ("activation(z, nl.exp, h)", "trn2", "NKI201"),
    ("activation(z, nl.exp, p)", "trn2", ""),
    ("activation(p, nl.exp, x, bias=p[:, 0:1])", "trn2", ""),
    ("activation_reduce(z, nl.exp, x, nl.add, None)", "trn2", ""),
    ("activation_reduce(z, nl.exp, x, nl.add)", "trn2", "NKI003"),
    ("activate2(z, nl.exp, x, 2.0, 0.0, nl.multiply, nl.bypass)", "trn3", ""),
    ("activate2(z, nl.exp, x, 2.0, 0.0, nl.multiply)", "trn3", "NKI003"),
    ("activate2(z, nl.exp, x)", "trn3", "NKI003"),
    ("activate2(z, nl.exp, x, None, 1.0, nl.multiply, nl.add)", "trn3", "NKI013"),
]


@pytest.mark.parametrize(("call", "target", "code"), CASES)
def test_what_it_takes(call: str, target: str, code: str) -> None:
    assert refused(call, target) == code


def test_sums_that_stay_in_the_registers_are_no_dead_store() -> None:
    @nki.jit
    def two_parts(a: Any) -> Any:
        x, z = nl.ndarray(a.shape, a.dtype), nl.ndarray(a.shape, a.dtype)
        total = nl.ndarray((a.shape[0], 1), nl.float32)
        nisa.dma_copy(x, a)
        nisa.activation_reduce(z, nl.square, x, nl.add, None)
        y, add = nl.ndarray(a.shape, a.dtype), nisa.reduce_cmd.reduce
        nisa.activation(y, nl.copy, x, reduce_op=nl.add, reduce_res=total, reduce_cmd=add)
        out = nl.ndarray(total.shape, total.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, total)
        return out

    done = nki_lab.run(two_parts, data(), target="trn2")
    assert "NKI414" not in {found.code for found in done.diagnostics}
    (total,) = done.outputs
    np.testing.assert_allclose(total, (data() ** 2 + data()).sum(axis=1, keepdims=True), rtol=1e-5)
