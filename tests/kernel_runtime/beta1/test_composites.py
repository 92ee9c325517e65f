"""Beta 1 functions that are several instructions: the current ones, with masks, broadcasting and Beta 1's dtypes."""

from __future__ import annotations

from typing import Any

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest

from nki_lab.diagnostic import NkiError


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32) * 4


def apply(execute: Any, function: Any, *arrays: np.ndarray[Any, Any], target: str = "trn2") -> Any:
    """What a kernel gives that loads arrays, applies a function to the tiles and stores its result."""

    def kernel(*inputs: Any) -> Any:
        tile = function(*[nl.load(item) for item in inputs])
        out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    return execute(kernel, *arrays, target=target).outputs


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
def test_rounding_is_that_of_numpy_also_under_a_mask(execute: Any, name: str) -> None:
    x = random(8, 6)
    np.testing.assert_array_equal(apply(execute, getattr(nl, name), x), getattr(np, name)(x))

    def kernel(a: Any) -> Any:
        p, f = nl.mgrid[0:8, 0:6]
        tile = nl.load(a)
        out = nl.zeros((8, 6), nl.float32, buffer=nl.sbuf)
        out[p, f] = getattr(nl, name)(tile[p, f], mask=(f < 4))
        whole = nl.ndarray((8, 6), nl.float32, buffer=nl.shared_hbm)
        nl.store(whole, out)
        return whole

    want = np.where(np.arange(6) < 4, getattr(np, name)(x), 0)
    np.testing.assert_array_equal(execute(kernel, x).outputs, want)


@pytest.mark.parametrize("name", ["cos", "tan"])
def test_angles_are_those_of_numpy(execute: Any, name: str) -> None:
    x = random(8, 6)
    np.testing.assert_allclose(apply(execute, getattr(nl, name), x), getattr(np, name)(x), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["fmod", "mod"])
def test_remainders_broadcast(execute: Any, name: str) -> None:
    x, y = np.rint(random(8, 6) * 10), np.array([[1, 2, -4, 8, 0.5, -2]], np.float32)
    np.testing.assert_array_equal(apply(execute, getattr(nl, name), x, y), getattr(np, name)(x, y))
    np.testing.assert_array_equal(apply(execute, lambda a: getattr(nl, name)(a, 4), x), getattr(np, name)(x, 4))


@pytest.mark.parametrize("name", ["silu_dx", "gelu_dx", "erf_dx"])
def test_derivatives_are_activations(execute: Any, name: str) -> None:
    x = random(8, 6) / 4
    step = 1e-3
    function = getattr(nl, name.removesuffix("_dx"))
    slope = (apply(execute, function, x + step) - apply(execute, function, x - step)) / (2 * step)
    np.testing.assert_allclose(apply(execute, getattr(nl, name), x), slope, atol=2e-3)


def test_where_takes_truth_values_tiles_and_numbers(execute: Any) -> None:
    x, y, row = random(8, 6), random(8, 6) + 1, random(1, 6)
    np.testing.assert_array_equal(apply(execute, lambda a, b: nl.where(a > b, a, b), x, y), np.maximum(x, y))
    np.testing.assert_array_equal(apply(execute, lambda a: nl.where(a > 0, a, -1.0), x), np.where(x > 0, x, -1))
    np.testing.assert_array_equal(apply(execute, lambda a: nl.where(a > 0, 1.0, 2.0), x), np.where(x > 0, 1, 2))
    np.testing.assert_array_equal(apply(execute, lambda a, b: nl.where(a > 0, a, b), x, row), np.where(x > 0, x, row))


def test_gather_flattened_goes_over_all_free_dimensions(execute: Any) -> None:
    x = random(8, 5, 6)
    at = np.random.default_rng(0).integers(0, 30, (8, 9)).astype(np.uint32)
    want = np.take_along_axis(x.reshape(8, 30), at.astype(int), 1)
    np.testing.assert_array_equal(apply(execute, nl.gather_flattened, x, at), want)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_random_numbers_repeat_from_a_seed(execute: Any, target: str) -> None:
    def kernel(a: Any) -> Any:
        outs = []
        for seed in (3, np.int32(3), nisa.memset((1, 1), 3, nl.int32), 4):
            nl.random_seed(seed)
            out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
            nl.store(out, nl.rand((128, 64)))
            outs.append(out)
        return tuple(outs)

    first, again, tile, other = execute(kernel, random(1, 1), target=target).outputs
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, tile)
    assert (first == other).mean() < 0.01
    assert first.min() >= 0
    assert first.max() < 1
    assert abs(first.mean() - 0.5) < 5 * (1 / 12 / first.size) ** 0.5


def test_dropout_takes_a_number_or_a_rate_for_each_partition(execute: Any) -> None:
    x = np.abs(random(128, 64)) + 1
    rates = (np.arange(128) % 2).astype(np.float32)[:, None]
    kept = apply(execute, lambda a: nl.dropout(a, 0.4), x)
    np.testing.assert_array_equal(kept[kept != 0], x[kept != 0])
    assert abs((kept == 0).mean() - 0.4) < 5 * (0.24 / x.size) ** 0.5
    for function in (nl.dropout, nisa.dropout):
        np.testing.assert_array_equal(apply(execute, function, x, rates), x * (1 - rates))
    np.testing.assert_array_equal(apply(execute, nl.dropout, x, np.ones((1, 1), np.float32)), np.zeros_like(x))


def test_wrong_calls_are_refused(execute: Any) -> None:
    for function in (lambda a: nl.where(3, a, a), lambda a: nl.fmod(1, 2), lambda a: nl.random_seed("x"),
                     lambda a: nl.floor(2.0)):  # fmt: skip
        with pytest.raises(NkiError, match="NKI013"):
            apply(execute, function, random(4, 4))


def test_truth_values_are_predicates_and_dma_adds_to_memory(execute: Any) -> None:
    x, y = random(8, 6), random(8, 6)

    def kernel(a: Any, b: Any) -> Any:
        left, right = nl.load(a), nl.load(b)
        kept = nl.copy(left)
        nisa.tensor_copy_predicated(src=right, dst=kept, predicate=left < right)
        out = nl.ndarray((8, 6), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, kept)
        rows = nisa.iota(nl.arange(8)[:, None], dtype=nl.int32)
        nisa.dma_copy(dst=out[rows, nl.arange(6)[None, :]], src=left, dst_rmw_op=np.add)
        return out

    np.testing.assert_allclose(execute(kernel, x, y).outputs, np.maximum(x, y) + x, rtol=1e-6)


def test_affine_select_takes_a_comparison_of_indices(execute: Any) -> None:
    x = random(8, 6)

    def masked(tile: Any) -> Any:
        p, f = nl.mgrid[0:8, 0:6]
        return nisa.affine_select(pred=(p >= f + 1), on_true_tile=tile[p, f], on_false_value=-7.0)

    want = np.where(np.arange(8)[:, None] >= np.arange(6) + 1, x, -7)
    np.testing.assert_array_equal(apply(execute, masked, x), want)


def test_results_that_calls_are_given(execute: Any) -> None:
    x = random(8, 16)

    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        sums, chosen = (nl.ndarray((8, 16), nl.float32) for _ in range(2))
        nisa.tensor_scalar_cumulative(dst=sums, src=tile, op0=nl.multiply, op1=nl.add, imm0=2.0, imm1=5.0)
        nisa.select_reduce(dst=chosen, predicate=tile > 0, on_true=tile, on_false=-1.0)
        outs = [nl.ndarray((8, 16), nl.float32, buffer=nl.shared_hbm) for _ in range(2)]
        nl.store(outs[0], sums)
        nl.store(outs[1], chosen)
        return tuple(outs)

    sums, chosen = execute(kernel, x).outputs
    np.testing.assert_allclose(sums, np.cumsum(2 * x, axis=1), rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(chosen, np.where(x > 0, x, -1))
