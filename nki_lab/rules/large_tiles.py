"""NKI710: tiles so large that memory has room for few, and what fills one waits for the memory of another."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.allocate.placing import AddressSpace
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.schedule import schedule
from nki_lab.kernel_runtime.tensor import Buffer, psum, sbuf
from nki_lab.kernel_runtime.timing import makespan_of
from nki_lab.rules.program_facts import Mask
from nki_lab.rules.rule import Findings, timed_rule
from nki_lab.rules.timed_facts import TimedFacts

_FULL: Final = 0.5  # of a memory: with less in use, tiles do not wait for it


@timed_rule("NKI710")
def check(timed: TimedFacts) -> Findings:
    """Yield one finding for a kernel that more room in SBUF or PSUM would make faster, at its largest tiles.

    The gain is that of a copy of the program whose tiles share no bytes, as the compiler model makes it for a chip with
    more SBUF, without spills: the most that shorter tiles gain.
    """
    allocation = timed.allocation
    for space, peak in ((sbuf, allocation.sbuf_peak), (psum, allocation.psum_peak)):
        usable = AddressSpace.of(space, timed.program.arch).usable
        spilled = timed.spills and space is sbuf
        shared = _sharing(timed.program, allocation, space)
        if peak < _FULL * usable or not (spilled or (shared.any() and _is_waited_for(timed, shared))):
            continue
        again = timed.roomy if space is sbuf else None
        program, found = (timed.program, allocation) if again is None else again()
        found = replace(found, reuse=found.reuse[~_sharing(program, found, space)])
        makespan = makespan_of(program, schedule(program, found), found)
        largest = _largest(timed, space)
        saving = timed.saving_of(largest, timed.timing.makespan - makespan) if largest.any() else None
        if saving is None:
            continue
        facts = timed.facts
        why = ", and the compiler spills" if spilled else ""
        size = max(buffer.partition_bytes for buffer in timed.program.buffers if buffer.space is space)
        yield facts.report(
            "NKI710",
            saving.first,
            f"{facts.name(saving.first)}: tiles take up to {size:,} bytes of a partition, and wait for the memory of "
            f"others{why}; with room for all of them the kernel would gain {saving.gain}",
            note=timed.shape(saving.first),
            limit=f"live tiles need {peak:,} of {usable:,} bytes of {space.value} in each partition",
            use="cut a dimension in a loop of its own, so that tiles are shorter, or use each tile before the next one "
            "is made",
            related=saving.related,
            gain=saving.share,
        )
        return


def _sharing(program: Program, allocation: Allocation, space: object) -> Mask:
    """Mark the pairs of tiles of a memory that lie in the same bytes one after the other."""
    here = np.array([buffer.space is space and buffer.address is None for buffer in program.buffers] or [False], bool)
    found: Mask = here[allocation.reuse[:, 0]] & here[allocation.reuse[:, 1]]
    return found


def _is_waited_for(timed: TimedFacts, shared: Mask) -> bool:
    """Return whether what fills tiles in bytes that others had is a worthwhile part of the critical path."""
    later = np.zeros(len(timed.program.buffers), bool)
    later[timed.allocation.reuse[shared, 1]] = True
    accesses = timed.facts.accesses
    fills = np.zeros(len(timed.program), bool)
    fills[accesses.op[accesses.is_out & later[accesses.buffer]]] = True
    return timed.is_worthwhile(int(timed.path_time[fills].sum()))


def _largest(timed: TimedFacts, space: object) -> Mask:
    """Mark the instructions that fill the tiles of a memory that are at least half as large as its largest one."""
    buffers: list[Buffer] = timed.program.buffers
    sizes = np.array([buffer.partition_bytes * (buffer.space is space) for buffer in buffers] or [0], np.int64)
    accesses = timed.facts.accesses
    large = (sizes > 0) & (2 * sizes >= sizes.max())
    found = np.zeros(len(timed.program), bool)
    found[accesses.op[accesses.is_out & large[accesses.buffer]]] = True
    return found
