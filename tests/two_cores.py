"""Kernels for two cores that meet: drawn ones with their reference, and how they are specialised, timed and refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import strategies as st

import nki_lab
from nki_lab import session
from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.ir import Program, verify
from nki_lab.kernel_runtime.schedule import schedule
from nki_lab.kernel_runtime.schedule import verify as verify_schedule
from nki_lab.kernel_runtime.timing import Timing, walk

ONES = np.ones((128, 64), np.float32)


def timed(program: Program) -> Timing:
    """The times of a program, whose columns and queues hold together."""
    verify(program)
    allocation = allocate(program)
    queues = schedule(program, allocation)
    verify_schedule(queues)
    return walk(program, queues, None, allocation)


def ops(program: Program, name: str) -> list[int]:
    return [op.index for op in program.ops() if op.variant.instruction.name == name]


def refused(kernel: Any, *args: Any) -> Any:
    with pytest.raises(NkiError) as caught:
        nki_lab.run(kernel[2], *args, target="trn2")
    return caught.value.diagnostics[0]


def specialised(kernel: Any, *shapes: tuple[int, ...]) -> Any:
    specs = tuple(nki_lab.spec(shape, "float32") for shape in shapes)
    return session.specialise(session.Launch(kernel.function, "trn2", grid=(2,)), specs)


@dataclass(frozen=True)
class Move:
    """What both cores do next: `kind` on tiles `a` and `b`, `number` being a pipe, a factor, or the core that does."""

    kind: str
    a: int
    b: int
    number: int


TILES = 3
MOVES = st.builds(
    Move, st.sampled_from(("exchange", "exchange", "add", "scale", "publish", "alone")),
    st.integers(0, TILES - 1), st.integers(0, TILES - 1), st.integers(0, 1),
)  # fmt: skip


def make(moves: list[Move], tiles: list[Any], board: Any, me: int) -> None:
    """Make moves on the tiles of a core, in a kernel."""
    for move in moves:
        a, b = tiles[move.a], tiles[move.b]
        if move.kind == "exchange":
            nisa.sendrecv(a, b, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=move.number)
        elif move.kind == "add":
            nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.add)
        elif move.kind == "scale":
            nisa.tensor_scalar(dst=a, data=b, op0=nl.multiply, operand0=float(move.number) - 0.5)
        elif move.kind == "alone" and me == move.number:
            nisa.tensor_scalar(dst=a, data=b, op0=nl.add, operand0=3.0)
        elif move.kind == "publish":
            nisa.dma_copy(dst=board[me], src=a)
            nisa.core_barrier(board, (0, 1))
            nisa.dma_copy(dst=b, src=board[1 - move.number])
            nisa.core_barrier(board, [0, 1])


def kernel_of(moves: list[Move], dtype: Any) -> Any:
    """A kernel in which each core has tiles, that starts with x + core + tile and ends with all tiles in HBM."""

    @nki.jit
    def kernel(x):
        me = nl.program_id(0)
        rows, columns = x.shape
        out = nl.ndarray((2, TILES, rows, columns), dtype, buffer=nl.shared_hbm)
        board = nl.ndarray((2, rows, columns), dtype, buffer=nl.shared_hbm)
        tiles = []
        for number in range(TILES):
            tile = nl.ndarray((rows, columns), dtype)
            nisa.dma_copy(dst=tile, src=x)
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=float(10 * me + number))
            tiles.append(tile)
        make(moves, tiles, board, me)
        for number in range(TILES):
            nisa.dma_copy(dst=out[me, number], src=tiles[number])
        return out

    return kernel


def reference(moves: list[Move], x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    tiles = x + 10 * np.arange(2)[:, None, None, None] + np.arange(TILES)[None, :, None, None]
    tiles = tiles.astype(x.dtype)
    half = x.dtype.type
    for move in moves:
        a, b = tiles[:, move.a].copy(), tiles[:, move.b].copy()
        if move.kind == "exchange":
            tiles[:, move.b] = a[::-1]
        elif move.kind == "add":
            tiles[:, move.a] = a + b
        elif move.kind == "scale":
            tiles[:, move.a] = b * half(move.number - 0.5)
        elif move.kind == "alone":
            tiles[move.number, move.a] = b[move.number] + half(3)
        else:
            tiles[:, move.b] = a[1 - move.number]
    return tiles
