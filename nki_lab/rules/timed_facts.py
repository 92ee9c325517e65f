"""The facts about the times of a kernel that rules read."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from nki_lab.diagnostic import Related
from nki_lab.kernel_runtime.allocate import Allocation, allocate
from nki_lab.kernel_runtime.allocate.placing import AddressSpace
from nki_lab.kernel_runtime.footprint import distinct
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.schedule import EDGE_KINDS, Schedule, schedule
from nki_lab.kernel_runtime.tensor import sbuf
from nki_lab.kernel_runtime.timing import Timing, VariantCost, costs_of, makespan_of
from nki_lab.quantities import share
from nki_lab.rules.program_facts import Column, Mask, ProgramFacts

_FLOW: Final = EDGE_KINDS.index("flow")
_PICOSECONDS: Final = 1000  # in a nanosecond

WORTHWHILE: Final = 0.05
"""The share of a kernel's time, with its launch, below which a gain is not worth words. guess: published steps that
gain less are within what their authors measure from run to run."""

CostOf = Callable[[int, VariantCost], VariantCost]
"""Another cost of a variant, from its number and its cost."""


class Saving(NamedTuple):
    """A gain as users read it and as a share of the time, the first op of the place that costs most, the next ones."""

    gain: str
    share: float
    first: int
    related: list[Related]


@dataclass(frozen=True, kw_only=True, eq=False)
class TimedFacts:
    """A program with its times. `program` is what is executed: device loops are laid out, a row for each instruction
    of each iteration. `written` gives the program with what the compiler model left out, where it did, and
    `roomy` what the model makes of it on a chip with more memory; `spills` tells whether it does something for want of
    memory, and `inserted` marks the rows that it put in.
    `quotients` bound the measured time over the predicted one.
    """

    program: Program
    allocation: Allocation
    schedule: Schedule
    timing: Timing
    written: Callable[[], TimedFacts] | None = None
    roomy: Callable[[], tuple[Program, Allocation]] | None = None
    spills: bool = False
    inserted: Mask | None = None
    quotients: tuple[float, float] | None = None
    _timed: dict[int, tuple[Program, int, bool]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def as_written(self) -> TimedFacts:
        """Return the program before the compiler model left out repeated rows, with its times; itself without that."""
        return self if self.written is None else self.written()

    @cached_property
    def facts(self) -> ProgramFacts:
        """Return the same program without its times."""
        return ProgramFacts(program=self.program, known_allocation=self.allocation, known_schedule=self.schedule)

    @cached_property
    def own(self) -> Mask:
        """Mark the rows that the kernel asks for: all but those that the compiler model put in."""
        return np.ones(len(self.program), bool) if self.inserted is None else ~self.inserted

    @cached_property
    def costs(self) -> list[VariantCost]:
        """Return cost of each variant."""
        return costs_of(self.program)

    @cached_property
    def path_time(self) -> Column:
        """Return the picoseconds that each op works on the critical path, or that the path waits before or in it."""
        path = self.timing.path
        on_path = path.row >= 0
        out = np.zeros(len(self.program), np.int64)
        np.add.at(out, path.row[on_path], (path.work + path.wait)[on_path])
        return out

    # -- places ----------------------------------------------------------------------------------------------------

    def places(self, ops: Mask) -> list[int]:
        """Return the sites of some ops, those that the critical path spends most time at first."""
        site = self.facts.site[ops]
        time = np.bincount(site, self.path_time[ops], minlength=len(self.program.sites))
        found = distinct(site)
        order: list[int] = found[np.argsort(-time[found], kind="stable")].tolist()
        return order

    def first_at(self, site: int, ops: Mask) -> int:
        """Return the first of some ops that was issued at a site."""
        return int(np.flatnonzero(ops & (self.facts.site == site))[0])

    def saving(self, ops: Mask, cost_of: CostOf) -> Saving | None:
        """Return the saving by other costs of some ops, from their variants; None where it is not worthwhile."""
        if not self.is_worthwhile(int(self.path_time[ops].sum())):
            return None
        return self.saving_of(ops, self.timing.makespan - self.at_costs((ops, cost_of)))

    def saving_of(self, ops: Mask, gain: int) -> Saving | None:
        """Return a gain in picoseconds with the places of some ops; None where it is not worthwhile."""
        if not self.is_worthwhile(gain):
            return None
        first, *others = self.places(ops)
        related = [
            Related(f"so does line {self.program.sites[site].line}", self.facts.span(self.first_at(site, ops)))
            for site in others[:3]
        ]
        return Saving(self.gain(gain), gain / self.timing.makespan, self.first_at(first, ops), related)

    def shape(self, op: int) -> str:
        """Return the first operand that an op reads, or else writes, with its shape and dtype."""
        variant = self.program.variants[self.program.op_variant[op]]
        read = (name for name, out in zip(variant.names, variant.outs, strict=True) if not out)
        name = next(read, variant.names[0])
        kind = variant.use.types[name]
        return f"{name}: {tuple(kind.shape)} {kind.dtype.name}"

    # -- what would be ---------------------------------------------------------------------------------------------

    def retimed(self, order: Schedule) -> int:
        """Return the makespan in picoseconds in another order."""
        return makespan_of(self.program, order, self.allocation)

    def at_costs(self, *changes: tuple[Mask, CostOf], order: Schedule | None = None) -> int:
        """Return the makespan in picoseconds with other costs of some ops, from their variants, perhaps in another
        order.
        """
        program, variant = self.program, self.facts.variant.copy()
        other, costs = copy(program), list(self.costs)
        other.variants = list(program.variants)
        for ops, cost_of in changes:
            mine = self.facts.variant[ops]
            used = distinct(mine)
            variant[ops] = len(costs) + np.searchsorted(used, mine)
            other.variants += (program.variants[number] for number in used.tolist())
            costs += (cost_of(number, self.costs[number]) for number in used.tolist())
        other.op_variant = array("I", variant.astype(np.uint32).tobytes())
        return makespan_of(other, order or self.schedule, self.allocation, costs)

    def carried(self, carrier: Column) -> Schedule:
        """Return the schedule without the ops whose work others do: `carrier[op]`, or the op itself. What waits for one
        of them waits for its carrier, and a carrier waits for the results that they need, as far as these come before.
        """
        found = self.schedule
        op, before, flow = edges_of(found)
        gone = carrier != np.arange(len(carrier))
        to, source = carrier[op], carrier[before]
        same_lane = found.lane[to] == found.lane[source]
        changed = gone[op] | gone[before]
        kept = ~changed | ((source < to) & ~same_lane & (flow | ~gone[op]))
        to, source, kind = to[kept], source[kept], found.kind[kept]
        rank = np.lexsort((source, to))
        lane_flow = found.lane_flow.copy()
        lane_flow[(lane_flow >= 0) & gone[lane_flow]] = -1
        return replace(
            found,
            start=np.searchsorted(to[rank], np.arange(len(carrier) + 1)),
            pred=source[rank].astype(found.pred.dtype),
            kind=kind[rank],
            order=tuple(order[~gone[order]] for order in found.order),
            lane_flow=lane_flow,
        )

    def reordered(self, program: Program) -> int:
        """Return the makespan in picoseconds of a copy of the program whose rows and tensors are the same."""
        return makespan_of(program, schedule(program, self.allocation), self.allocation)

    def rebuilt(self, program: Program) -> int | None:
        """Return the makespan in picoseconds of a changed copy of the program; None where memory has no room for it."""
        makespan, fits = self.timed(program)
        return makespan if fits else None

    def timed(self, program: Program) -> tuple[int, bool]:
        """Return the makespan in picoseconds of a changed copy of the program, and whether memory has room for it.

        Several rules ask for the same copy.
        """
        known = self._timed.get(id(program))
        if known is None or known[0] is not program:
            found = allocate(program)
            makespan = makespan_of(program, schedule(program, found), found)
            fits = found.sbuf_peak <= AddressSpace.of(sbuf, program.arch).usable
            known = self._timed[id(program)] = (program, makespan, fits)
        return known[1:]

    @property
    def may_lose_rows(self) -> bool:
        """Whether a copy of the program can leave rows out: it has one core, and no register decides about its way."""
        return self.program.cores == 1 and not self.program.registers

    def is_worthwhile(self, gain: int) -> bool:
        """Return whether a gain in picoseconds is worth words: a share of the kernel's time with its launch."""
        options, arch = self.program.options, self.program.arch
        launch = 0.0 if options.launch_overhead else arch.envelope_ns(self.program.cores) * _PICOSECONDS
        return gain > 0 and gain >= WORTHWHILE * (self.timing.makespan + launch)

    def gain(self, gain: int) -> str:
        """Return a gain in picoseconds as users read it: nanoseconds, the share of the kernel's time, and the bounds
        that the interval of that time gives the gain.
        """
        nanoseconds, makespan = gain / _PICOSECONDS, self.timing.makespan / _PICOSECONDS
        said = f"{nanoseconds:,.0f} ns of {makespan:,.0f} ({share(nanoseconds / makespan)})"
        if self.quotients is None:
            return said
        low, high = (nanoseconds * bound for bound in self.quotients)
        return f"{said}, {low:,.0f} to {high:,.0f} by the interval of the time"


def edges_of(found: Schedule) -> tuple[Column, Column, Mask]:
    """Return (op, what it waits for, whether for its result) of all edges."""
    op = np.repeat(np.arange(len(found.start) - 1), np.diff(found.start))
    return op, found.pred.astype(np.int64), found.kind == _FLOW
