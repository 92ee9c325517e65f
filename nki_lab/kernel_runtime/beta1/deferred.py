"""An instruction that is held back, and questions about instructions by the place of their operands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from nki_lab.isa.spec import Instruction
from nki_lab.kernel_runtime.ir import Variant
from nki_lab.kernel_runtime.issue.legality import live_names
from nki_lab.kernel_runtime.tensor import NkiTensor

Box = tuple[tuple[int, int], ...]
"""Positions from low to high, both included, of each dimension."""
Operands = tuple[Any, ...]
"""Operand values in declaration order: tensors, numbers and attributes."""

MATMUL: Final = 1
ZERO: Final = 2
OTHER: Final = 4
"""Kinds of writers of a buffer, as bits: accumulating products, fills with zero, anything else."""


@dataclass(slots=True, eq=False)
class Deferred:
    """An instruction that waits for its destination.

    `tile` is what the call returned; the instruction writes `box` of it, or all of it where box is None. Without an
    instruction nothing writes the tile: its mask was empty. `running` is the iteration of Python's loops it is in.
    """

    tile: NkiTensor
    instruction: Instruction | None = None
    live: Operands = ()
    fixed: Operands = ()
    name: str | None = None
    site: int = -1
    running: int = -1
    box: Box | None = None


@cache
def out_positions(instruction: Instruction) -> tuple[int, ...]:
    """Return the places of everything the instruction writes among its live operands."""
    return tuple(k for k, name in enumerate(live_names(instruction)) if instruction.operands[name].role == "out")


@cache
def result_position(instruction: Instruction) -> int:
    """Return the place of the destination among an instruction's live operands."""
    return next(iter(out_positions(instruction)), -1)


def writer_kind(variant: Variant) -> int:
    """Return the kind of writer that a recorded instruction is."""
    instruction = variant.instruction
    if instruction.accumulation is not None:
        return MATMUL
    return ZERO if instruction.fills is not None and instruction.fills.bounds(variant.use) == (0, 0) else OTHER
