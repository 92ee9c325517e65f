"""NKI704, NKI709: loads and results that were there before, where memory has room to keep them, and where not."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nki_lab.kernel_runtime.backend.listing import Listing
from nki_lab.kernel_runtime.backend.repeats import merge_repeats
from nki_lab.kernel_runtime.footprint import distinct
from nki_lab.kernel_runtime.ir import Program, Variant
from nki_lab.kernel_runtime.timing import VariantCost
from nki_lab.rules.program_facts import Mask, ProgramFacts
from nki_lab.rules.rule import Findings, timed_rule
from nki_lab.rules.timed_facts import TimedFacts


class _Repeats(NamedTuple):
    """The loads of a program, those of them that bring what an earlier one brought, and the instructions, loads and
    others, for whose tile an earlier one stands in `merged`, a copy of the program; None where it has none."""

    loads: Mask
    again: Mask
    kept: Mask
    merged: Program | None


@timed_rule("NKI704")
def check(timed: TimedFacts) -> Findings:
    """Yield one finding for a kernel that tiles kept in SBUF would make faster, at the load that costs it most, or at
    the instruction where no load is repeated.

    The gain is that of a copy of the program in which one tile stands for all later ones of the same values, as the
    compiler of Beta 1 has it, with addresses and queues of its own. Where the compiler model has done that, the gain is
    that over the program without this step: the published profile of `mamba_v1` has such loads all the same. The copy
    is then the faster one of the model's and of that of the other steps.
    """
    written = timed.as_written
    found = written.facts.once(_repeats)
    if found.merged is None or not found.kept.any():
        return
    makespan = written.rebuilt(found.merged)
    if written is not timed:
        makespan = min(timed.timing.makespan, timed.timing.makespan if makespan is None else makespan)
    loads = found.loads
    again = found.kept & loads if (found.kept & loads).any() else found.kept
    saving = None if makespan is None else written.saving_of(again, written.timing.makespan - makespan)
    if saving is None:
        return
    facts, moved = written.facts, written.timing.bytes
    least, loaded = (int(moved[rows].sum(dtype=np.int64)) for rows in (loads & ~found.kept, loads))
    where = ", where the compiler does not keep them by itself" if written is not timed else ""
    if again is found.kept:
        what = f"{int(again.sum()):,} instructions compute what was computed before"
        limit = f"the kernel executes {len(written.program):,} instructions"
    else:
        what = f"{int(again.sum()):,} of {int(loads.sum()):,} loads bring what was loaded before"
        limit = f"the kernel loads {loaded:,} bytes, {least:,} are enough"
    yield facts.report(
        "NKI704",
        saving.first,
        f"{facts.name(saving.first)}: {what}; tiles kept in SBUF would gain {saving.gain}{where}",
        note=written.shape(saving.first),
        limit=limit,
        use="load and compute before the loop, or keep the tiles in a list that outlives it",
        related=saving.related,
        gain=saving.share,
    )


@timed_rule("NKI709")
def check_blocks(timed: TimedFacts) -> Findings:
    """Yield one finding for a kernel that larger blocks would make faster, at the load that costs it most.

    The gains are those of copies of the program in which every second of the loads that bring the same bytes again
    takes no time, as with blocks twice as large, and in which none of them does: the most that any order of the loops
    gains. The latter counts beyond that of tiles for which SBUF has room.
    """
    found = timed.facts.once(_repeats)
    far = found.again & ~found.kept
    if not far.any() or not timed.is_worthwhile(int(timed.path_time[found.loads].sum())):
        return
    makespan = timed.at_costs((found.again, _free))
    near = timed.rebuilt(found.merged) if found.merged is not None and found.kept.any() else None
    if not timed.is_worthwhile((timed.timing.makespan if near is None else near) - makespan):
        return
    second = found.again.copy()
    second[np.flatnonzero(found.again)[::2]] = False
    twice = timed.saving_of(far, timed.timing.makespan - timed.at_costs((second, _free)))
    saving = timed.saving_of(far, timed.timing.makespan - makespan)
    if saving is None:
        return
    most = f"so large that nothing is loaded twice would gain {saving.gain}"
    what = f"blocks twice as large would gain {twice.gain}, blocks {most}" if twice else f"blocks {most}"
    facts, moved = timed.facts, timed.timing.bytes
    least, loaded = (int(moved[rows].sum(dtype=np.int64)) for rows in (found.loads & ~found.again, found.loads))
    yield facts.report(
        "NKI709",
        saving.first,
        f"{facts.name(saving.first)}: {int(found.again.sum()):,} of {int(found.loads.sum()):,} loads bring what was "
        f"loaded before, and SBUF has no room for all of it; {what}",
        note=timed.shape(saving.first),
        limit=f"the kernel loads {loaded:,} bytes of {least:,}",
        use="block the loops: load several tiles of each operand, and compute all that follows from them before the "
        "next ones",
        related=saving.related,
        gain=saving.share,
    )


def _free(_number: int, cost: VariantCost) -> VariantCost:
    """Return the cost of a transfer that takes no time."""
    return replace(
        cost, interval=0, latency=0, hbm_bytes=0, trigger=0, generation=0, start_latency=0, stagger=0, spaced=False
    )


def _repeats(facts: ProgramFacts) -> _Repeats:
    program = facts.program
    loads: Mask = program.variants_where(_is_load)[facts.variant]
    again = _again(facts, loads)
    kept = np.zeros(len(program), bool)
    if program.cores != 1 or program.registers:
        return _Repeats(loads, again, kept, None)
    listing = Listing(program)
    merge_repeats(listing)
    if not listing.stand_in:
        return _Repeats(loads, again, kept, None)
    kept[list(listing.stand_in)] = True
    return _Repeats(loads, again, kept, listing.built())


def _is_load(variant: Variant) -> bool:
    if variant.engine != "dma":
        return False
    types = variant.use.types
    return all(types[name].on_chip == out for name, out in zip(variant.names, variant.outs, strict=True))


def _again(facts: ProgramFacts, loads: Mask) -> Mask:
    """Mark the loads of elements that an earlier one read, of tensors that the program does not write.

    Where several parameters name a tensor, which of them a load means is not known: such loads do not count.
    """
    accesses, program = facts.accesses, facts.program
    steady = np.ones(len(program.buffers), bool)
    steady[accesses.buffer[accesses.is_out]] = False
    steady[list(program.shared_inputs)] = False
    read = np.flatnonzero(loads[accesses.op] & ~accesses.is_out & steady[accesses.buffer])
    places: dict[tuple[int, int, int], int] = {}
    views = program.views
    of_view = np.full(len(views), -1, np.int64)
    for number in distinct(accesses.view[read]).tolist():
        view = views[number]
        if view.indirect is None:
            of_view[number] = places.setdefault((view.buffer.id, view.offset, view.type.id), len(places))
    place, op = of_view[accesses.view[read]], accesses.op[read]
    place, op = place[place >= 0], op[place >= 0]
    _, first = np.unique(place, return_index=True)
    found: Mask = np.zeros(len(program), bool)
    found[op] = True
    found[op[first]] = False
    return found
