"""Cores that wait for each other: who meets whom, and what is refused with both lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab.diagnostic import NkiError
from tests.two_cores import ONES, refused
from tests.verdicts import evaluated, kernel_file, loaded, traced


def test_a_barrier_of_one_core_only_is_a_deadlock_that_names_the_line() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        if nl.program_id(0) == 0:
            nisa.core_barrier(out, (0, 1))
        nisa.dma_copy(dst=out, src=nl.load(x))
        return out

    found = refused(kernel, ONES)
    line = kernel.function.__code__.co_firstlineno
    assert found.code == "NKI405"
    assert found.span.line == line + 4
    assert f"core 0 waits in core_barrier, line {line + 4}" in found.message
    assert f"core 1 has come to its end, after line {line + 5}" in found.message


def test_different_orders_are_a_deadlock_that_names_both_lines() -> None:
    found = refused(loaded(kernel_file("fault_cores_order")).kernel, ONES)
    assert found.code == "NKI405"
    assert "core 0 waits in sendrecv of pipe 0, line 21" in found.message
    assert "core 1 waits in core_barrier, line 25" in found.message
    assert [item.span.line for item in found.related] == [25]


@pytest.mark.parametrize("wrong", ["tensor", "private", "ranks", "shape", "dtype"])
def test_what_the_two_sides_say_must_agree(wrong: str) -> None:
    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        second = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        kind = nl.bfloat16 if wrong == "dtype" and me else nl.float32
        size = (128, 2, 32) if wrong == "shape" and me else (128, 64)
        tile, other = nl.ndarray(size, kind), nl.ndarray(size, kind)
        nisa.memset(dst=tile, value=0.0)
        nisa.dma_copy(dst=out, src=nl.load(x))
        if wrong == "tensor":
            nisa.core_barrier(second if me else out, (0, 1))
        elif wrong == "private":
            nisa.core_barrier(nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm), (0, 1))
        elif wrong == "ranks":
            nisa.sendrecv(tile, other, send_to_rank=1, recv_from_rank=1, pipe_id=0)
        else:
            nisa.sendrecv(tile, other, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0)
        return out

    assert refused(kernel, ONES).code == "NKI405"


def test_one_core_cannot_wait_for_another() -> None:
    kernel = loaded(kernel_file("fault_cores_alone")).kernel
    for launched in (kernel, kernel[1]):
        with pytest.raises(NkiError, match="NKI016") as caught:
            nki_lab.run(launched, ONES, target="trn2")
        assert "kernel[2]" in caught.value.diagnostics[0].help


def test_the_first_generation_does_not_have_them() -> None:
    for name, args in (("cores_softmax", 1), ("cores_matmul", 2)):
        module = loaded(kernel_file(name))
        inputs = [np.ones(item.shape, np.float32) for item in module.ARGUMENTS[:args]]
        with pytest.raises(NkiError, match="NKI209"):
            nki_lab.run(module.kernel, *inputs, target="trn1")


def test_barriers_that_order_nothing_are_warned_about() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nisa.core_barrier(tile, (0, 1))
        nisa.core_barrier(out, (0,))
        nisa.dma_copy(dst=out, src=tile)
        return out

    run = nki_lab.run(kernel[2], ONES, target="trn2")
    line = kernel.function.__code__.co_firstlineno
    assert {(item.code, item.span.line) for item in run.diagnostics} == {("NKI406", line + 4), ("NKI406", line + 5)}
    assert len(run.program.synchronizations) == 1
    assert (run.output == 1).all()


def test_printing_behind_a_meeting_tells_what_tensor_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nisa.dma_copy(dst=out, src=tile)
        nisa.core_barrier(out, (0, 1))
        print(tile)
        nl.device_print("tile", tile)
        return out

    nki_lab.run(kernel[2], ONES, target="trn2")
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["<tensor (128, 64) float32 in sbuf>", "tile <tensor (128, 64) float32 in sbuf>"] * 2


def test_values_are_not_shown_between_meetings() -> None:
    def kernel_that_looks(early: bool) -> Any:
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            tile = nl.load(x)
            if early and nl.program_id(0) == 0:
                assert (tile.numpy() == 1).all()
            nisa.dma_copy(dst=out, src=tile)
            nisa.core_barrier(out, (0, 1))
            if not early:
                tile.numpy()
            return out

        return kernel

    assert refused(kernel_that_looks(early=False), ONES).code == "NKI017"
    assert (nki_lab.run(kernel_that_looks(early=True)[2], ONES, target="trn2").output == 1).all()


def test_meetings_in_loops_are_seen_alike_by_editor_and_run() -> None:
    text = """import nki.isa as nisa
import nki.language as nl

def kernel(x):
    me = nl.program_id(0)
    out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
    for i in range(20):
        tile, other = nl.load(x), nl.ndarray(x.shape, x.dtype)
        nisa.sendrecv(tile, other, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0)
        nisa.dma_copy(dst=out[me], src=other)
        nisa.core_barrier(out, (0, 1))
    return out
"""
    file, arguments = Path("meetings_in_a_loop.py"), (nki_lab.spec((128, 64), "float32"),)
    run = traced(loaded(file, text).kernel, arguments, "trn2", grid=(2,))
    seen, _ = evaluated(text, file, arguments, "trn2", grid=(2,))
    assert seen == run
    assert run.program.count("sendrecv") == run.program.count("core_barrier") == 40
    alone, _ = evaluated(text, file, arguments, "trn2")
    assert alone == traced(loaded(file, text).kernel, arguments, "trn2")
    assert alone.code == "NKI016"
