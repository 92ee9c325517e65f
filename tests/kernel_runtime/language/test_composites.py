"""Functions of `nki.language` that are several instructions, against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_lab
from nki_lab.diagnostic import NkiError
from tests.scale import scaled

TARGETS = ("trn1", "trn2", "trn3")
numbers = st.one_of(
    st.floats(-1e6, 1e6, width=32),
    st.integers(-300, 300).map(lambda n: n / 4),
    st.sampled_from([0.0, -0.0, 0.5, -0.5, 2.0**23, -(2.0**23) - 2, 3e9, -3e9, 1e30]),
)


def on_chip(function: Any, *arrays: np.ndarray[Any, Any], target: str = "trn2") -> Any:
    """What a kernel returns that loads arrays, applies a function to the tiles and stores its result."""

    @nki.jit
    def kernel(*inputs: Any) -> Any:
        tile = function(*[nl.load(item) for item in inputs])
        out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    return nki_lab.run(kernel, *arrays, target=target).outputs[0]


def grid(values: list[float]) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32).reshape(4, -1)


@settings(max_examples=scaled(25))
@given(st.lists(numbers, min_size=32, max_size=32))
@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
def test_rounding_functions_round_as_numpy_does(name: str, values: list[float]) -> None:
    x = grid(values)
    np.testing.assert_array_equal(on_chip(getattr(nl, name), x), getattr(np, name)(x))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["fmod", "mod"])
def test_remainders_have_the_sign_of_their_side(name: str, target: str) -> None:
    generator = np.random.default_rng(1)
    x = generator.integers(-50, 50, (128, 64)).astype(np.float32)
    y = generator.choice([-8, -4, -2, -0.5, 0.25, 1, 2, 16], (128, 64)).astype(np.float32)
    np.testing.assert_array_equal(on_chip(getattr(nl, name), x, y, target=target), getattr(np, name)(x, y))
    np.testing.assert_array_equal(on_chip(lambda a: getattr(nl, name)(a, 4.0), x), getattr(np, name)(x, np.float32(4)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("y", [7, -7, 3, 10, 49])
@pytest.mark.parametrize("name", ["fmod", "mod"])
def test_remainders_of_integers_are_smaller_than_what_divides(name: str, y: int, target: str) -> None:
    x = np.arange(-2048, 2048, dtype=np.int32).reshape(64, 64)
    expected = getattr(np, name)(x, y)
    np.testing.assert_array_equal(on_chip(lambda a: getattr(nl, name)(a, y), x, target=target), expected)
    tiles = on_chip(getattr(nl, name), x, np.full_like(x, y), target=target)
    np.testing.assert_array_equal(tiles, expected)


@pytest.mark.parametrize("turns", [1, 10, 1000])
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sine_and_cosine_are_accurate_after_many_turns(name: str, turns: float) -> None:
    x = np.linspace(-7 * turns, 7 * turns, 128 * 33, dtype=np.float32).reshape(128, 33)
    expected = getattr(np, name)(x.astype(np.float64))
    np.testing.assert_allclose(on_chip(getattr(nl, name), x), expected, rtol=0, atol=1e-6)
    narrow = on_chip(lambda a: getattr(nl, name)(a, dtype=nl.bfloat16), x)
    np.testing.assert_allclose(narrow.astype(np.float64), expected, rtol=2**-8, atol=1e-6)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_of_many_turns_are_brought_into_range(name: str) -> None:
    x = np.linspace(-40, 40, 128 * 33, dtype=np.float32).reshape(128, 33)
    expected = getattr(np, name)(x.astype(np.float64))
    bound = 2e-5 * (1 + expected**2)
    assert (np.abs(on_chip(getattr(nl, name), x) - expected) < bound).all()


def test_variance_and_rms_norm_are_those_of_numpy() -> None:
    generator = np.random.default_rng(2)
    x = generator.standard_normal((128, 96)).astype(np.float32)
    w = generator.standard_normal((128, 96)).astype(np.float32)
    np.testing.assert_allclose(on_chip(lambda a: nl.var(a, 1), x)[:, 0], x.var(axis=1), rtol=1e-5)
    norm = on_chip(lambda a, b: nl.rms_norm(a, b, 1, 96, epsilon=1e-3), x, w)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(norm, wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-3) * w, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [2, -1, (1, 2)])
def test_variance_keeps_reduced_dimensions(axis: Any, keepdims: bool) -> None:
    x = np.random.default_rng(5).standard_normal((16, 4, 24)).astype(np.float32)
    expected = x.var(axis=axis, keepdims=True)
    np.testing.assert_allclose(on_chip(lambda a: nl.var(a, axis, keepdims=keepdims), x), expected, rtol=1e-5)


@pytest.mark.parametrize("axis", [1, 2, -1, -2, (1, 3), (-1, -3)])
def test_expand_dims_counts_from_either_end(axis: Any) -> None:
    x = np.arange(8 * 6, dtype=np.float32).reshape(8, 6)
    np.testing.assert_array_equal(on_chip(lambda a: nl.copy(nl.expand_dims(a, axis)), x), np.expand_dims(x, axis))


def test_all_tells_whether_every_element_is_nonzero() -> None:
    x = np.ones((8, 16), np.float32)
    x[3, 5] = 0
    np.testing.assert_array_equal(on_chip(lambda a: nl.all(a, 1), x)[:, 0], x.all(axis=1))


@pytest.mark.parametrize("sides", ["tiles", "number", "both"])
def test_where_selects_by_a_condition(sides: str) -> None:
    generator = np.random.default_rng(3)
    c = generator.integers(0, 2, (16, 24)).astype(np.float32)
    x, y = (generator.standard_normal((16, 24)).astype(np.float32) for _ in range(2))
    if sides == "tiles":
        np.testing.assert_array_equal(on_chip(nl.where, c, x, y), np.where(c, x, y))
    elif sides == "number":
        np.testing.assert_array_equal(on_chip(lambda a, b: nl.where(a, b, -1.5), c, x), np.where(c, x, -1.5))
    else:
        np.testing.assert_array_equal(on_chip(lambda a: nl.where(a, 2.0, -1.0), c), np.where(c, 2.0, -1.0))


@pytest.mark.parametrize("row", [0, 3])
def test_broadcast_to_repeats_free_dimensions_and_one_partition(row: int) -> None:
    x = np.arange(4 * 6, dtype=np.float32).reshape(4, 6)
    spread = on_chip(lambda a: nl.copy(nl.broadcast_to(a[row : row + 1], (100, 6))), x)
    np.testing.assert_array_equal(spread, np.broadcast_to(x[row], (100, 6)))
    wide = on_chip(lambda a: nl.copy(nl.broadcast_to(a[:, 2:3], (4, 50), dtype=nl.bfloat16)), x)
    np.testing.assert_array_equal(wide.astype(np.float32), np.broadcast_to(x[:, 2:3], (4, 50)))
    with pytest.raises(NkiError, match="NKI203"):
        on_chip(lambda a: nl.broadcast_to(a, (4, 6, 1)), x)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("buffer", ["sbuf", "psum", "shared_hbm"])
def test_rand_is_uniform_and_repeats_from_its_seed(target: str, buffer: str) -> None:
    rows = 300 if buffer == "shared_hbm" else 128

    @nki.jit
    def kernel(unused: Any) -> Any:
        seed = nl.full((1, 1), 42, dtype=nl.int32, buffer=nl.sbuf)
        outs = []
        for again in (True, True, False):
            if again:
                nl.random_seed(seed)
            made = nl.rand((rows, 4, 32), nl.float32, buffer=getattr(nl, buffer))
            if buffer != "shared_hbm":
                out = nl.ndarray(made.shape, made.dtype, buffer=nl.shared_hbm)
                nl.store(out, nl.copy(made))
                made = out
            outs.append(made)
        return tuple(outs)

    first, again, after = nki_lab.run(kernel, np.zeros((1, 1), np.float32), target=target).outputs
    np.testing.assert_array_equal(first, again)
    for numbers in (first, after):
        assert numbers.min() >= 0
        assert numbers.max() < 1
        shares = np.histogram(numbers, bins=10, range=(0, 1))[0] / numbers.size
        assert (np.abs(shares - 0.1) < 5 * (0.09 / numbers.size) ** 0.5).all()
    assert (first == after).mean() < 0.01


def test_random_seed_wants_a_tile() -> None:
    with pytest.raises(NkiError, match="NKI013"):
        on_chip(lambda a: [nl.random_seed(5), a][1], np.zeros((4, 4), np.float32))


def test_dropout_zeroes_a_share_of_each_partition() -> None:
    x = np.ones((128, 512), np.float32)
    kept = on_chip(lambda a: nl.dropout(a, 0.3, dtype=nl.bfloat16), x).astype(np.float32)
    assert set(np.unique(kept)) == {0, 1}
    assert abs((kept == 0).mean() - 0.3) < 5 * (0.21 / kept.size) ** 0.5
    rates = (np.arange(128, dtype=np.float32) % 2)[:, None]
    np.testing.assert_array_equal(on_chip(nl.dropout, x, rates), np.broadcast_to(1 - rates, x.shape))


def test_gather_flattened_picks_within_a_partition() -> None:
    generator = np.random.default_rng(4)
    x = generator.standard_normal((128, 50)).astype(np.float32)
    at = generator.integers(0, 50, (128, 20)).astype(np.uint32)
    np.testing.assert_array_equal(on_chip(nl.gather_flattened, x, at), np.take_along_axis(x, at.astype(int), 1))


def test_an_index_beyond_the_row_is_refused_with_its_value() -> None:
    at = np.zeros((4, 3), np.uint32)
    at[2, 1] = 77
    with pytest.raises(NkiError, match=r"NKI310.*indices\[2, 1\] is 77, a row has 50"):
        on_chip(nl.gather_flattened, np.zeros((4, 50), np.float32), at)


def test_load_transpose2d_swaps_rows_and_columns() -> None:
    x = np.arange(96 * 40, dtype=np.float32).reshape(96, 40)

    @nki.jit
    def kernel(a: Any) -> Any:
        tile = nl.load_transpose2d(a)
        out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    np.testing.assert_array_equal(nki_lab.run(kernel, x, target="trn2").outputs[0], x.T)


def test_shared_constants_come_from_arrays_and_files(tmp_path: Path) -> None:
    values = np.arange(64, dtype=np.float32).reshape(8, 8)
    file = tmp_path / "values.npy"
    np.save(file, values)
    for constant in (values, str(file), file):

        @nki.jit
        def kernel(a: Any, constant: Any = constant) -> Any:
            tile = nl.ndarray((8, 8), nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(tile, nl.shared_constant(constant))
            out = nl.ndarray((8, 8), nl.float32, buffer=nl.shared_hbm)
            nl.store(out, nl.add(tile, nl.load(a)))
            return out

        np.testing.assert_array_equal(nki_lab.run(kernel, values, target="trn2").outputs[0], 2 * values)


def test_a_constant_file_that_is_missing_is_named(tmp_path: Path) -> None:
    @nki.jit
    def kernel(a: Any) -> Any:
        nl.shared_constant(str(tmp_path / "nothing.npy"))
        return a

    with pytest.raises(NkiError, match=r"NKI018.*nothing\.npy"):
        nki_lab.run(kernel, np.zeros((2, 2), np.float32), target="trn2")


def test_memories_are_told_apart() -> None:
    assert nl.is_sbuf(nl.sbuf)
    assert not nl.is_sbuf(nl.psum)
    assert nl.is_on_chip(nl.psum)
    assert nl.is_hbm(nl.shared_hbm)
    assert not nl.is_hbm(nl.sbuf)
