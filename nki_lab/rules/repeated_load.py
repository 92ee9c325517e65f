"""NKI704: loads of bytes that were loaded before, where memory has room to keep them."""

from __future__ import annotations

import numpy as np

from nki_lab.kernel_runtime.backend.listing import Listing
from nki_lab.kernel_runtime.backend.repeats import merge_repeats
from nki_lab.kernel_runtime.ir import Variant
from nki_lab.rules.program_facts import Mask
from nki_lab.rules.rule import Findings, timed_rule
from nki_lab.rules.timed_facts import TimedFacts


@timed_rule("NKI704")
def check(timed: TimedFacts) -> Findings:
    """Yield one finding for a kernel that tiles kept in SBUF would make faster, at the load that costs it most.

    The gain is that of a copy of the program in which one tile stands for all later ones of the same values, as the
    compiler of Beta 1 has it, with addresses and queues of its own.
    """
    loads = _loads(timed)
    if not timed.may_lose_rows or not _has_repeats(timed, loads):
        return
    listing = Listing(timed.program)
    merge_repeats(listing)
    dropped = np.zeros(len(timed.program), bool)
    dropped[list(listing.stand_in)] = True
    again = dropped & loads
    if not again.any():
        return
    makespan = timed.rebuilt(listing.built())
    saving = None if makespan is None else timed.saving_of(again, timed.timing.makespan - makespan)
    if saving is None:
        return
    facts, moved = timed.facts, timed.timing.bytes
    least, loaded = (int(moved[rows].sum(dtype=np.int64)) for rows in (loads & ~again, loads))
    yield facts.report(
        "NKI704",
        saving.first,
        f"{facts.name(saving.first)}: {int(again.sum()):,} of {int(loads.sum()):,} loads bring what was loaded before; "
        f"tiles kept in SBUF would gain {saving.gain}",
        note=timed.shape(saving.first),
        limit=f"the kernel loads {loaded:,} bytes, {least:,} are enough",
        use="load before the loop, or keep the tiles in a list that outlives it",
        related=saving.related,
    )


def _loads(timed: TimedFacts) -> Mask:
    """Mark the transfers from HBM to the chip."""
    found: Mask = timed.program.variants_where(_is_load)[timed.facts.variant]
    return found


def _is_load(variant: Variant) -> bool:
    if variant.engine != "dma":
        return False
    types = variant.use.types
    return all(types[name].on_chip == out for name, out in zip(variant.names, variant.outs, strict=True))


def _has_repeats(timed: TimedFacts, loads: Mask) -> bool:
    """Return whether two loads read the same elements of a tensor that one parameter names, or none."""
    accesses, views = timed.facts.accesses, timed.program.views
    read = accesses.view[loads[accesses.op] & ~accesses.is_out].tolist()
    places = [(views[number].buffer.id, views[number].offset, views[number].type.id) for number in read]
    counted = [place for place in places if place[0] not in timed.program.shared_inputs]
    return len(set(counted)) < len(counted)
