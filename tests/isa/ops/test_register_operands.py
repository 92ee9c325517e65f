"""Attributes that a register may give: their values are those of the run."""

from __future__ import annotations

from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab import NkiError, spec

X = np.random.default_rng(0).standard_normal((128, 8)).astype(np.float32)


def ramps(x: Any, start: Any) -> Any:
    """iota from a register, in a loop on the device and outside of it."""
    out = nl.ndarray((5, 128, 8), nl.int32, buffer=nl.shared_hbm)
    for i in nl.dynamic_range(4):
        tile = nl.ndarray((128, 8), nl.int32, buffer=nl.sbuf)
        nisa.iota(tile, [[2, 8]], offset=i, channel_multiplier=10)
        nisa.dma_copy(out.select(0, i), tile)
    last, first = nl.ndarray((128, 8), nl.int32, buffer=nl.sbuf), nisa.register_alloc()
    nisa.register_load(first, start)
    nisa.iota(last, [[2, 8]], offset=first, channel_multiplier=10)
    nisa.dma_copy(out[4], last)
    return out


def test_a_ramp_starts_at_what_a_register_holds() -> None:
    made = nki_lab.run(ramps, X, np.array([[-7]], np.int32), target="trn2")
    ramp = 10 * np.arange(128)[:, None] + 2 * np.arange(8)
    np.testing.assert_array_equal(made.outputs[0], ramp + np.array([0, 1, 2, 3, -7])[:, None, None])


def masked(x: Any, start: Any) -> Any:
    tile, register = nl.load(x), nisa.register_alloc()
    nisa.register_load(register, start)
    nisa.affine_select(dst=tile, pattern=[[-1, 8]], offset=register, channel_multiplier=0, on_true_tile=tile,
                       on_false_value=0.0, cmp_op=nl.greater_equal)  # fmt: skip
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@pytest.mark.parametrize("start", [-1, 3, 9])
def test_a_mask_is_shifted_by_what_a_register_holds(start: int) -> None:
    made = nki_lab.run(masked, X, np.array([[start]], np.int32), target="trn2")
    np.testing.assert_array_equal(made.outputs[0], np.where(np.arange(8) <= start, X, 0))


def test_a_register_without_a_value_is_refused() -> None:
    def kernel(x):
        tile = nl.ndarray((128, 8), nl.int32, buffer=nl.sbuf)
        nisa.iota(tile, [[1, 8]], offset=nisa.register_alloc())

    with pytest.raises(NkiError, match="nothing has written it") as caught:
        nki_lab.run(kernel, X, target="trn2")
    assert caught.value.diagnostics[0].code == "NKI301"


def test_a_run_with_registers_as_operands_has_its_times() -> None:
    made = nki_lab.run(ramps, X, np.array([[0]], np.int32), target="trn2")
    assert made.summary.makespan_ns > 0
    timed = nki_lab.profile(ramps, spec((128, 8), "float32"), spec((1, 1), "int32"), target="trn2")
    assert timed.summary.makespan_ns == made.summary.makespan_ns
