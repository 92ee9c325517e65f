"""Random numbers: the same from the same seed and state, apart in each lane, and spread as they should be."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab.diagnostic import NkiError
from nki_lab.isa.ops.random import seeded, xorwow
from tests.reference import random as reference

TARGETS = ("trn1", "trn2", "trn3")


def run(kernel: Any, *arrays: np.ndarray[Any, Any], target: str = "trn2") -> Any:
    return nki_lab.run(nki.jit(kernel), *arrays, target=target).outputs


def stored(*tiles: Any) -> Any:
    """HBM copies of tiles, for a kernel to return."""
    outs = [nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm) for tile in tiles]
    for out, tile in zip(outs, tiles, strict=True):
        nisa.dma_copy(out, tile)
    return tuple(outs)


def drawn(columns: int = 64, dtype: Any = nl.uint32, **more: Any) -> Any:
    tile = nl.ndarray((128, columns), dtype)
    nisa.rng(tile, **more)
    return tile


def test_the_recurrence_is_that_of_the_paper() -> None:
    # Marsaglia's own start: the words of the program in Xorshift RNGs, section 3.1.
    words = [123456789, 362436069, 521288629, 88675123, 5783321, 6615241]
    many = np.array([words, [1, 2, 3, 4, 5, 6]], np.uint32)
    numbers = xorwow(many, 23)
    for row, own in enumerate((list(words), [1, 2, 3, 4, 5, 6])):
        assert numbers[row].tolist() == [reference.step(own) for _ in range(23)]
        assert many[row].tolist() == own


@pytest.mark.parametrize("count", [1, 4, 5, 6, 17])
def test_numbers_made_at_once_are_those_made_one_by_one(count: int) -> None:
    together = seeded(7, 3, "gpsimd")
    apart = together.copy()
    numbers = xorwow(together, count)
    np.testing.assert_array_equal(numbers, np.concatenate([xorwow(apart, 1) for _ in range(count)], axis=1))
    np.testing.assert_array_equal(together, apart)


@pytest.mark.parametrize("target", TARGETS)
def test_the_same_seed_gives_the_same_numbers(target: str) -> None:
    def kernel(seeds: Any) -> Any:
        seed = nl.ndarray((1, 2), nl.uint32)
        nisa.dma_copy(seed, seeds)
        tiles = [drawn()]
        for place in (0, 0, 1):
            nisa.set_rng_seed(seed[:, place : place + 1])
            tiles.append(drawn())
        return stored(*tiles, drawn())

    seeds = np.array([[1, 2]], np.uint32)
    first, one, again, two, after = run(kernel, seeds, target=target)
    np.testing.assert_array_equal(one, again)
    for left, right in ((first, one), (one, two), (two, after)):
        assert (left == right).mean() < 0.01
    for former, now in zip((first, one, again, two, after), run(kernel, seeds, target=target), strict=True):
        np.testing.assert_array_equal(former, now)


def test_a_seed_makes_the_numbers_that_the_documented_scheme_makes() -> None:
    def kernel(seeds: Any) -> Any:
        seed = nl.ndarray((1, 1), nl.uint32)
        nisa.dma_copy(seed, seeds)
        nisa.set_rng_seed(seed)
        return stored(drawn(9))

    registers = type("Registers", (), {"random": {"vector": reference.seeded(2**32 - 5, "vector")}})()
    expected = reference.bits(registers, "vector", 0, 128, 9)
    np.testing.assert_array_equal(run(kernel, np.array([[2**32 - 5]], np.uint32))[0], expected)


@pytest.mark.parametrize(("engine", "words", "target"), [("gpsimd", 6, "trn2"), ("vector", 24, "trn3")])
def test_a_state_that_is_stored_and_loaded_goes_on_where_it_was(engine: str, words: int, target: str) -> None:
    which = getattr(nisa.engine, engine)

    def kernel(given: Any) -> Any:
        state = nl.ndarray((128, words), nl.uint32)
        kept = nl.ndarray((128, words), nl.uint32)
        nisa.dma_copy(state, given)
        nisa.rand_set_state(state, engine=which)
        first = drawn(engine=which)
        nisa.rand_get_state(kept, engine=which)
        second = drawn(engine=which)
        nisa.rand_set_state(kept, engine=which)
        third = drawn(engine=which)
        nisa.rand_set_state(state, engine=which)
        return stored(first, second, third, drawn(engine=which), kept)

    given = np.random.default_rng(0).integers(0, 2**32, (128, words), dtype=np.uint32)
    first, second, third, fourth, kept = run(kernel, given, target=target)
    np.testing.assert_array_equal(second, third)
    np.testing.assert_array_equal(first, fourth)
    assert (first == second).mean() < 0.01
    assert (kept != given).any()


def test_engines_have_generators_of_their_own() -> None:
    def kernel(unused: Any) -> Any:
        return stored(drawn(engine=nisa.engine.vector), drawn(engine=nisa.engine.gpsimd), drawn())

    def alone(unused: Any) -> Any:
        return stored(drawn(), drawn())

    nothing = np.zeros((1, 1), np.float32)
    vector, gpsimd, after = run(kernel, nothing)
    first, second = run(alone, nothing)
    np.testing.assert_array_equal((vector, after), (first, second))
    assert (vector == gpsimd).mean() < 0.01


def test_a_lane_draws_the_same_whatever_other_lanes_do() -> None:
    def kernel(unused: Any) -> Any:
        half = nl.ndarray((128, 64), nl.uint32)
        nisa.rng(half[64:128])
        nisa.rng(half[0:64])
        return stored(half)

    def whole(unused: Any) -> Any:
        return stored(drawn())

    nothing = np.zeros((1, 1), np.float32)
    np.testing.assert_array_equal(run(kernel, nothing)[0], run(whole, nothing)[0])


def test_bits_are_even_and_lanes_and_neighbours_have_nothing_in_common() -> None:
    def kernel(unused: Any) -> Any:
        return stored(drawn(1024))

    numbers = run(kernel, np.zeros((1, 1), np.float32))[0]
    count = numbers.size
    for bit in range(32):
        # Five standard deviations of a fair coin.
        assert abs(((numbers >> np.uint32(bit)) & 1).mean() - 0.5) < 5 * 0.5 / count**0.5
    unit = numbers.astype(np.float64) / 2**32 - 0.5
    for left, right in ((unit[:, :-1], unit[:, 1:]), (unit[:, :-4], unit[:, 4:]), (unit[:-1], unit[1:])):
        assert abs((left * right).mean() * 12) < 5 / left.size**0.5


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("prob", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_dropout_drops_with_its_probability_and_keeps_the_rest_as_it_is(prob: float, target: str) -> None:
    def kernel(a: Any, p: Any) -> Any:
        data, kept, each = (nl.ndarray((128, 512), nl.bfloat16) for _ in range(3))
        chance = nl.ndarray((128, 1), nl.float32)
        nisa.dma_copy(data, a)
        nisa.dma_copy(chance, p)
        nisa.dropout(kept, data, prob)
        nisa.dropout(each, data, chance)
        return stored(kept, each)

    data = (np.random.default_rng(1).random((128, 512)) + 0.5).astype(nl.bfloat16)
    steps = np.linspace(0, 1, 128, dtype=np.float32)[:, None]
    kept, each = (tile.astype(np.float32) for tile in run(kernel, data, steps, target=target))
    for result in (kept, each):
        np.testing.assert_array_equal(result[result != 0], data.astype(np.float32)[result != 0])
    assert abs((kept == 0).mean() - prob) <= 5 * (prob * (1 - prob) / kept.size) ** 0.5
    spread = (steps * (1 - steps) / 512) ** 0.5
    assert (np.abs((each == 0).mean(axis=1, keepdims=True) - steps) <= 5.5 * spread + 1e-6).all()


def test_integers_are_dropped_without_passing_float32() -> None:
    def kernel(a: Any) -> Any:
        data, kept = (nl.ndarray((128, 64), nl.int32) for _ in range(2))
        nisa.dma_copy(data, a)
        nisa.dropout(kept, data, 0.25)
        return stored(kept)

    data = np.full((128, 64), 2**24 + 1, np.int32)
    assert set(np.unique(run(kernel, data)[0]).tolist()) == {0, 2**24 + 1}


def test_rand2_fills_its_range_evenly() -> None:
    def kernel(ends: Any) -> Any:
        high = nl.ndarray((128, 1), nl.float32)
        nisa.dma_copy(high, ends)
        flat, own = nl.ndarray((128, 512), nl.float32), nl.ndarray((128, 512), nl.float32)
        whole = nl.ndarray((128, 512), nl.int32)
        nisa.rand2(flat, -2.0, 6.0)
        nisa.rand2(own, 0.0, high)
        nisa.rand2(whole, -0.5, 9.5)
        return stored(flat, own, whole)

    ends = np.arange(1, 129, dtype=np.float32)[:, None]
    flat, own, whole = run(kernel, ends, target="trn3")
    assert -2 <= flat.min() < -1.99
    assert 5.99 < flat.max() <= 6
    shares = np.histogram(flat, bins=16, range=(-2, 6))[0] / flat.size
    assert (np.abs(shares - 1 / 16) < 5 * (15 / 256 / flat.size) ** 0.5).all()
    assert (own < ends).all()
    assert (np.abs(own.mean(axis=1, keepdims=True) / ends - 0.5) < 5.5 * (1 / 12 / 512) ** 0.5).all()
    assert set(np.unique(whole).tolist()) <= set(range(11))


@pytest.mark.parametrize(
    ("call", "target", "code"),
    [
        ("rng(nl.ndarray((128, 8), nl.float32))", "trn2", "NKI202"),
        ("rng(nl.ndarray((128, 8), nl.uint32, buffer=nl.psum), engine=nisa.engine.gpsimd)", "trn2", "NKI208"),
        ("rng(nl.ndarray((128, 8), nl.uint32), engine=nisa.engine.scalar)", "trn2", "NKI208"),
        ("rng(nl.ndarray((128, 8), nl.uint32), engine=nisa.engine.gpsimd)", "trn1", "NKI221"),
        ("rand2(nl.ndarray((128, 8), nl.float32), 0.0, 1.0)", "trn2", "NKI209"),
        ("rand_get_state(nl.ndarray((128, 6), nl.uint32))", "trn1", "NKI209"),
        ("rand_get_state(nl.ndarray((128, 2, 3), nl.uint32))", "trn2", "NKI203"),
        ("rand_get_state(nl.ndarray((128, 6), nl.uint32, buffer=nl.psum))", "trn3", "NKI208"),
        ("rand_get_state(nl.ndarray((128, 6), nl.int32))", "trn2", "NKI202"),
        ("set_rng_seed(nl.ndarray((1, 2), nl.uint32))", "trn2", "NKI203"),
        ("set_rng_seed(nl.ndarray((1, 1), nl.uint16))", "trn2", "NKI202"),
        ("dropout(nl.ndarray((8, 8), nl.float32), nl.ndarray((8, 8), nl.float32), nl.ndarray((8, 2), nl.float32))",
         "trn2", "NKI203"),
        ("dropout(nl.ndarray((8, 8), nl.float8_e5m2_x4), nl.ndarray((8, 8), nl.float8_e5m2_x4), 0.5)", "trn3",
         "NKI202"),
    ],
)  # fmt: skip
def test_what_it_takes(call: str, target: str, code: str) -> None:
    from tests.calls import kernel_of, traced

    with pytest.raises(NkiError) as caught:
        traced(kernel_of(f"def kernel(a):\n    nisa.{call}\n"), [np.zeros((1, 1), np.float32)], ["float32"], target)
    assert caught.value.diagnostics[0].code == code


def test_a_draw_that_nothing_reads_moves_the_generators_all_the_same() -> None:
    def kernel(unused: Any) -> Any:
        drawn()
        return stored(drawn())

    done = nki_lab.run(nki.jit(kernel), np.zeros((1, 1), np.float32), target="trn2")
    assert "NKI414" not in {found.code for found in done.diagnostics}  # without it the result is another one
