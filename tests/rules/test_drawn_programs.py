"""Rules on drawn programs: they agree with what their words say, and no gain is larger than the kernel."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.schedule import schedule, verify
from nki_lab.kernel_runtime.timing import walk
from nki_lab.rules import ProgramFacts, TimedFacts, check_program, check_timed, dead_store
from nki_lab.rules.single_buffer import _doubled
from tests.kernel_runtime.drawn_kernels import Drawn, drawn_kernels, elements, traced
from tests.scale import scaled

TARGETS: Final = st.sampled_from(("trn2", "trn3"))


def unread_writes(program: Program) -> set[int]:
    """The ops of which no element that they write is read later, one element at a time."""
    kept = {tensor._buffer.id for tensor in program.outputs} | {buffer.id for buffer in program.inputs}
    waiting: dict[tuple[int, int], int] = {}  # (buffer, byte) -> the op that wrote it, until it is read
    used: set[int] = set()
    writers: set[int] = set()
    for op in program.ops():
        pairs = list(zip(op.views, op.variant.outs, strict=True))
        adds = op.variant.instruction.accumulation is not None
        for view, out in pairs:
            if not out or adds:
                used |= {waiting[view.buffer.id, at] for at in elements(view) if (view.buffer.id, at) in waiting}
        for view, out in pairs:
            if out:
                writers.add(op.index)
                waiting |= dict.fromkeys(((view.buffer.id, at) for at in elements(view)), op.index)
    used |= {op for (buffer, _), op in waiting.items() if buffer in kept}
    return writers - used


@given(drawn_kernels(most_calls=14), TARGETS)
def test_what_is_called_a_dead_store_is_one(kernel: Drawn, target: str) -> None:
    program = traced(kernel, target=target)
    unread = unread_writes(program)
    for found in dead_store.check.check(ProgramFacts(program=program)):
        assert any(program.sites[program.op_site[op]].line == found.line for op in unread)


@given(drawn_kernels(most_calls=14), TARGETS)
@settings(max_examples=scaled(40))
def test_no_rule_fails_and_no_gain_exceeds_the_kernel(kernel: Drawn, target: str) -> None:
    program = traced(kernel, target=target)
    allocation = allocate(program)
    order = schedule(program, allocation)
    check_program(ProgramFacts(program=program, known_allocation=allocation, known_schedule=order))
    timed = TimedFacts(
        program=program, allocation=allocation, schedule=order, timing=walk(program, order, None, allocation)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TimedFacts, "is_worthwhile", lambda _, gain: gain > 0)
        for found in check_timed(timed):
            assert found.severity == "information"
    assert timed.retimed(order) == timed.timing.makespan
    assert timed.path_time.sum() <= timed.timing.makespan


@given(drawn_kernels(most_calls=14), TARGETS)
@settings(max_examples=scaled(40))
def test_tiles_in_turn_leave_an_order_that_works(kernel: Drawn, target: str) -> None:
    program = traced(kernel, target=target)
    allocation = allocate(program)
    order = schedule(program, allocation)
    timed = TimedFacts(
        program=program, allocation=allocation, schedule=order, timing=walk(program, order, None, allocation)
    )
    chosen = [buffer for buffer in program.buffers if buffer.on_chip]
    doubled = _doubled(timed, chosen)
    kept = set(zip(_ops(doubled.start).tolist(), doubled.pred.tolist(), strict=True))
    assert all(after > before for after, before in kept)
    if len(kept) == len(doubled.pred):
        verify(doubled)
    assert (timed.retimed(order=doubled) > 0) == (len(program) > 0)


def _ops(start: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    return np.repeat(np.arange(len(start) - 1), np.diff(start))
