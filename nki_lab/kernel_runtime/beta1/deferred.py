"""An instruction that is held back, and what is asked of instructions by the place of their operands."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from nki_lab.isa.spec import Instruction
from nki_lab.kernel_runtime.ir import Variant
from nki_lab.kernel_runtime.issue.legality import live_names
from nki_lab.kernel_runtime.tensor import NkiTensor

Box = tuple[tuple[int, int], ...]
"""Positions from low to high, both included, of each dimension."""

MATMUL: Final = 1
ZERO: Final = 2
OTHER: Final = 4
"""Kinds of writers of a buffer, as bits: accumulating products, fills with zero, anything else."""


class Deferred:
    """An instruction that waits for its destination.

    `tile` is what the call returned; the instruction writes `box` of it, or all of it where box is None. Without an
    instruction nothing writes the tile: its mask was empty. `running` is the pass of Python's loops that it is in.
    """

    __slots__ = ("box", "fixed", "instruction", "live", "name", "running", "site", "tile")

    def __init__(self, instruction: Instruction | None, live: tuple[Any, ...], fixed: tuple[Any, ...], name: str | None,
                 site: int, tile: NkiTensor, running: int = -1) -> None:  # fmt: skip
        self.instruction = instruction
        self.live = live
        self.fixed = fixed
        self.name = name
        self.site = site
        self.running = running
        self.tile = tile
        self.box: Box | None = None


@cache
def _positions(instruction: Instruction) -> tuple[int, tuple[int, ...]]:
    names = live_names(instruction)
    outs = tuple(k for k, name in enumerate(names) if instruction.operands[name].role == "out")
    return (outs[0] if outs else -1, outs)


def result_position(instruction: Instruction) -> int:
    """Place of the destination among an instruction's live operands."""
    return _positions(instruction)[0]


def out_positions(instruction: Instruction) -> tuple[int, ...]:
    """Places of everything the instruction writes among its live operands."""
    return _positions(instruction)[1]


def writer_kind(variant: Variant) -> int:
    """Return the kind of writer that a recorded instruction is."""
    instruction = variant.instruction
    if instruction.accumulation is not None:
        return MATMUL
    return ZERO if instruction.fills is not None and instruction.fills.bounds(variant.use) == (0, 0) else OTHER
