"""Data races: accesses that the chip may execute in another order than that of the program.

Within a core the compiler keeps the order of the program for everything that touches the same bytes, through whichever
tensor (tensors placed over each other with `address=` share their bytes; AWS's own allocators rely on it), and edges of
`with_schedule`, `depends_on` and `no_reorder` only add to that order: what contradicts it is a circle, NKI402. What
nothing orders are the two cores of a launch, but for `core_barrier` and `sendrecv`; and the parts of a single DMA.

Only what is certain is an error: accesses with addresses from run time are in conflict where the other one covers the
whole tensor, loops of unknown length are taken to run once, and writes that both cores compute alike are none.
"""

from __future__ import annotations

from typing import Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.path import Path, executed, known_path
from nki_lab.kernel_runtime.race.conflicts import Conflicts
from nki_lab.kernel_runtime.race.findings import (
    between_cores,
    in_one_stream,
    in_one_transfer,
    other_tensor,
    self_overlapping,
    shifted,
)
from nki_lab.kernel_runtime.race.values import Reach

__all__ = ["races"]

_MOST_ROWS: Final = 2_000_000  # instructions times iterations up to which a program with device loops is laid out


def races(
    program: Program, *, allocation: Allocation | None = None, path: Path | None = None, complete: bool = True
) -> tuple[Diagnostic, ...]:
    """Return findings about accesses without order.

    NKI407 a read and a write of two cores, NKI408 where both write, NKI409 where they synchronize over another tensor,
    NKI410 a DMA that reads what it writes, NKI411 one that writes bytes twice, NKI422
    an instruction of an engine that writes what it has yet to read. `path` is the way through the
    program's device loops, by default the known one; otherwise bodies count once. Of a program that is not `complete`
    the cores are not checked, as they may synchronize in what is missing.
    """
    found = [*in_one_transfer(program, self_overlapping(program)), *in_one_stream(program, shifted(program))]
    if program.cores > 1 and complete:
        program = _laid_out(program, path)
        conflicts = Conflicts(program)
        found += between_cores(program, conflicts.unordered())
        found += other_tensor(program, conflicts.unnamed(Reach(program, allocation)))
    return tuple(found)


def _laid_out(program: Program, path: Path | None) -> Program:
    """The program as it is executed, where that is known and no more than can be looked at."""
    if not program.regions or program.is_laid_out:
        return program
    if path is None and _rows(program) <= _MOST_ROWS:
        found = known_path(program)
        path = found if isinstance(found, Path) else None
    return program if path is None or path.trips.sum() * len(program) > _MOST_ROWS else executed(program, path)


def _rows(program: Program) -> int:
    """Return the instructions and iterations of all loops, too many where the program does not determine them."""
    iterations: list[int] = []
    total = 0
    for region in program.regions:
        around = iterations[region.parent] if region.parent >= 0 else 1
        count = region.trip_count
        if count is None:
            return _MOST_ROWS + 1
        iterations.append(around * count)
        total += around * count * (1 + region.end - region.first)
    return total
