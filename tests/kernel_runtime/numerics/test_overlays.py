"""Tiles that take turns at their bytes: a run gives them memory of their own where nobody can tell, and only there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.kernel_runtime.coverage import Tracker
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.numerics.executor import Executor
from nki_lab.kernel_runtime.numerics.overlays import overlays
from nki_lab.kernel_runtime.numerics.repeating import can_repeat
from tests.calls import kernel_of, traced
from tests.kernel_runtime.numerics.test_repeating import check_repeats
from tests.scale import scaled

Array = np.ndarray[Any, Any]

FRAME = """
def kernel(x):
    out = nl.ndarray((2, 32, 16), nl.float32, buffer=nl.shared_hbm)
    a = nl.ndarray((32, 16), nl.{dtype}, address=(0, 64))
    b = nl.ndarray((32, {columns}), nl.{other}, address=(0, {byte}))
    c = nl.ndarray((32, 16), nl.float32)
    mask = nl.ndarray((32, 16), nl.uint8)
{body}
    return out
"""
LOADED = "nisa.dma_copy(a, x[0])\n"
STORED = "nisa.tensor_copy(c, a)\nnisa.dma_copy(out[0], c)\n"
AGAIN = "nisa.dma_copy(b, x[1, :, 0:{columns}])\nnisa.tensor_copy(c[:, 0:{columns}], b)\nnisa.dma_copy(out[1], c)\n"


def text(body: str, byte: int = 64, dtype: str = "float32", other: str = "float32", columns: int = 16) -> str:
    lines = body.format(columns=columns).strip("\n").split("\n")
    indented = "\n".join("    " + line for line in lines)
    return FRAME.format(body=indented, byte=byte, dtype=dtype, other=other, columns=columns)


TURNS = LOADED + STORED + AGAIN

APART = {
    "the same bytes": text(TURNS),
    "a part of them": text(TURNS, byte=96, columns=4),
    "across the end": text(TURNS, byte=100),
    "another dtype": text(TURNS, dtype="bfloat16"),
    "integers": text(TURNS, other="int32"),
    "filled in parts": text(TURNS.replace(LOADED, "nisa.memset(a[:, 0:8], 1.0)\nnisa.memset(a[:, 8:16], 2.0)\n")),
}
TOGETHER = {
    "read after the other was written": text(LOADED + AGAIN + STORED),
    "read before it is written": text(LOADED + STORED + "nisa.tensor_copy(c, b)\nnisa.dma_copy(out[1], c)\n"),
    "read where it is not written": text(
        LOADED + STORED + "nisa.memset(b[:, 0:8], 1.0)\nnisa.tensor_copy(c, b)\nnisa.dma_copy(out[1], c)\n"
    ),
    "one instruction for both": text(LOADED + STORED + "nisa.tensor_copy(b, a)\n" + AGAIN),
    "written between": text(LOADED + "nisa.memset(b, 3.0)\n" + STORED),
    "some elements kept": text(
        LOADED
        + STORED
        + "nisa.memset(mask, 1)\nnisa.tensor_copy_predicated(src=c, predicate=mask, dst=b)\nnisa.dma_copy(out[1], c)\n"
    ),
    "a result": text(TURNS).replace("return out", "return out, a"),
}


def arguments(seed: int = 0) -> list[Array]:
    return [np.random.default_rng(seed).integers(-50, 50, (2, 32, 16)).astype(np.float32)]


def program_of(body: str, **options: Any) -> Program:
    return traced(kernel_of(body), arguments(), ["float32"], "trn2", **options)[0]


def ran(program: Program, arrays: list[Array], *, final: bool) -> list[Array]:
    executor = Executor(program, dict(enumerate(arrays)))
    executor.run(final=final)
    return [executor.read(tensor) for tensor in program.outputs]


def check(program: Program) -> None:
    """Compare a run of all at once with one of what is known so far, and with calls that are made again."""
    for one, two in zip(ran(program, arguments(), final=True), ran(program, arguments(), final=False), strict=True):
        np.testing.assert_array_equal(one, two)
    if can_repeat(program):
        check_repeats(program, [arguments(), arguments(1)])


def found(program: Program) -> int:
    tracker = Tracker(program)
    tracker.finish()
    return int(overlays(program, tracker.suspects).sum())


@pytest.mark.parametrize("name", APART)
@pytest.mark.parametrize("precise", [True, False])
def test_tiles_that_take_turns_have_memory_of_their_own(name: str, precise: bool) -> None:
    program = program_of(APART[name], precise=precise)
    assert found(program) == 2
    check(program)


@pytest.mark.parametrize("name", TOGETHER)
@pytest.mark.parametrize("precise", [True, False])
def test_tiles_that_see_each_other_share_their_bytes(name: str, precise: bool) -> None:
    program = program_of(TOGETHER[name], precise=precise)
    assert found(program) == 0
    check(program)


def test_tiles_that_overlap_nothing_are_none() -> None:
    assert found(program_of(text(TURNS, byte=128))) == 0


def test_tiles_of_an_allocator_are_multiplied_as_others_are() -> None:
    kernel = """
def kernel(lhsT, rhs):
    out = nl.ndarray((256, 128), nl.float32, buffer=nl.shared_hbm)
    for m in range(4):
        for n in range(4):
            acc = nl.ndarray((64, 32), nl.float32, buffer=nl.psum, address=(0, 0))
            for k in range(2):
                a = nl.ndarray((128, 64), lhsT.dtype, address=(0, 0))
                b = nl.ndarray((128, 32), rhs.dtype, address=(0, 1024))
                nisa.dma_copy(a, lhsT[k * 128 : (k + 1) * 128, m * 64 : (m + 1) * 64])
                nisa.dma_copy(b, rhs[k * 128 : (k + 1) * 128, n * 32 : (n + 1) * 32])
                nisa.nc_matmul(acc, a, b)
            tile = nl.ndarray((64, 32), nl.float32, address=(0, 4096))
            nisa.tensor_copy(tile, acc)
            nisa.dma_copy(out[m * 64 : (m + 1) * 64, n * 32 : (n + 1) * 32], tile)
    return out
"""
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal((256, columns), np.float32) for columns in (256, 128))
    program, _ = traced(kernel_of(kernel), [left, right], ["float32"] * 2, "trn2")
    executor = Executor(program, {0: left, 1: right})
    executor.run(final=True)
    assert [slab.shape for slab in executor.slabs] == [(256, 128)]
    np.testing.assert_allclose(executor.read(program.outputs[0]), left.T @ right, rtol=1e-4, atol=1e-4)


@st.composite
def bodies(draw: Any) -> str:
    """Statements on tiles that lie over each other in many ways."""
    lines, tiles = list[str](), list[tuple[str, int]]()
    for number in range(draw(st.integers(2, 6))):
        columns = draw(st.sampled_from((4, 8, 16)))
        dtype = draw(st.sampled_from(("float32", "bfloat16", "float16", "int32")))
        byte = 4 * draw(st.sampled_from((0, 0, 0, 2, 4, 8, 16)))
        lines.append(f"t{number} = nl.ndarray((32, {columns}), nl.{dtype}, address=(0, {byte}))")
        tiles.append((f"t{number}", columns))
        for _ in range(draw(st.integers(1, 4))):
            name, width = draw(st.sampled_from(tiles[-3:]))
            size = draw(st.sampled_from([size for size in (4, 8, 16) if size <= width]))
            part = f"{name}[:, {width - size}:{width}]"
            kind = draw(st.sampled_from(("load", "fill", "add", "store", "copy")))
            if kind == "load":
                lines.append(f"nisa.dma_copy({part}, x[{draw(st.integers(0, 1))}, :, 0:{size}])")
            elif kind == "fill":
                lines.append(f"nisa.memset({part}, {draw(st.integers(0, 9))})")
            elif kind == "add":
                lines.append(f"nisa.tensor_scalar({part}, {part}, nl.add, 1.0)")
            elif kind == "store":
                lines += [
                    f"nisa.tensor_copy(c[:, 0:{size}], {part})",
                    f"nisa.dma_copy(out[1, :, 0:{size}], c[:, 0:{size}])",
                ]
            else:
                other, wide = draw(st.sampled_from(tiles[-3:]))
                if other != name and wide >= size:
                    lines.append(f"nisa.tensor_copy({part}, {other}[:, 0:{size}])")
    return "nisa.memset(c, 0.0)\n" + "\n".join(lines) + "\nnisa.dma_copy(out[0], c)"


@settings(max_examples=scaled(100))
@given(bodies(), st.booleans())
def test_no_program_can_tell(body: str, precise: bool) -> None:
    check(program_of(text(body), precise=precise))
