"""Beta 1 subscripts with a number that is known when the kernel runs."""

from __future__ import annotations

from typing import Any

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest
from neuronxcc import nki

from nki_lab.diagnostic import NkiError

WIDE = np.random.default_rng(0).normal(size=(128, 512)).astype(np.float32)


@pytest.mark.parametrize("places", [[0, 64, 192, 448], [3, 7, 250, 100]])
def test_tiles_are_copied_from_places_that_a_tile_names(execute: Any, places: list[int]) -> None:
    def kernel(a: Any, at: Any) -> Any:
        out = nl.ndarray((128, 4 * 64), nl.float32, buffer=nl.shared_hbm)
        wide, off = nl.load(a), nl.load(at)
        p, f = nl.mgrid[0:128, 0:64]
        for i in nl.affine_range(4):
            nl.store(out[p, 64 * i + f], nisa.tensor_copy_dynamic_src(wide[p, off[0, i] + f]))
        return out

    got = execute(kernel, WIDE, np.array([places], np.int32)).outputs
    np.testing.assert_array_equal(got, np.concatenate([WIDE[:, at : at + 64] for at in places], axis=1))


def test_tiles_are_copied_to_places_that_a_tile_names(execute: Any) -> None:
    def kernel(a: Any, at: Any) -> Any:
        out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
        wide, off = nl.load(a), nl.load(at)
        target = nl.zeros((128, 512), nl.float32, buffer=nl.sbuf)
        p, f = nl.mgrid[0:128, 0:64]
        for i in nl.affine_range(2):
            nisa.tensor_copy_dynamic_dst(dst=target[p, f + off[0, i] - 10], src=wide[p, f])
        nl.store(out, target)
        return out

    want = np.zeros_like(WIDE)
    for at in (10, 400):
        want[:, at - 10 : at + 54] = WIDE[:, :64]
    np.testing.assert_array_equal(execute(kernel, WIDE, np.array([[10, 400]], np.int32)).outputs, want)


@pytest.mark.parametrize("place", [449, -1])
def test_a_place_outside_is_refused_with_its_value(execute: Any, place: int) -> None:
    def kernel(a: Any, at: Any) -> Any:
        out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
        wide, off = nl.load(a), nl.load(at)
        p, f = nl.mgrid[0:128, 0:64]
        nl.store(out, nisa.tensor_copy_dynamic_src(wide[p, f + off[0, 0]]))
        return out

    with pytest.raises(NkiError, match=f"NKI310.*{place}"):
        execute(kernel, WIDE, np.array([[place]], np.int32))


@pytest.mark.parametrize("free", [True, False])
def test_one_number_moves_one_dimension_and_never_partitions(execute: Any, free: bool) -> None:
    def kernel(a: Any, at: Any) -> None:
        wide, off = nl.load(a), nl.load(at)
        p, f = nl.mgrid[0:64, 0:64]
        nisa.tensor_copy_dynamic_src(wide[p + off[0, 0], f + off[0, 1] if free else f])

    with pytest.raises(NkiError, match="NKI309" if free else "NKI312"):
        execute(kernel, WIDE, np.array([[1, 2]], np.int32))


def test_a_number_between_walked_indices_moves_its_dimension() -> None:
    @nki.jit(mode="simulation")
    def kernel(source, offsets):
        out = nl.ndarray([128, 8, 4], dtype=source.dtype, buffer=nl.shared_hbm)
        table, where = nl.load(source), nl.load(offsets)
        picked = nl.ndarray([128, 8, 4], dtype=source.dtype, buffer=nl.sbuf)
        ix, _, iz = nl.mgrid[0:128, 0:1, 0:4]
        for k in nl.affine_range(8):
            picked[ix, k, iz] = nisa.tensor_copy_dynamic_src(table[ix, where[0, k], iz])
        nl.store(out, value=picked)
        return out

    source = np.random.default_rng(0).normal(size=(128, 64, 4)).astype(np.float32)
    offsets = np.array([[4, 63, 0, 5, 5, 9, 30, 31]], np.int32)
    np.testing.assert_array_equal(kernel(source, offsets), source[:, offsets[0]])
    with pytest.raises(IndexError):
        kernel(source, offsets + 1)


@pytest.mark.parametrize("sums", [True, False])
def test_a_moved_view_is_not_assigned(execute: Any, sums: bool) -> None:
    def kernel(a: Any, at: Any) -> None:
        wide, off = nl.load(a), nl.load(at)
        p, f = nl.mgrid[0:128, 0:1]
        copy = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
        copy[...] = wide[p, off[0, 0] + f] if sums else wide[p, off]

    with pytest.raises(
        NkiError, match=r"NKI309 a view with a run-time index is assigned(.|\n)*tensor_copy_dynamic_src"
    ):
        execute(kernel, WIDE, np.array([[1]], np.int32))
