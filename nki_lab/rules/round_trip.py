"""NKI708: tiles that are stored to HBM and loaded again."""

from __future__ import annotations

import numpy as np

from nki_lab.diagnostic import Related
from nki_lab.kernel_runtime.backend.listing import Listing
from nki_lab.kernel_runtime.backend.round_trips import leave_out_round_trips
from nki_lab.rules.rule import Findings, timed_rule
from nki_lab.rules.timed_facts import TimedFacts


@timed_rule("NKI708")
def check(timed: TimedFacts) -> Findings:
    """Yield one finding for a kernel that would be faster without a way through HBM, at the load that costs it most.

    The gain is that of a copy of the program in which the tiles stay in SBUF and neither transfer happens, with queues
    of its own. Where not all of them fit, what reads a tile has to follow what makes it: then they need not all be
    there at once.
    """
    program = timed.program
    if not timed.may_lose_rows or not _has_scratch(timed):
        return
    listing = Listing(program)
    loads = np.zeros(len(program), bool)
    loads[leave_out_round_trips(listing)] = True
    if not loads.any() or (timed.inserted is not None and bool((loads & timed.inserted).any())):
        return  # NKI710 tells of spills
    makespan, fits = timed.timed(listing.built())
    saving = timed.saving_of(loads, timed.timing.makespan - makespan)
    if saving is None:
        return
    facts, first = timed.facts, saving.first
    moved = int(timed.timing.bytes[loads].sum(dtype=np.int64))
    tensor = program.views[program.access_view[program.op_access[first] + 1]].buffer
    made = [Related(f"{facts.title(tensor)} is allocated here", item.span) for item in facts.made(tensor)]
    yield facts.report(
        "NKI708",
        first,
        f"{facts.name(first)}: {int(loads.sum()):,} loads bring back what was stored from tiles of the same shape; "
        f"without the way through HBM the kernel would gain {saving.gain}",
        note=timed.shape(first),
        limit=f"{moved:,} bytes go to HBM and come back, SBUF has {'room' if fits else 'no room'} for them all",
        use="keep the tiles in SBUF, for instance in a list, and read them there"
        if fits
        else "compute what follows from a tile in the loop that makes it, so that few of them are there at a time",
        related=[*made, *saving.related],
        gain=saving.share,
    )


def _has_scratch(timed: TimedFacts) -> bool:
    """Return whether the program writes and reads tensors in HBM that are neither arguments nor results."""
    accesses, buffers = timed.facts.accesses, timed.program.buffers
    results = [tensor._buffer.id for tensor in timed.program.outputs]
    scratch = np.array([not item.on_chip and item.kind == "temp" for item in buffers] or [False], bool)
    scratch[results] = False
    return bool(scratch[accesses.buffer[~accesses.is_out]].any())
