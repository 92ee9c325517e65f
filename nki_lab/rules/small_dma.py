"""NKI701: DMA transfers of short pieces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nki_lab.isa.spec import Unmodelled
from nki_lab.kernel_runtime.ir import Variant
from nki_lab.kernel_runtime.timing import VariantCost
from nki_lab.rules.program_facts import Mask
from nki_lab.rules.rule import Findings, timed_rule
from nki_lab.rules.timed_facts import TimedFacts


@timed_rule("NKI701")
def check(timed: TimedFacts) -> Findings:
    """Yield one finding for a kernel that pieces of the efficient size would make faster, at the place that costs it
    most.

    The gain is that of the same bytes at the full rate, with as many fewer requests as the pieces would be longer.
    """
    program, arch = timed.program, timed.program.arch
    pieces = {item.id: size for item in program.variants if 0 < (size := _piece(item)) < arch.dma_efficient_bytes}
    ops = _enough(timed, np.isin(timed.facts.variant, list(pieces)))
    saving = timed.saving(ops, lambda number, cost: _merged(timed, cost, pieces.get(number, 0)))
    if saving is None:
        return
    facts, first = timed.facts, saving.first
    size = pieces[program.op_variant[first]]
    yield facts.report(
        "NKI701",
        first,
        f"{facts.name(first)}: moves pieces of {size} bytes, {arch.dma_efficient_bytes} at a time would gain "
        f"{saving.gain}",
        note=timed.shape(first),
        limit=f"contiguous pieces of {arch.dma_efficient_bytes} bytes or more use DMA fully",
        use="move more of a row at a time, or several tiles with one dma_copy, and take them apart on the chip",
        related=saving.related,
    )


def _enough(timed: TimedFacts, ops: Mask) -> Mask:
    """Return the transfers whose places move enough for efficient pieces in all partitions."""
    site = timed.facts.site
    arch = timed.program.arch
    moved = np.bincount(site[ops], timed.timing.bytes[ops], minlength=len(timed.program.sites))
    return ops & (moved >= arch.pmax * arch.dma_efficient_bytes)[site]


def _piece(variant: Variant) -> int:
    """Return the bytes of a contiguous piece of a transfer; 0 for other instructions."""
    declared = variant.instruction.cost
    if variant.engine != "dma" or isinstance(declared, Unmodelled):
        return 0
    return declared(variant.use).descriptor_bytes


def _merged(timed: TimedFacts, cost: VariantCost, size: int) -> VariantCost:
    """Return the share of a transfer of pieces of `size` bytes in a transfer of longer pieces; of size 0, its cost."""
    if not size:
        return cost
    arch = timed.program.arch
    engines = max(1, cost.engines.bit_count())
    whole = round(1000 * cost.bytes / (engines * arch.dma_bytes_per_ns))
    time = min(cost.interval, max(1, whole))
    trigger, generation = (part * size // arch.dma_efficient_bytes for part in (cost.trigger, cost.generation))
    return replace(cost, interval=time, latency=time, trigger=trigger, generation=generation, spaced=False)
