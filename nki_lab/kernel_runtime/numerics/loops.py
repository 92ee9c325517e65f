"""Executing device loops: the body is planned once and performed as often as the registers say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nki_lab.diagnostic import NkiError, error_of
from nki_lab.isa.ops.register import integer_of, value_of
from nki_lab.kernel_runtime.coverage import Tracker
from nki_lab.kernel_runtime.ir import Program, Region, View, register_written
from nki_lab.kernel_runtime.issue.source_location import placed
from nki_lab.kernel_runtime.numerics.variant_plan import Registers, State, Step
from nki_lab.kernel_runtime.path import PathLog, endless
from nki_lab.kernel_runtime.tensor import Buffer


class Interval(NamedTuple):
    """Ops `first` to before `end`, planned."""

    first: int
    end: int
    steps: list[tuple[int, Step]]


Block = list[Interval | Region]
"""A body: planned ops, and the loops between them."""


class Loops:
    """The loops of a program that an executor executes, and the path that it takes through them.

    The executor makes the memory of buffers (`bound`), plans ops (`plan`), performs what is planned and knows which op
    `failed`. Whether a matmul adds is decided when it is executed: in one pass it may be the first to write, in the
    next not.
    """

    def __init__(
        self, program: Program, registers: Registers, bound: Callable[[Buffer], Any], plan: Callable[..., None],
        perform: Callable[[list[tuple[int, Step]]], None], failed: Callable[[], int],
    ) -> None:  # fmt: skip
        self.log = PathLog()
        self._passes = 0
        self._program = program
        self._registers = registers
        self._values = registers.values
        self._bound = bound
        self._plan = plan
        self._perform = perform
        self._failed = failed
        self._products = Tracker(program)
        self._blocks: dict[int, Block] = {}

    def next_at(self, op: int) -> Region | None:
        """The first loop that is in no other one and begins at `op` or after it, and has not been executed."""
        for region in self._program.regions:
            if region.parent < 0 and region.first >= op and region.id not in self._blocks:
                return region
        return None

    def plan(self, index: int, steps: list[tuple[int, Step]]) -> None:
        """Add the calls that execute an op."""
        program = self._program
        variant = program.variants[program.op_variant[index]]
        accumulation = variant.instruction.accumulation
        if accumulation is None:
            self._plan(index, {}, steps)
        else:
            state = State(self._registers)
            place = program.op_access[index] + variant.names.index(accumulation.operand)
            view = program.views[program.access_view[place]]
            steps.append((index, (self._decide, (state, view, accumulation.mode(variant.use)))))
            self._plan(index, {}, steps, state)
        if variant.instruction.loads_register:
            steps.append((index, (self._loaded, (register_written(variant),))))

    def run(self, region: Region) -> None:
        """Execute a loop with all its passes; those of `max_instructions` are the most (NKI011)."""
        block = self._blocks.get(region.id)
        if block is None:
            self._make_memory(region)
            block = self._blocks[region.id] = self._planned(region)
        count = self._count(region)
        entry = self.log.enter()
        limit = self._program.options.max_instructions
        done = 0
        while self._begin(region, done, count):
            done += 1
            self.log.trips[entry] = done
            for part in block:
                if isinstance(part, Region):
                    self.run(part)
                else:
                    self.perform(part)
            self._passes += 1
            if self.log.rows + self._passes > limit:
                raise error_of(endless(self._program, region, limit))

    def perform(self, part: Interval) -> None:
        """Make planned calls, and count the instructions that they execute."""
        try:
            self._perform(part.steps)
        except BaseException:
            self.log.rows += max(0, self._failed() - part.first)
            raise
        self.log.rows += part.end - part.first

    # -- passes ------------------------------------------------------------------------------------------------------

    def _count(self, region: Region) -> range:
        """The values of a "for" loop's variable; what a "while" loop makes of it is seen pass by pass."""
        if region.kind == "while":
            return range(0)
        try:
            lower = integer_of(self._values, region.lower, "the lower bound of a device loop")
            upper = integer_of(self._values, region.upper, "the upper bound of a device loop")
        except NkiError as error:
            raise self._at(region, error) from None
        return range(lower, upper, region.step)

    def _begin(self, region: Region, done: int, count: range) -> bool:
        """Whether there is another pass; its register is set."""
        if region.kind == "for":
            if done >= len(count):
                return False
            self._values[region.register] = count[done]
        else:
            try:
                value = value_of(self._values, region.upper if done else region.lower)
            except NkiError as error:
                raise self._at(region, error) from None
            if value == 0:
                return False
            self._values[region.register] = value
        self._products.renew(*region.buffers)
        return True

    def _at(self, region: Region, error: NkiError) -> NkiError:
        site = self._program.sites[region.site]
        return error_of(*(placed(item, site) for item in error.diagnostics))

    # -- the body ----------------------------------------------------------------------------------------------------

    def _planned(self, region: Region) -> Block:
        program = self._program
        block: Block = []
        at = region.first
        for inner in program.regions[region.id + 1 :]:
            if inner.parent == region.id:
                block += [self._straight(at, inner.first), inner]
                at = inner.end
        block.append(self._straight(at, region.end))
        return block

    def _straight(self, first: int, end: int) -> Interval:
        steps: list[tuple[int, Step]] = []
        for index in range(first, end):
            self.plan(index, steps)
        return Interval(first, end, steps)

    def _make_memory(self, region: Region) -> None:
        """Make the memory of all that the body accesses, once for all passes."""
        program = self._program
        if region.first == region.end:
            return
        low = program.op_access[region.first]
        high = program.op_access[region.end] if region.end < len(program) else len(program.access_view)
        for number in np.unique(np.array(program.access_view[low:high])).tolist():
            self._bound(program.views[number].buffer)

    def _decide(self, state: State, view: View, asked: bool | None) -> None:
        state.add = self._products.adds(view, asked)

    def _loaded(self, register: int) -> None:
        value: Any = self._values[register]
        self.log.load(value)
