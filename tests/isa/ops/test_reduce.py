"""tensor_reduce: which dimensions fold, in which order, and into which tile."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from nki_lab.diagnostic import NkiError
from tests.isa.ops.kernels import refused, run

TEXT = """
def kernel(a):
    x = nl.ndarray(a.shape, a.dtype)
    nisa.dma_copy(x, a)
    z = nl.ndarray({shape}, nl.{dtype})
    nisa.tensor_reduce(z, {call})
    return z
"""


def reduce(call: str, a: np.ndarray, shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    (found,) = run(TEXT.format(shape=shape, dtype=dtype, call=call), a)
    return found


def grid(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("axis", ["2", "-1", "[2]", "(-1,)"])
def test_the_last_dimension_by_all_its_names(axis: str) -> None:
    a = grid(4, 3, 5)
    np.testing.assert_allclose(reduce(f"nl.add, x, {axis}", a, (4, 3)), a.sum(2), rtol=1e-6)


@pytest.mark.parametrize("axis", ["(1, 2)", "[2, 1]", "(-1, -2)"])
def test_several_trailing_dimensions(axis: str) -> None:
    a = grid(4, 3, 5)
    np.testing.assert_array_equal(reduce(f"nl.maximum, x, {axis}", a, (4, 1))[:, 0], a.max((1, 2)))


def test_subtract_folds_from_the_left() -> None:
    a = np.array([[10.0, 1, 2, 3]], np.float32)
    assert reduce("nl.subtract, x, 1", a, (1, 1))[0, 0] == 4.0
    assert reduce("nl.subtract, x, 1, negate=True", a, (1, 1))[0, 0] == -4.0


def test_negation_reaches_every_row_whatever_the_step_of_the_destination() -> None:
    # Four elements from row to row: a step at which NumPy's own negation goes wrong.
    a = grid(64, 6)
    text = """
def kernel(a):
    x = nl.ndarray((64, 6), nl.float32)
    nisa.dma_copy(x, a)
    z = nl.zeros((64, 4), nl.float32)
    nisa.tensor_reduce(z[:, 2:3], nl.add, x, 1, negate=True)
    return z
"""
    (got,) = run(text, a)
    np.testing.assert_allclose(got[:, 2], -a.sum(1), rtol=1e-5, atol=1e-6)
    assert not got[:, [0, 1, 3]].any()


def test_the_sum_is_float32_and_the_result_is_rounded_once() -> None:
    a = np.full((2, 300), 1.0, ml_dtypes.bfloat16)
    assert reduce("nl.add, x, 1", a, (2, 1), "bfloat16")[0, 0] == 300.0
    assert reduce("nl.add, x, 1", a, (2, 1), "uint8")[0, 0] == 255


def test_bits_reduce_on_raw_integers() -> None:
    a = np.array([[0b1100, 0b1010, -1]], np.int32)
    assert reduce("nl.bitwise_and, x, 1", a, (1, 1), "int32")[0, 0] == 0b1000
    assert reduce("nl.bitwise_or, x, 1", a, (1, 1), "int32")[0, 0] == -1
    assert reduce("nl.bitwise_xor, x, 1", a, (1, 1), "int32")[0, 0] == 0b1100 ^ 0b1010 ^ -1


def test_logic_reduces_truth() -> None:
    a = np.array([[0, 2, 0], [0, 0, 0], [1, 2, 3]], np.float32)
    assert reduce("nl.logical_or, x, 1", a, (3, 1))[:, 0].tolist() == [1, 0, 1]
    assert reduce("nl.logical_and, x, 1", a, (3, 1))[:, 0].tolist() == [0, 0, 1]


def test_kept_dimensions_may_be_laid_out_in_any_shape() -> None:
    a = grid(4, 6, 5)
    for shape in ((4, 6), (4, 2, 3), (4, 6, 1)):
        np.testing.assert_array_equal(reduce("nl.minimum, x, 2", a, shape).reshape(4, 6), a.min(2))


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("tensor_reduce(c, nl.add, x, 0)", "NKI217"),
        ("tensor_reduce(c, nl.add, r, 1)", "NKI217"),
        ("tensor_reduce(c, nl.add, r, (0, 1, 2))", "NKI217"),
        ("tensor_reduce(c, nl.add, r, [])", "NKI217"),
        ("tensor_reduce(c, nl.add, r, 3)", "NKI217"),
        ("tensor_reduce(c, nl.add, r, -4)", "NKI217"),
        ("tensor_reduce(c, nl.equal, x, 1)", "NKI215"),
        ("tensor_reduce(c, 'average', x, 1)", "NKI215"),
        ("tensor_reduce(x, nl.add, r, 2)", "NKI203"),
        ("tensor_reduce(c, nl.bitwise_or, x, 1)", "NKI202"),
        ("tensor_reduce(n, nl.bitwise_or, i, 1, negate=True)", "NKI202"),
        ("tensor_reduce(c[0:32], nl.add, x, 1)", "NKI203"),
        ("tensor_reduce(c, nl.add, r, (1, 2))", ""),
        ("tensor_reduce(n, nl.bitwise_or, i, 1)", ""),
    ],
)
def test_what_it_takes(call: str, code: str) -> None:
    assert refused(call, "trn2") == code


def test_the_remedy_of_a_reduction_over_partitions_is_none_of_free_dimensions() -> None:
    with pytest.raises(NkiError, match="includes the partition dimension") as caught:
        reduce("nl.add, x, 0", grid(4, 4), (4, 1))
    assert "over partitions sum with a matmul by ones" in caught.value.diagnostics[0].help
