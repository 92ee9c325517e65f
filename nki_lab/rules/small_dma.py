"""NKI701: DMA transfers of short pieces."""

from __future__ import annotations

from array import array
from copy import copy
from dataclasses import replace
from heapq import heappop, heappush
from typing import Final, NamedTuple

import numpy as np

from nki_lab.isa.arch import Arch
from nki_lab.isa.spec import Unmodelled
from nki_lab.kernel_runtime.allocate.placing import AddressSpace
from nki_lab.kernel_runtime.ir import Variant, View
from nki_lab.kernel_runtime.schedule import EDGE_KINDS
from nki_lab.kernel_runtime.tensor import sbuf
from nki_lab.kernel_runtime.timing import VariantCost, makespan_of
from nki_lab.rules.program_facts import Column, Mask
from nki_lab.rules.rule import Findings, timed_rule
from nki_lab.rules.timed_facts import TimedFacts, edges_of

_FLOW: Final = EDGE_KINDS.index("flow")


_Places = tuple[tuple[int, int], ...]
"""(buffer, offset in elements) of the pieces of a transfer."""


class _Merge(NamedTuple):
    """Transfers that go with another one: `carrier[op]` is that, or the op itself; `size` counts those of a carrier."""

    carrier: Column
    size: Column


@timed_rule("NKI701")
def check(timed: TimedFacts) -> Findings:
    """Yield one finding for a kernel that pieces of the efficient size would make faster, at the place that costs it
    most.

    The gain is that of a copy of the program in which transfers of one place whose pieces lie side by side go together
    until their pieces have that size: loads with the first, so that all that is computed from them waits for all of
    it, others with the last. Pieces that are whole rows have no neighbours.
    """
    program, arch = timed.program, timed.program.arch
    pieces = {item.id: size for item in program.variants if 0 < (size := _piece(item)) < arch.dma_efficient_bytes}
    ops = np.isin(timed.facts.variant, list(pieces))
    if not timed.is_worthwhile(int(timed.path_time[ops].sum())):
        return
    merge = _merges(timed, ops, pieces)
    together = merge.size[merge.carrier] > 1
    if not together.any():
        return
    saving = timed.saving_of(ops & together, timed.timing.makespan - _retimed(timed, merge))
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
        gain=saving.share,
    )


def _piece(variant: Variant) -> int:
    """Return the bytes of a contiguous piece of a transfer; 0 for other instructions."""
    declared = variant.instruction.cost
    if variant.engine != "dma" or isinstance(declared, Unmodelled):
        return 0
    return declared(variant.use).descriptor_bytes


def _merges(timed: TimedFacts, ops: Mask, pieces: dict[int, int]) -> _Merge:
    """Put transfers of one place together whose pieces are neighbours, as far as nothing between them decides about
    them, and memory has room for what is loaded earlier or stored later.
    """
    program, facts = timed.program, timed.facts
    count = len(program)
    op, before, flow = edges_of(timed.schedule)
    last_needed, first_needing = np.full(count, -1), np.full(count, count)
    np.maximum.at(last_needed, op[flow], before[flow])
    np.minimum.at(first_needing, before[flow], op[flow])
    is_load = program.variants_where(_fills_chip)[facts.variant]
    carrier, size = np.arange(count), np.ones(count, np.int64)
    group: dict[tuple[object, ...], list[int]] = {}  # by where the pieces that follow would begin
    known: dict[tuple[int, ...], tuple[_Places, _Places]] = {}
    far = {number: _far(program.variants[number]) for number in pieces}
    cores = program.core_column()
    efficient = program.arch.dma_efficient_bytes
    free = _FreeMemory(timed)
    for row in np.flatnonzero(ops).tolist():
        number = program.op_variant[row]
        own = (number, int(cores[row]))
        start = program.op_access[row]
        moved = number, *[program.access_view[start + place] for place in far[number]]
        found = known.get(moved)
        if found is None:
            places = _places([program.views[view] for view in moved[1:]], row)
            found = places, _after(program.variants[number], far[number], places, pieces[number])
            if all(offset >= 0 for _, offset in places):  # of others the place is that of this row alone
                known[moved] = found
        places, behind = found
        mine = group.pop((*own, *places), [])
        if mine:
            held = last_needed[row] > mine[0] if is_load[row] else first_needing[mine].min() < row
            full = not free.keeps(row if is_load[row] else mine, mine[0] if is_load[row] else row)
            if held or full or len(mine) * pieces[number] >= efficient:
                mine = []
        mine.append(row)
        group[(*own, *behind)] = mine
        chosen = mine[0] if is_load[row] else row
        carrier[mine] = chosen
        size[mine] = 1
        size[chosen] = len(mine)
    return _Merge(carrier, size)


def _far(variant: Variant) -> list[int]:
    """Return the positions of a transfer's operands in HBM; of all of them without any there."""
    types = [variant.use.types[name] for name in variant.names]
    return [place for place, kind in enumerate(types) if not kind.on_chip] or list(range(len(types)))


def _places(moved: list[View], row: int) -> _Places:
    """Return (buffer, offset in elements) of what the transfer of a row moves."""
    return tuple((view.buffer.id, view.offset if view.indirect is None else -1 - row) for view in moved)


def _after(variant: Variant, far: list[int], places: _Places, piece: int) -> _Places:
    """Return the places behind the first pieces of a transfer: where one begins whose pieces are its neighbours."""
    sizes = [variant.use.types[variant.names[place]].dtype.nbytes for place in far]
    return tuple((buffer, offset + piece // size) for (buffer, offset), size in zip(places, sizes, strict=True))


class _FreeMemory:
    """The bytes of a partition of SBUF that are left for tiles that live longer."""

    def __init__(self, timed: TimedFacts) -> None:
        self._timed = timed
        self._tiles: dict[int, int] = {}  # bytes by variant
        self._left = AddressSpace.of(sbuf, timed.program.arch).usable - timed.allocation.sbuf_peak
        self._until: list[tuple[int, int]] = []  # a heap of (until when a tile lives longer, its bytes)
        self._held = 0

    def keeps(self, rows: int | list[int], other: int) -> bool:
        """Return whether there is room for the tile of a row from another row on, or up to one."""
        first = min(other, rows if isinstance(rows, int) else rows[-1])
        last = max(other, rows if isinstance(rows, int) else rows[-1])
        while self._until and self._until[0][0] <= first:
            self._held -= heappop(self._until)[1]
        size = self._tile(last if isinstance(rows, int) else first)
        if self._held + size > self._left:
            return False
        heappush(self._until, (last, size))
        self._held += size
        return True

    def _tile(self, row: int) -> int:
        number = self._timed.program.op_variant[row]
        if number not in self._tiles:
            variant = self._timed.program.variants[number]
            near = [variant.use.types[name] for name in variant.names if variant.use.types[name].on_chip]
            self._tiles[number] = max((kind.free_size * kind.dtype.nbytes for kind in near), default=0)
        return self._tiles[number]


def _fills_chip(variant: Variant) -> bool:
    return all(variant.use.types[name].on_chip for name, out in zip(variant.names, variant.outs, strict=True) if out)


def _retimed(timed: TimedFacts, merge: _Merge) -> int:
    """Return the makespan in picoseconds with transfers that go together."""
    program, variant = copy(timed.program), timed.facts.variant.copy()
    program.variants, costs = list(program.variants), list(timed.costs)
    made: dict[tuple[int, int], int] = {}
    for row in np.flatnonzero(merge.size > 1).tolist():
        key = (int(variant[row]), int(merge.size[row]))
        if key not in made:
            made[key] = len(costs)
            costs.append(_of_more(program.arch, costs[key[0]], key[1]))
            program.variants.append(program.variants[key[0]])
        variant[row] = made[key]
    program.op_variant = array("I", variant.astype(np.uint32).tobytes())
    return makespan_of(program, timed.carried(merge.carrier), timed.allocation, costs)


def _of_more(arch: Arch, cost: VariantCost, times: int) -> VariantCost:
    """Return the cost of a transfer of as many pieces that are `times` as long."""
    engines = max(1, cost.engines.bit_count())
    whole = max(1, round(1000 * times * cost.bytes / (engines * arch.dma_bytes_per_ns)))
    time = max(cost.interval, min(times * cost.interval, whole))
    longer = cost.descriptor_bytes * times
    return replace(
        cost,
        interval=time,
        latency=time,
        bytes=cost.bytes * times,
        hbm_bytes=cost.hbm_bytes * times,
        descriptor_bytes=longer,
        spaced=longer >= arch.dma_short_descriptor_bytes,
    )
