"""Model the device compiler: the steps that change a program before it runs, each with its evidence.

`compiled(program, steps)` returns rows that the chip executes instead of those of the program. It works on a copy:
values, replay and blame are those of the program, and `Compiled` says what became of each of its rows. Steps apply
where something published shows them, which is in Beta 1; the current dialect has none, as its documentation lets
kernels decide about engines, order and memory, and refuses those that need more than there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.backend.broadcasts import spread_by_products
from nki_lab.kernel_runtime.backend.casts import merge_casts
from nki_lab.kernel_runtime.backend.engines import choose_engines
from nki_lab.kernel_runtime.backend.fills import leave_out_fills
from nki_lab.kernel_runtime.backend.fusion import merge_sums
from nki_lab.kernel_runtime.backend.list_schedule import REORDERED, reorder
from nki_lab.kernel_runtime.backend.listing import DEAD, Listing
from nki_lab.kernel_runtime.backend.loops import merge_iterations
from nki_lab.kernel_runtime.backend.memory import MEMORY_NOTES, fit_memory
from nki_lab.kernel_runtime.backend.repeats import REPEATS_NOTE, merge_repeats
from nki_lab.kernel_runtime.footprint import Column, Mask
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.options import COMPILER_STEPS

__all__ = [
    "COMPILER_STEPS",
    "DEAD",
    "MEMORY_NOTES",
    "REORDERED",
    "REPEATS_NOTE",
    "STEPS",
    "Compiled",
    "compiled",
    "without_order",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of the compiler: `run` changes the rows. One that is `straight` takes programs of one core without
    registers only, whose rows run one after the other whatever the data."""

    run: Callable[[Listing], None]
    dialects: tuple[str, ...]
    straight: bool = True


STEPS: Final[Mapping[str, Step]] = MappingProxyType(
    {
        "loops": Step(run=merge_iterations, dialects=("beta1",)),
        "fills": Step(run=leave_out_fills, dialects=("beta1",)),
        "sums": Step(run=merge_sums, dialects=("beta1",)),
        "casts": Step(run=merge_casts, dialects=("beta1",)),
        "engines": Step(run=choose_engines, dialects=("beta1",), straight=False),
        "repeats": Step(run=merge_repeats, dialects=("beta1",)),
        "broadcasts": Step(run=spread_by_products, dialects=("beta1",)),
        "spills": Step(run=fit_memory, dialects=("beta1",)),
        "order": Step(run=reorder, dialects=("beta1",)),
    }
)
"""The steps by name, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compiled:
    """The rows that the chip executes, and what became of those of the program.

    `source[row]` is the row of the program that a row of `program` executes, -1 of an inserted one. `moved[row]` is
    true where it runs on another engine than the program says, or earlier than instructions of its engine that stand
    before it. `stand_in[row]` is, of a row of the program that is
    not executed, the row of the program that stands for it, else `DEAD`; of others, itself. `notes` counts what was
    done."""

    program: Program
    source: Column
    moved: Mask
    stand_in: Column
    notes: Mapping[str, int]


def compiled(program: Program, steps: Sequence[str] = COMPILER_STEPS) -> Compiled | None:
    """Return what the compiler makes of a program; None where no step changes it."""
    listing = Listing(program)
    straight = program.cores == 1 and not program.registers
    for name in COMPILER_STEPS:
        step = STEPS.get(name)
        if step and name in steps and program.dialect in step.dialects and (straight or not step.straight):
            step.run(listing)
    if not listing.notes:
        return None
    stand_in = np.arange(len(program))
    for row in listing.stand_in:
        stand_in[row] = _followed(listing.stand_in, row)
    return Compiled(
        program=listing.built(),
        source=listing.source,
        moved=listing.moved,
        stand_in=stand_in,
        notes=MappingProxyType(listing.notes),
    )


def without_order(steps: Sequence[str]) -> tuple[str, ...]:
    """Return the steps but the one that puts instructions in another place."""
    return tuple(name for name in steps if STEPS[name].run is not reorder)


def _followed(stand_in: Mapping[int, int], row: int) -> int:
    """Return the row that is executed for one that is not."""
    while row in stand_in:
        row = stand_in[row]
    return row
