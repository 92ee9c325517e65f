"""Execution in float64 beside the run: the run's part is the run, the exact part follows the same declarations."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.diagnostic import NkiError
from nki_lab.isa.arch import arch_of
from nki_lab.isa.spec import Instruction
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.numerics import blas
from nki_lab.kernel_runtime.numerics.replay import Replay
from nki_lab.kernel_runtime.numerics.stepping import SteppingExecutor
from nki_lab.kernel_runtime.numerics.wide import WideExecutor
from tests.calls import Case, contents, execute
from tests.draws import Seeded
from tests.legal import draw_legal
from tests.programs import draw_program
from tests.scale import scaled
from tests.strategies import arches, instructions_of

Array = np.ndarray[Any, Any]
PLENTY = 1 << 30


def wide(case: Case, program: Program) -> WideExecutor:
    arrays = dict(enumerate(map(contents, case.memories)))
    return WideExecutor(program, arrays, None, limit=PLENTY, compares=True)


def equal(a: Array, b: Array) -> bool:
    return bool(np.array_equal(a, b, equal_nan=True))


CALLS = [(arch, instruction) for arch in map(arch_of, ("trn2", "trn3")) for instruction in instructions_of(arch)]


@pytest.mark.parametrize("seed", range(scaled(4)))
@pytest.mark.parametrize(("arch", "instruction"), CALLS, ids=lambda item: getattr(item, "name", str(item)))
def test_every_instruction_is_computed_on_exact_inputs_as_the_run_does(
    arch: Any, instruction: Instruction, seed: int
) -> None:
    case = draw_legal(Seeded(seed), instruction, arch)
    try:
        program = execute(case).program
    except NkiError:
        return  # a value that the run refuses
    with blas.single_thread():  # as whoever steps through a program has it
        check_against_run(case, program)


def check_against_run(case: Case, program: Program) -> None:
    machine = wide(case, program)
    plain = SteppingExecutor(program, dict(enumerate(map(contents, case.memories))), None)
    seen: set[str] = set()
    for op in range(len(program)):
        machine.advance(op + 1)
        plain.advance(op + 1)
        name = program.variant_of(op).instruction.name
        for outcome in machine.outcomes:
            assert equal(outcome.run, plain.floats(outcome.view, program.variant_of(op).use))
            if outcome.rounded is not None and name not in seen:  # its inputs are arguments: exact
                assert equal(outcome.rounded, outcome.run), (name, op)
        if op >= len(program) - len(case.calls):
            seen.add(name)


@settings(max_examples=scaled(40))
@given(st.integers(0, 2**32), st.integers(1, 5), st.randoms(use_true_random=False))
def test_exact_values_at_any_point_are_those_of_executing_up_to_there(
    seed: int, interval: int, order: random.Random
) -> None:
    choice = Seeded(seed)
    case = draw_program(choice, choice.pick(arches()), exact=False)
    program = execute(case).program
    arrays = dict(enumerate(map(contents, case.memories)))
    limit = order.choice([0, PLENTY])
    executor = WideExecutor(program, arrays, None, limit=PLENTY)
    replay = Replay(program, arrays, None, interval=interval, limit=limit, executor=executor)
    points = [op for op in range(len(program)) if program.op(op).writes]
    order.shuffle(points)
    for op in points[:8]:
        fresh = wide(case, program)
        fresh.advance(op + 1)
        for view in program.op(op).writes:
            expected = fresh.values(view)
            found = replay.after(op, view, op + 1)
            assert found.dtype == expected.dtype
            assert found.tobytes() == expected.tobytes()


def test_a_limit_of_bytes_is_kept_and_said() -> None:
    case = draw_program(Seeded(1), arch_of("trn2"), exact=False)
    program = execute(case).program
    machine = WideExecutor(program, dict(enumerate(map(contents, case.memories))), None, limit=100)
    with pytest.raises(NkiError, match="NKI028") as caught:
        machine.advance(len(program))
    assert "replay_bytes" in caught.value.diagnostics[0].help


def test_memory_is_given_back_after_the_last_use() -> None:
    case = draw_program(Seeded(3), arch_of("trn2"), exact=False)
    program = execute(case).program
    machine = wide(case, program)
    machine.advance(len(program))
    held = {number for number in machine._exact if program.buffers[number].on_chip}
    assert all(machine._last[number] >= len(program) - 1 for number in held)
    assert machine._bytes == sum(item.nbytes for item in machine._exact.values())
