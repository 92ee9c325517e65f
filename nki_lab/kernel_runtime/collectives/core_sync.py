"""Order the ops of two cores that wait for each other: an op comes after those that it waits for.

The bodies of the cores are cut where a core waits for the other one, and the pieces put one after the other, so that
all who read a Program in its order see what the chip may do. A core goes on behind an exchange that its counterpart has
yet to come to, up to what touches the tiles of the exchange; nothing goes past a barrier. (The chip stops only the
barrier's engine. Kernels that need that are refused here.) A device loop in which cores wait for each other is one loop
that both go round together: each iteration ends on both cores before the next one begins.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_lab.diagnostic import NkiError, Related, diagnose, error_of
from nki_lab.kernel_runtime.ir import Program, Region, View, synchronization
from nki_lab.kernel_runtime.issue.source_location import placed, span_of
from nki_lab.kernel_runtime.tensor import NkiTensor

Column = NDArray[np.int64]
Key = tuple[Any, ...]


def synchronizing_ops(program: Program) -> dict[int, Key]:
    """Return the ops that wait for the other core, with their channel: ops of a channel keep their order."""
    keys: dict[int, Key] = {
        variant.id: (variant.instruction.name, *found.channel)
        for variant in program.variants
        if (found := synchronization(variant)) is not None
    }
    if not keys:
        return {}
    rows = program.variant_column()
    return {op: keys[int(rows[op])] for op in np.flatnonzero(np.isin(rows, list(keys))).tolist()}


def synchronize_cores(program: Program) -> None:
    """Put the ops of a complete program into an order that its synchronization allows, and note the pairs.

    Raises NKI016 where ops wait for a core that the launch does not have, NKI405 where the cores do not synchronize.
    """
    if program.synchronizations:
        return
    keys = synchronizing_ops(program)
    if not keys:
        return
    if program.cores != 2:
        name = program.op(min(keys)).variant.instruction.name
        raise _refusal(
            program,
            min(keys),
            f"{name} waits for the other core, and the kernel runs on one",
            f"{name} is for the two cores of a launch kernel[2]",
            "launch it as kernel[2](...), or guard the call with `if nl.num_programs() == 2:`",
            code="NKI016",
        )
    ordering = _Synchronizer(program, keys)
    ordering.run()
    ordering.carry_over()


@dataclass(slots=True)
class _Side:
    """One core in its body, or in that of the loop `around`: where it stands, and the exchanges that it went past.

    `stops` are its ops that synchronize, and the first ones of the `loops` in which others do.
    """

    core: int
    at: int
    end: int
    around: Region | None
    stops: list[int]
    loops: dict[int, Region]
    waiting: list[int] = field(default_factory=list)


class _Synchronizer:
    def __init__(self, program: Program, keys: dict[int, Key]) -> None:
        self.program = program
        self.keys = keys
        self._stops = sorted(keys)
        self.sides = [self._side(core, first, end, None) for first, end, core in program.stretches]
        self.stretches: list[tuple[int, int, int]] = []
        self.pairs: list[tuple[int, int]] = []
        self.exchanged: list[tuple[int, int]] = []
        self.together: list[tuple[Region, Region, int, int]] = []  # loops of both cores, and their ops in the new order
        self._emitted = 0

    def run(self) -> None:
        """Work off both cores, up to the ends of their bodies."""
        first, second = self.sides
        while True:
            for side in self.sides:
                self._advance(side)
            if self._go_round(first, second) or self._synchronize(first, second):
                continue
            if all(side.at == side.end and not side.waiting for side in self.sides):
                return
            if not any(self._go_past(side) for side in self.sides):
                raise self._unmatched()

    def _side(self, core: int, first: int, end: int, around: Region | None) -> _Side:
        """Return a core before the body of a loop, or its own."""
        inside = self._stops[bisect_left(self._stops, first) : bisect_left(self._stops, end)]
        loops = {
            region.first: region
            for region in self.program.regions
            if region.parent == (-1 if around is None else around.id)
            and first <= region.first
            and region.end <= end
            and any(region.first <= op < region.end for op in inside)
        }
        own = [op for op in inside if not any(loop.first <= op < loop.end for loop in loops.values())]
        return _Side(core, first, end, around, sorted([*own, *loops]), loops)

    def _go_round(self, first: _Side, second: _Side) -> bool:
        """Go through the bodies of loops in which both cores wait for each other, if both have come to one."""
        if any(side.waiting or side.at == side.end or side.at not in side.loops for side in (first, second)):
            return False
        mine, others = first.loops[first.at], second.loops[second.at]
        if mine.kind != others.kind:
            return False
        begin, around = self._emitted, self.sides
        self.sides = [
            self._side(side.core, region.first, region.end, region)
            for side, region in ((first, mine), (second, others))
        ]
        self.run()
        self.sides = around
        first.at, second.at = mine.end, others.end
        self.together.append((mine, others, begin, self._emitted))
        return True

    def _emit(self, first: int, end: int, core: int) -> None:
        if first == end:
            return
        self._emitted += end - first
        if self.stretches and self.stretches[-1][1:] == (first, core):
            first = self.stretches.pop()[0]
        self.stretches.append((first, end, core))

    def _advance(self, side: _Side) -> None:
        """Go on to the next op that synchronizes, or to the first that must wait for an exchange that is not done."""
        place = bisect_left(side.stops, side.at)
        stop = side.stops[place] if place < len(side.stops) else side.end
        if side.waiting:
            stop = self._free_until(side, stop)
        self._emit(side.at, stop, side.core)
        side.at = stop

    def _free_until(self, side: _Side, stop: int) -> int:
        stop = min([stop, *(region.first for region in self.program.regions if side.at <= region.first < stop)])
        return next((op for op in range(side.at, stop) if self._touches(side, op)), stop)

    def _touches(self, side: _Side, op: int) -> bool:
        """Return whether an op uses the tiles of an exchange that the core went past."""
        used, written = self._buffers(op)
        return any(used & into or written & near for near, into in map(self._buffers, side.waiting))

    def _buffers(self, op: int) -> tuple[set[int], set[int]]:
        """Return the buffers that an op accesses, and those that it writes."""
        row = self.program.op(op)
        indices = [view.indirect.index for view in row.views if view.indirect is not None]
        used = {index._buffer.id for index in indices if isinstance(index, NkiTensor)}
        return used | {view.buffer.id for view in row.views}, {view.buffer.id for view in row.writes}

    def _offers(self, side: _Side) -> dict[Key, int]:
        """Return the first op of each channel that the core has come to, for the other core to synchronize with."""
        found: dict[Key, int] = {}
        for op in side.waiting:
            found.setdefault(self.keys[op], op)
        own = side.at in self.keys and side.at < side.end and side.at not in side.loops
        if own and not (side.waiting and self._touches(side, side.at)):
            found.setdefault(self.keys[side.at], side.at)
        return found

    def _synchronize(self, first: _Side, second: _Side) -> bool:
        mine, others = self._offers(first), self._offers(second)
        both = [key for key in mine if key in others]
        if not both:
            return False
        a, b = mine[both[0]], others[both[0]]
        self._check(a, b)
        self.pairs.append((b, a))
        for side, op in ((second, b), (first, a)):  # the second core has just been at work, the first goes on
            self._emit(op, op + 1, side.core)
            if op in side.waiting:
                side.waiting.remove(op)
            else:
                side.at += 1
        return True

    def _go_past(self, side: _Side) -> bool:
        """Let a core go past the exchange where it stands."""
        op = side.at
        if op == side.end or op not in self.keys or op in side.loops:
            return False
        if self.program.op(op).variant.instruction.only_orders:
            return False
        placed_by_user = any(view.buffer.address is not None for view in self.program.op(op).views)
        if placed_by_user or (side.waiting and self._touches(side, op)):  # placed bytes may have other names
            return False
        side.waiting.append(op)
        side.at += 1
        return True

    # -- pairs of ops --------------------------------------------------------------------------------------------------

    def _check(self, a: int, b: int) -> None:
        program = self.program
        left, right = program.op(a), program.op(b)
        if left.variant.instruction.only_orders:
            here, there = left.views[0].buffer, right.views[0].buffer
            if here is not there and not (here.on_chip and there.on_chip):
                raise self._differ(
                    a,
                    b,
                    "the cores wait for each other over different tensors",
                    "data is one tensor in shared HBM on both cores",
                    "allocate it with buffer=nl.shared_hbm, on both cores alike",
                )
            return
        waits = [synchronization(op.variant) for op in (left, right)]
        ranks = [(item.send_to, item.receive_from) for item in waits if item is not None]
        if ranks == [(1, 1), (0, 0)]:
            self.exchanged.append((a, b))
            for op, other in ((left, right), (right, left)):
                (dst,), (src,) = op.writes, other.reads
                if _kind(dst) != _kind(src):
                    raise self._differ(
                        a,
                        b,
                        f"core {program.core_of(op.index)} receives {_kind(dst)}, and core "
                        f"{program.core_of(other.index)} sends {_kind(src)}",
                        "what is sent has the shape and dtype of what is received",
                        "give src and dst one shape and dtype on both cores",
                    )
        elif ranks != [(0, 0), (1, 1)]:
            sends = [f"core {core} sends to {to} and receives from {of}" for core, (to, of) in enumerate(ranks)]
            raise self._differ(
                a,
                b,
                " while ".join(sends),
                "a core receives from the core that sends to it",
                "write send_to_rank=1 - nl.program_id(0), and the same for recv_from_rank",
            )

    def _differ(self, a: int, b: int, message: str, limit: str, help_text: str) -> NkiError:
        return _refusal(self.program, a, f"{_title(self.program, a, self.keys)}: {message}", limit, help_text, other=b)

    def _unmatched(self) -> NkiError:
        states, ops = [], []
        for side in self.sides:
            op = side.waiting[0] if side.waiting else side.at
            loop = None if side.waiting else side.loops.get(op)
            if loop is not None and op < side.end:
                ops.append(op)
                line = self.program.sites[loop.site].line
                states.append(f"core {side.core} has come to the device loop of line {line}, in which it waits")
            elif op < side.end or side.waiting:
                ops.append(op)
                states.append(
                    f"core {side.core} waits in {_title(self.program, op, self.keys)}, line "
                    f"{self.program.site_of(op).line}"
                )
            else:
                last = f", after line {self.program.site_of(side.end - 1).line}" if side.stops or side.end else ""
                what = "its end" if side.around is None else "the end of the loop"
                states.append(f"core {side.core} has come to {what}{last}")
        return _refusal(
            self.program,
            ops[0],
            ", and ".join(states),
            "what one core waits in, the other one comes to, in the same order",
            "issue core_barrier and sendrecv on both cores, outside of branches on nl.program_id()",
            other=ops[1] if len(ops) > 1 else -1,
        )

    # -- the program in the new order --------------------------------------------------------------------------------

    def carry_over(self) -> None:
        """Change the program to the order that was found."""
        program = self.program
        merged = [
            (sum(end - first for first, end, _ in parts), core)
            for core, parts in groupby(self.stretches, key=itemgetter(2))
        ]
        rows = np.concatenate([np.arange(first, end) for first, end, _ in self.stretches])
        place = np.empty(len(rows), np.int64)
        place[rows] = np.arange(len(rows))
        _reorder(program, rows)
        program.core_order = [core for _, core in merged]
        counts = np.array([count for count, _ in merged])
        program.core_starts = (np.cumsum(counts) - counts).tolist()
        program.op_names = {int(place[op]): name for op, name in program.op_names.items()}
        program.user_edges = [(int(place[op]), int(place[other])) for op, other in program.user_edges]
        program.flows = [(int(place[op]), int(place[other])) for op, other in program.flows]
        program.synchronizations = [(int(place[a]), int(place[b])) for a, b in self.pairs]
        pairs = [(int(place[a]), int(place[b])) for a, b in self.exchanged]
        program.partners = dict(pairs) | {b: a for a, b in pairs}
        _cut_fences(program, place)
        _move_regions(program, place, self.together)


def _reorder(program: Program, rows: Column) -> None:
    """Put the columns into the order of `rows`, the ops as they were numbered."""
    variant = np.frombuffer(program.op_variant, np.uint32)[rows]
    width = np.fromiter((len(item.names) for item in program.variants), np.int64, len(program.variants))[variant]
    first = np.cumsum(width) - width
    before = np.frombuffer(program.op_access, np.uint32).astype(np.int64)[rows]
    accesses = np.arange(int(width.sum())) + np.repeat(before - first, width)
    program.access_view = array("I", np.frombuffer(program.access_view, np.uint32)[accesses].tobytes())
    program.op_site = array("I", np.frombuffer(program.op_site, np.uint32)[rows].tobytes())
    program.op_iteration = array("i", np.frombuffer(program.op_iteration, np.int32)[rows].tobytes())
    program.op_variant = array("I", variant.tobytes())
    program.op_access = array("I", first.astype(np.uint32).tobytes())


def _cut_fences(program: Program, place: Column) -> None:
    """Blocks without reordering in pieces, one waiting for the other, where they are not in one piece any more."""
    fences = program.fences
    program.fences = []
    for first, end in fences:
        where = place[first:end]
        for low, high in pairwise([0, *(np.flatnonzero(np.diff(where) != 1) + 1).tolist(), len(where)]):
            program.fences.append((int(where[low]), int(where[high - 1]) + 1))
            if low:
                program.user_edges.append((int(where[low]), int(where[low - 1])))


def _move_regions(program: Program, place: Column, together: list[tuple[Region, Region, int, int]]) -> None:
    """Put device loops at their new places: those of one core are still in one piece, as no synchronization is in one;
    those that both go round are one loop, with the other core's as its twin.
    """
    before = [(region.first, region.end) for region in program.regions]
    joint = {mine.id: (begin, end) for mine, _, begin, end in together}
    for mine, others, _, _ in together:
        mine.twin = others
    twins = {others.id: mine.id for mine, others, _, _ in together}
    for region in program.regions:
        first, last = before[region.id]
        around = before[region.parent][1] if region.parent >= 0 else len(place)
        if region.id in joint:
            region.first, region.end = joint[region.id]
        elif last > first or first < min(around, len(place)):
            region.first, region.end = int(place[first]), int(place[first]) + last - first
        else:
            region.first = region.end = int(place[first - 1]) + 1
    for mine, others, _, _ in together:
        others.first, others.end = mine.first, mine.end
    kept = [region for region in program.regions if region.id not in twins]
    order = sorted(kept, key=lambda region: region.first)
    number = {region.id: at for at, region in enumerate(order)}
    number |= {other: number[mine] for other, mine in twins.items()}
    for region in order:
        for side in region.sides:
            side.parent = number.get(side.parent, -1)
    for at, region in enumerate(order):
        for side in region.sides:
            side.id = at
    program.regions[:] = order


# -- messages ----------------------------------------------------------------------------------------------------------


def _title(program: Program, op: int, keys: dict[int, Key]) -> str:
    """Return the title of an op that synchronizes: its instruction and pipe."""
    name, *pipe = keys.get(op, (program.op(op).variant.instruction.name,))
    return f"{name} of pipe {pipe[0]}" if pipe else name


def _kind(view: View) -> str:
    return f"{tuple(view.type.shape)} {view.type.dtype.name}"


def _refusal(
    program: Program, op: int, message: str, limit: str, help_text: str, *, code: str = "NKI405", other: int = -1
) -> NkiError:
    related = []
    if other >= 0 and program.site_of(other).file:
        related.append(Related(f"core {program.core_of(other)} waits here", span_of(program.site_of(other))))
    return error_of(placed(diagnose(code, message, limit=limit, help=help_text, related=related), program.site_of(op)))
