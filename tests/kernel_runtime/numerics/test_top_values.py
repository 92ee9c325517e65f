"""The largest values of a row and their places, found by two cores: each searches its half, and both combine."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab

COUNT = 16


@nki.jit
def largest(x, how, way):
    rows, columns = x.shape
    cores, me = nl.num_programs(0), nl.program_id(0)
    half = columns // cores
    tile = nl.ndarray((rows, half), x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[:, me * half : (me + 1) * half])
    values = nl.ndarray((rows, COUNT), x.dtype, buffer=nl.sbuf)
    places = nl.ndarray((rows, COUNT), nl.uint32, buffer=nl.sbuf)
    for start in range(0, COUNT, 8):
        part = slice(start, start + 8)
        found = nl.ndarray((rows, 8), nl.uint16 if how == "uint16" else nl.uint32, buffer=nl.sbuf)
        nisa.max8(dst=values[:, part], src=tile)
        if how == "replaced":
            nisa.nc_match_replace8(dst=tile, data=tile, vals=values[:, part], imm=-1e30, dst_idx=found)
        else:
            nisa.nc_find_index8(dst=found, data=tile, vals=values[:, part])
            nisa.nc_match_replace8(dst=tile, data=tile, vals=values[:, part], imm=-1e30)
        nisa.tensor_scalar(dst=places[:, part], data=found, op0=nl.add, operand0=me * half)
    all_values = nl.ndarray((rows, 2 * COUNT), x.dtype, buffer=nl.sbuf)
    all_places = nl.ndarray((rows, 2 * COUNT), nl.uint32, buffer=nl.sbuf)
    for number, (own, both) in enumerate(((values, all_values), (places, all_places))):
        if way == "hbm":
            shared = nl.ndarray((cores, rows, COUNT), own.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=shared[me], src=own)
            nisa.core_barrier(shared, (0, 1))
            for core in range(cores):
                nisa.dma_copy(dst=both[:, core * COUNT : (core + 1) * COUNT], src=shared[core])
        else:
            nisa.tensor_copy(dst=both[:, nl.ds(me * COUNT, COUNT)], src=own)
            nisa.sendrecv(src=own, dst=both[:, nl.ds((1 - me) * COUNT, COUNT)], send_to_rank=1 - me,
                          recv_from_rank=1 - me, pipe_id=number)  # fmt: skip
    best = nl.ndarray((rows, COUNT), x.dtype, buffer=nl.sbuf)
    best_places = nl.ndarray((rows, COUNT), nl.uint32, buffer=nl.sbuf)
    for start in range(0, COUNT, 8):
        part = slice(start, start + 8)
        found = nl.ndarray((rows, 8), nl.uint32, buffer=nl.sbuf)
        nisa.max8(dst=best[:, part], src=all_values)
        nisa.nc_find_index8(dst=found, data=all_values, vals=best[:, part])
        nisa.nc_match_replace8(dst=all_values, data=all_values, vals=best[:, part], imm=-1e30)
        nisa.nc_n_gather(dst=best_places[:, part], data=all_places, indices=found)
    out = nl.ndarray((cores, rows, COUNT), x.dtype, buffer=nl.shared_hbm)
    out_places = nl.ndarray((cores, rows, COUNT), nl.uint32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[me], src=best)
    nisa.dma_copy(dst=out_places[me], src=best_places)
    return out, out_places


def rows_of(kind: str, dtype: Any) -> Any:
    """Rows of 512 numbers; those of 9 bits are distinct as float32, and some of them equal as bfloat16."""
    rng = np.random.default_rng(7)
    drawn = [rng.permutation(512) if kind == "distinct" else rng.integers(-9, 9, 512) for _ in range(8)]
    return np.stack(drawn).astype(dtype)


@pytest.mark.parametrize("way", ["hbm", "sendrecv"])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["distinct", "repeated"])
@pytest.mark.parametrize("how", ["uint32", "uint16", "replaced"])
def test_places_of_the_largest_values_count_in_the_whole_row(how: str, kind: str, dtype: Any, way: str) -> None:
    x = rows_of(kind, dtype)
    values, places = (np.asarray(item) for item in nki_lab.run(largest[2], x, how, way, target="trn2").outputs)
    want = np.argsort(-x.astype(np.float32), axis=1, kind="stable")[:, :COUNT]
    for core in range(2):
        np.testing.assert_array_equal(values[core], np.take_along_axis(x, want, 1))
        if how != "replaced":
            np.testing.assert_array_equal(places[core], want)
        # Of equal values nc_match_replace8 gives the first place to the last column, so their order may be another.
        np.testing.assert_array_equal(np.take_along_axis(x, places[core].astype(np.int64), 1), values[core])
        assert all(len(set(row)) == COUNT for row in places[core].tolist())


@pytest.mark.parametrize(("kind", "missing"), [("uint32", 2**32 - 1), ("uint16", 2**16 - 1)])
def test_a_value_that_is_not_there_has_the_place_of_all_ones(kind: str, missing: int) -> None:
    @nki.jit
    def kernel(x, values):
        tile, wanted = nl.load(x), nl.load(values)
        found = nl.ndarray((x.shape[0], 8), getattr(nl, kind), buffer=nl.sbuf)
        nisa.nc_find_index8(dst=found, data=tile, vals=wanted)
        out = nl.ndarray(found.shape, found.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=found)
        return out

    x = np.array([[3, 1, 2, 1, 0, 7, 8, 9]], np.float32).astype(ml_dtypes.bfloat16)
    wanted = np.array([[1, 1, 1, 5, 9, 9, 3, 0]], np.float32).astype(ml_dtypes.bfloat16)
    found = np.asarray(nki_lab.run(kernel, x, wanted, target="trn2").outputs).reshape(-1)
    assert found.tolist() == [1, 3, missing, missing, 7, missing, 0, 4]
