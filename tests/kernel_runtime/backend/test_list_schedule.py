"""The list scheduler: every order that it gives is one that the program allows, and none is worse."""

from __future__ import annotations

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from neuronxcc import nki

import nki_lab
from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.backend import REORDERED, compiled
from nki_lab.kernel_runtime.backend.list_schedule import WINDOW, list_order
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.schedule import order_edges
from nki_lab.kernel_runtime.timing.reasons import TABLE
from nki_lab.kernel_runtime.vocabulary import ORIGINS


@nki.jit
def mixed(a, steps, size, shared):
    """Chains of instructions on several engines, as `steps` says, in tiles of `size` columns."""
    out = nl.ndarray((len(steps), 128, size), nl.float32, buffer=nl.shared_hbm)
    left = nl.load(a[0])
    common = nl.ndarray((128, size), nl.float32, buffer=nl.sbuf)
    for number, step in enumerate(steps):
        tile = nl.load(a[number % 4, :, 0:size])
        if step == "matmul":
            total = nl.zeros((128, size), nl.float32, buffer=nl.psum)
            for _ in range(2):
                total += nisa.nc_matmul(left[:, 0:128], tile)
            tile = nl.copy(total)
        elif step == "scalar":
            tile = nl.exp(tile)
        elif step == "chain":
            for _ in range(6):
                tile = nl.add(nl.exp(tile), tile)
        if shared:
            common[...] = nl.multiply(tile, tile)
            tile = common
        nl.store(out[number], tile)
    return out


def program_of(steps: list[str], size: int, shared: bool) -> Program:
    a = nki_lab.spec((4, 128, 512), "float32")
    return nki_lab.profile(mixed, a, steps, size, shared, target="trn1").program


@nki.jit
def two_tables(a):
    """Tiles that need two sets of activation tables, one after the other."""
    out = nl.ndarray((16, 128, 512), nl.float32, buffer=nl.shared_hbm)
    for number in range(16):
        tile = nl.log(nl.exp(nl.load(a[number])))
        nl.store(out[number], tile)
    return out


@nki.jit
def two_engines(a):
    """A tile that GpSimd masks and Vector adds to itself, again and again."""
    out = nl.ndarray((2, 8, 128, 512), nl.float32, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:128, 0:512]
    tile = nl.load(a[0])
    for number in range(8):
        masked = nisa.affine_select(i_p >= i_f, on_true_tile=tile, on_false_value=0.0)
        nl.store(out[0, number], masked)
        nl.store(out[1, number], nisa.tensor_tensor(tile, tile, np.add, engine=nisa.vector_engine))
    return out


CASES = st.tuples(
    st.lists(st.sampled_from(["matmul", "scalar", "chain", "copy"]), min_size=1, max_size=12),
    st.sampled_from([128, 512]),
    st.booleans(),
)


@settings(max_examples=25, deadline=None)
@given(CASES, st.sampled_from([1, 7, WINDOW]), st.data())
def test_an_order_is_one_of_all_rows_that_keeps_what_the_program_asks_for(
    case: tuple[list[str], int, bool], window: int, data: st.DataObject
) -> None:
    program = program_of(*case)
    cuts = data.draw(st.lists(st.integers(0, len(program)), max_size=6, unique=True).map(sorted))
    program.fences = list(zip(cuts[::2], cuts[1::2], strict=False))
    order = list_order(program, window)
    rows = len(program)
    assert sorted(order.tolist()) == list(range(rows))
    place = np.empty(rows, np.int64)
    place[order] = np.arange(rows)
    found, _ = order_edges(program)
    assert (place[found.pred] < place[found.op]).all()
    np.testing.assert_array_equal(order, list_order(program, window))  # the same program has the same order
    # A row runs at most `window` before the first that has not run.
    waiting = np.minimum.accumulate(order[::-1])[::-1]
    assert (order - waiting < window).all()
    for first, end in program.fences:
        assert (np.diff(place[first:end]) == 1).all()
    if window == 1:
        np.testing.assert_array_equal(order, np.arange(rows))


@settings(max_examples=15, deadline=None)
@given(CASES)
def test_a_program_takes_no_longer_and_no_more_memory_than_there_is(case: tuple[list[str], int, bool]) -> None:
    steps, size, shared = case
    a = nki_lab.spec((4, 128, 512), "float32")
    before, after = (
        nki_lab.profile(mixed, a, steps, size, shared, target="trn1", compiler_model=model)
        for model in ("engines,repeats,spills", "all")
    )
    assert after.summary["makespan_ns"] <= before.summary["makespan_ns"]
    found = compiled(after.program)
    chip = after.program if found is None else found.program
    arch = chip.arch
    assert allocate(chip).sbuf_peak <= max(arch.sbuf_usable_bytes, allocate(after.program).sbuf_peak)
    assert allocate(chip).psum_peak <= arch.psum_banks * arch.psum_bank_bytes


def test_an_engine_takes_work_of_the_next_iteration_while_it_would_wait() -> None:
    program = program_of(["matmul"] * 8, 512, False)
    found = compiled(program)
    assert found is not None
    assert found.notes[REORDERED] > 0
    assert found.moved.sum() >= found.notes[REORDERED]


@pytest.mark.parametrize("model", ["order", "all"])
def test_the_tables_of_a_reordered_program_are_those_of_its_rows(model: str) -> None:
    a = nki_lab.spec((4, 128, 512), "float32")
    done = nki_lab.profile(mixed, a, ["chain"] * 8, 512, False, target="trn1", compiler_model=model)
    found = done._timeline.compiled
    assert found is not None
    changes = done.recording.table("changes")
    moved = np.array(changes["row"])[np.array(changes["origin"]) == ORIGINS.index("moved")]
    assert set(moved) == set(found.source[found.moved])


def test_instructions_of_the_tables_that_are_loaded_go_first() -> None:
    a = nki_lab.spec((16, 128, 512), "float32")
    before, after = (
        nki_lab.profile(two_tables, a, target="trn1", compiler_model=model)
        for model in ("loops,fills,sums,engines,repeats,broadcasts,spills", "all")
    )
    assert _table_loads(before) == 32
    assert 2 <= _table_loads(after) <= 16
    assert after.summary["makespan_ns"] < before.summary["makespan_ns"]


def test_without_table_loads_the_order_knows_no_tables() -> None:
    a = nki_lab.spec((16, 128, 512), "float32")
    orders = [
        list_order(nki_lab.profile(two_tables, a, target="trn1", table_loads=loads).program).tolist()
        for loads in (True, False)
    ]
    assert orders[0] != orders[1]


def _table_loads(done: nki_lab.Run) -> int:
    timing = done._timeline.timing
    return int((timing.setup_reason == TABLE).sum())


def test_engines_that_share_the_lock_of_sbuf_are_thought_to_take_turns() -> None:
    a = nki_lab.spec((4, 128, 512), "float32")
    free, locked = (
        nki_lab.profile(two_engines, a, target="trn1", port_conflicts=conflicts).program for conflicts in (False, True)
    )
    assert list_order(free).tolist() != list_order(locked).tolist()
