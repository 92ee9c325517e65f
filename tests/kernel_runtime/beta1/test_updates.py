"""Updates of HBM, and what instances of a launch grid do together."""

from __future__ import annotations

from typing import Any

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest
from neuronxcc import nki
from neuronxcc.nki.isa.neuron_isa import dma_copy
from neuronxcc.nki.language.iterators import sync_program

from nki_lab.diagnostic import NkiError

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(256, 64)).astype(np.float32)
ROWS = RNG.permutation(256)[:128].astype(np.int32)[:, None]
VALUE = RNG.normal(size=(128, 64)).astype(np.float32)


@nki.jit(mode="simulation", platform_target="trn2")
def update(table, rows, value, op, static=False):
    out = nl.ndarray(table.shape, dtype=table.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=table)
    index = nl.load(rows)
    given = nl.load(value) if not isinstance(value, (float, np.generic)) else value
    i_f = nl.arange(64)[None, :]
    where = out[nl.arange(128)[:, None], i_f] if static else out[index, i_f]
    nl.atomic_rmw(where, value=given, op=op)
    return out


def updated(value: Any) -> Any:
    expected = TABLE.copy()
    expected[ROWS[:, 0]] += value
    return expected


@pytest.mark.parametrize("value", [VALUE, 2.5, np.float32(-1)])
def test_rows_that_a_tile_picks_are_added_to(value: Any) -> None:
    np.testing.assert_allclose(update(TABLE, ROWS, value, np.add), updated(value), rtol=1e-6)


def test_other_operations_and_static_rows_are_refused() -> None:
    with pytest.raises(NkiError, match="NKI215"):
        update(TABLE, ROWS, VALUE, np.multiply)
    with pytest.raises(NkiError, match=r"NKI012 nl\.atomic_rmw: dst is not indexed by a tile"):
        update(TABLE, ROWS, VALUE, np.add, True)
    with pytest.raises(IndexError, match="index 25600 is out of bounds for axis 0 with size 16384"):
        update(TABLE, ROWS * 0 + 400, VALUE, np.add)


def test_offloaded_copies_and_sums_move_between_hbm_tensors() -> None:
    @nki.jit(platform_target="trn2")
    def kernel(a, b):
        copy = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nisa._tiled_offloaded_memcpy(dst=copy[:, :], src=a[:, :])
        nisa._tiled_offloaded_fma(a[:, :], b[:, :], dst=total[:, :], scales=[1.0, 1.0])
        return copy, total

    copy, total = kernel(TABLE, TABLE * 3)
    np.testing.assert_array_equal(copy, TABLE)
    np.testing.assert_allclose(total, TABLE + TABLE * 3, rtol=1e-6)


def test_the_older_path_of_instructions_has_the_same() -> None:
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        dma_copy(dst=out, src=a)
        return out

    np.testing.assert_array_equal(kernel(TABLE), TABLE)


@nki.jit
def together(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    with sync_program(0):
        nl.store(out, nl.all_reduce(nl.load(a), op=np.add, program_axes=[0]))
    return out


def test_one_instance_is_its_own_reduction_and_several_are_refused() -> None:
    np.testing.assert_array_equal(together[1](VALUE), VALUE)
    np.testing.assert_array_equal(together(VALUE), VALUE)
    with pytest.raises(NkiError, match=r"NKI010 sync_program over 2 instances(.|\n)*launch another one"):
        together[2](VALUE)
    with pytest.raises(NkiError, match="NKI010 sync_program over 4 instances"):
        together[4, 2](VALUE)
