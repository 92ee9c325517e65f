"""Executing device loops: the body is planned once and performed as often as the registers say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from nki_lab.diagnostic import NkiError, error_of
from nki_lab.isa.ops.register import integer_of, value_of
from nki_lab.kernel_runtime.coverage import Added, Tracker
from nki_lab.kernel_runtime.footprint import distinct
from nki_lab.kernel_runtime.ir import Program, Region, View, register_written
from nki_lab.kernel_runtime.issue.source_location import placed
from nki_lab.kernel_runtime.numerics.variant_plan import PlannedStep, Registers, State
from nki_lab.kernel_runtime.path import PathLog, endless, uneven
from nki_lab.kernel_runtime.progress import current_monitor
from nki_lab.kernel_runtime.tensor import Buffer


class LoopExecutor(Protocol):
    """The part of an executor that loops use: it plans and performs the ops of their bodies."""

    program: Program
    registers: Registers
    failed: int

    def plan(self, index: int, add: Mapping[int, Added], steps: list[PlannedStep], state: State | None = None) -> None:
        """Add the calls that execute an op to `steps`."""

    def perform(self, steps: Sequence[PlannedStep]) -> None:
        """Make the calls."""

    def bound(self, buffer: Buffer) -> object:
        """Return the storage of a buffer, made at its first use."""


class Interval(NamedTuple):
    """Ops `first` to before `end`, planned."""

    first: int
    end: int
    steps: list[PlannedStep]


Block = list[Interval | Region]
"""A body: planned ops, and the loops between them."""


class Loops:
    """The loops of a program that an executor executes, and the path that it takes through them.

    Whether a matmul adds is decided when it is executed: in one iteration it may be the first to write, in the next
    not.
    """

    def __init__(self, executor: LoopExecutor) -> None:
        self.log = PathLog()
        self._executor = executor
        self._program = executor.program
        self._values = executor.registers.values
        self._iterations = 0
        self._monitor = current_monitor()
        self._products = Tracker(executor.program)
        self._blocks: dict[int, Block] = {}

    def next_at(self, op: int) -> Region | None:
        """Return the first outermost loop at `op` or after it that has not been executed."""
        for region in self._program.regions:
            if region.parent < 0 and region.first >= op and region.id not in self._blocks:
                return region
        return None

    def plan(self, index: int, steps: list[PlannedStep]) -> None:
        """Add the calls that execute an op."""
        program = self._program
        variant = program.variants[program.op_variant[index]]
        accumulation = variant.instruction.accumulation
        state = None
        if accumulation is not None:
            state = State(self._executor.registers, program.core_of(index))
            place = program.op_access[index] + variant.names.index(accumulation.operand)
            view = program.views[program.access_view[place]]
            steps.append((index, (self._decide, (state, view, accumulation.mode(variant.use)))))
        self._executor.plan(index, {}, steps, state)
        if variant.instruction.loads_register:
            steps.append((index, (self._loaded, (register_written(variant),))))

    def run(self, region: Region) -> None:
        """Execute a loop with all its iterations; `max_instructions` limits them (NKI011)."""
        block = self._blocks.get(region.id)
        if block is None:
            self._make_memory(region)
            block = self._blocks[region.id] = self._planned(region)
        counts = [self._count(side) for side in region.sides]
        if len({len(count) for count in counts}) > 1:
            raise error_of(uneven(self._program, region, [f"{len(count)} times" for count in counts]))
        entry = self.log.enter()
        limit = self._program.options.max_instructions
        done = 0
        while self._begin(region, done, counts):
            done += 1
            self.log.trips[entry] = done
            for part in block:
                if isinstance(part, Region):
                    self.run(part)
                else:
                    self.perform(part)
            self._iterations += 1
            self._monitor.advance(self.log.rows)
            if self.log.rows + self._iterations > limit:
                raise error_of(endless(self._program, region, limit))

    def perform(self, part: Interval) -> None:
        """Make planned calls, and count the instructions that they execute."""
        try:
            self._executor.perform(part.steps)
        except BaseException:
            self.log.rows += max(0, self._executor.failed - part.first)
            raise
        self.log.rows += part.end - part.first

    # -- iterations ---------------------------------------------------------------------------------------------------

    def _count(self, region: Region) -> range:
        """Return the values of a "for" loop's variable; a "while" loop sets its own in each iteration."""
        if region.kind == "while":
            return range(0)
        try:
            lower = integer_of(self._values, region.lower, "the lower bound of a device loop")
            upper = integer_of(self._values, region.upper, "the upper bound of a device loop")
        except NkiError as error:
            raise self._at(region, error) from None
        return range(lower, upper, region.step)

    def _begin(self, region: Region, done: int, counts: list[range]) -> bool:
        """Begin another iteration if there is one; its register is set, on each core."""
        values: list[int | float]
        if region.kind == "for":
            if done >= len(counts[0]):
                return False
            values = [count[done] for count in counts]
        else:
            try:
                values = [value_of(self._values, side.upper if done else side.lower) for side in region.sides]
            except NkiError as error:
                raise self._at(region, error) from None
            if any(values) != all(values):
                ends = [f"{'goes on' if value else 'ends'} after {done} iterations" for value in values]
                raise error_of(uneven(self._program, region, ends))
            if not any(values):
                return False
        for side, value in zip(region.sides, values, strict=True):
            self._values[side.register] = value
            self._products.renew(*side.buffers)
        return True

    def _at(self, region: Region, error: NkiError) -> NkiError:
        site = self._program.sites[region.site]
        return error_of(*(placed(item, site) for item in error.diagnostics))

    # -- the body ----------------------------------------------------------------------------------------------------

    def _planned(self, region: Region) -> Block:
        block: Block = []
        at = region.first
        for inner in self._program.regions[region.id + 1 :]:
            if inner.parent == region.id:
                block += [self._straight(at, inner.first), inner]
                at = inner.end
        block.append(self._straight(at, region.end))
        return block

    def _straight(self, first: int, end: int) -> Interval:
        steps: list[PlannedStep] = []
        for index in range(first, end):
            self.plan(index, steps)
        return Interval(first, end, steps)

    def _make_memory(self, region: Region) -> None:
        """Make the memory of all that the body accesses, once for all iterations."""
        program = self._program
        if region.first == region.end:
            return
        high = program.op_access[region.end] if region.end < len(program) else len(program.access_view)
        for number in distinct(np.array(program.access_view[program.op_access[region.first] : high])).tolist():
            self._executor.bound(program.views[number].buffer)

    def _decide(self, state: State, view: View, asked: bool | None) -> None:
        state.add = self._products.adds(view, asked)

    def _loaded(self, register: int) -> None:
        self.log.load(self._values[register])
