"""Chains of calls made in blocks: the same bits, and only where no row is another row of something else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nki_lab.kernel_runtime.coverage import Tracker
from nki_lab.kernel_runtime.numerics import cache_blocks
from nki_lab.kernel_runtime.numerics.executor import Executor
from nki_lab.kernel_runtime.numerics.repeating import RepeatableExecutor, can_repeat
from tests.calls import contents, kernel_of, source, traced
from tests.draws import Seeded
from tests.every import for_each
from tests.programs import draw_program
from tests.strategies import arches

pytestmark = pytest.mark.extended

Array = np.ndarray[Any, Any]

CHAIN = """
def kernel(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    a, b = (nl.ndarray(x.shape, {dtype}) for _ in range(2))
    column = nl.ndarray((128, 1), nl.float32)
    nisa.memset(column, 0.25)
    nisa.dma_copy(a, x)
    {steps}
    nisa.dma_copy(out, a)
    return out
"""
STEPS = (
    "nisa.tensor_scalar(b, a, nl.multiply, column, op1=nl.add, operand1=0.5)",
    "nisa.activation(a, nl.exp, b, scale=-1.0)",
    "nisa.tensor_tensor(b, a, b, nl.maximum)",
    "nisa.tensor_copy(a, b)",
)


def executed(steps: tuple[str, ...], dtype: str = "float32", *, free: int = 2048) -> tuple[int, bytes]:
    """Return the chains of a kernel and its result."""
    x = np.random.default_rng(0).standard_normal((128, free), dtype=np.float32)
    text = CHAIN.format(dtype=f"nl.{dtype}", steps="\n    ".join(steps))
    program, _ = traced(kernel_of(text), [x], ["float32"], "trn2")
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache_blocks, "_perform", lambda chain: found.append(chain) or perform(chain))
        executor = Executor(program, {0: x})
        executor.run(final=True)
    return len(found), executor.read(program.outputs[0]).tobytes()


perform = cache_blocks._perform


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_chain_on_large_tiles_has_the_bits_of_whole_calls(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chains, bits = executed(STEPS, dtype)
    assert chains == 1
    monkeypatch.setattr(cache_blocks, "LARGE", 1 << 40)
    assert executed(STEPS, dtype) == (0, bits)


def test_small_tiles_are_taken_whole() -> None:
    assert executed(STEPS, free=1024)[0] == 0


@pytest.mark.parametrize(
    "between",
    [
        "nisa.tensor_copy(b[64:128, :], a[0:64, :])",  # rows become others
        "nisa.tensor_copy(b[:, 1:2048], a[:, 0:2047])",  # parts of tiles
        "nisa.activation(b, nl.exp, a, reduce_op=nl.add, reduce_res=column, reduce_cmd=nisa.reduce_cmd.reset_reduce)",
    ],
)
def test_a_call_that_is_no_matter_of_single_rows_ends_a_chain(between: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chains, bits = executed((*STEPS, between, *STEPS))
    assert chains == 2
    monkeypatch.setattr(cache_blocks, "LARGE", 1 << 40)
    assert executed((*STEPS, between, *STEPS)) == (0, bits)


def test_a_chain_ends_where_progress_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_blocks, "_MOST", 3)
    assert executed(STEPS * 3)[0] == 4


def test_programs_in_the_smallest_blocks_have_the_bits_of_whole_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    chains = []
    monkeypatch.setattr(cache_blocks, "_BLOCK", 16)
    monkeypatch.setattr(cache_blocks, "_perform", lambda chain: chains.append(chain) or perform(chain))

    def check(seed: int) -> None:
        choice = Seeded(seed)
        case = draw_program(choice, choice.pick(arches()), exact=False)
        arrays = [contents(memory) for memory in case.memories]
        dtypes = [memory.dtype for memory in case.memories]
        program, _ = traced(kernel_of(source(case)), arrays, dtypes, case.target, **case.options)

        def bits(executor: Executor) -> list[bytes]:
            return [executor.hand_out(tensor).tobytes() for tensor in program.outputs]

        monkeypatch.setattr(cache_blocks, "LARGE", 1 << 40)
        executor = Executor(program, dict(enumerate(arrays)))
        executor.run(final=True)
        whole = bits(executor)
        monkeypatch.setattr(cache_blocks, "LARGE", 1)
        executor = Executor(program, dict(enumerate(arrays)))
        executor.run(final=True)
        assert bits(executor) == whole
        if can_repeat(program):
            kept = RepeatableExecutor(program, dict(enumerate(arrays)), Tracker(program))
            kept.run(final=True)
            assert bits(kept) == whole
            kept.rest()
            kept.again(dict(enumerate(arrays)))
            assert bits(kept) == whole

    for_each(range(300))(check)()
    assert len(chains) > 50
