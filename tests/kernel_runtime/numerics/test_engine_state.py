"""What engines keep between instructions: each core of a launch has its own accumulators and random numbers."""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

import nki_lab

X = np.random.default_rng(3).integers(-8, 9, (256, 64)).astype(np.float32)


@nki.jit
def sums_across_a_barrier(x):
    out = nl.ndarray((256, 1), nl.float32, buffer=nl.shared_hbm)
    first = nl.program_id(0) * 128
    tile = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
    copy = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[first : first + 128, 0:64])
    nisa.activation(dst=copy, op=nl.copy, data=tile, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce)
    nisa.core_barrier(out, cores=(0, 1))
    nisa.activation(
        dst=copy, op=nl.copy, data=tile, reduce_op=nl.add, reduce_res=total, reduce_cmd=nisa.reduce_cmd.reduce
    )
    nisa.dma_copy(dst=out[first : first + 128, 0:1], src=total)
    return out


def test_a_core_adds_to_its_own_accumulators_after_a_barrier() -> None:
    wanted = 2 * X.sum(axis=1, keepdims=True)
    for _ in range(3):  # the first run, and by its plan
        np.testing.assert_array_equal(sums_across_a_barrier[2](X), wanted)


def test_replays_and_exact_values_keep_the_accumulators_of_cores_apart() -> None:
    run = nki_lab.run(sums_across_a_barrier[2], X, target="trn2")
    wanted = 2 * X.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(run.outputs[0], wanted)
    store = run.program.op(len(run.program) - 1)
    first = 128 * run.program.core_of(store.index)
    np.testing.assert_array_equal(run.values.after_op(store.index, store.writes[0]), wanted[first : first + 128])
    errors = run.values.rounding_errors(1e-6)
    assert errors.culprit is None
    np.testing.assert_array_equal(errors.exact_outputs[0].reshape(wanted.shape), wanted)


@nki.jit
def random_numbers_of_both_cores(seeds):
    out = nl.ndarray((256, 64), nl.uint32, buffer=nl.shared_hbm)
    me = nl.program_id(0)
    seed = nl.ndarray((1, 1), nl.uint32, buffer=nl.sbuf)
    numbers = nl.ndarray((128, 64), nl.uint32, buffer=nl.sbuf)
    nisa.dma_copy(dst=seed, src=seeds[me : me + 1, 0:1])
    nisa.set_rng_seed(seed)
    nisa.core_barrier(out, cores=(0, 1))
    nisa.rng(dst=numbers)
    nisa.dma_copy(dst=out[me * 128 : me * 128 + 128, 0:64], src=numbers)
    return out


def test_a_core_draws_from_the_seed_that_it_has_set_itself() -> None:
    seeds = np.array([[5], [5]], np.uint32)
    made = np.array(random_numbers_of_both_cores[2](seeds))
    np.testing.assert_array_equal(made[:128], made[128:])
