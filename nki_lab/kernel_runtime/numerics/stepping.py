"""An executor that can stop after any instruction, return what memory holds then, and go back to an earlier state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.coverage import Added
from nki_lab.kernel_runtime.ir import Program, View
from nki_lab.kernel_runtime.numerics.buffer_usage import NEVER, BufferUsage
from nki_lab.kernel_runtime.numerics.executor import Executor
from nki_lab.kernel_runtime.numerics.indirect import Accessor
from nki_lab.kernel_runtime.numerics.rounding import Array, to_shadow
from nki_lab.kernel_runtime.numerics.storage import SHADOW
from nki_lab.kernel_runtime.numerics.variant_plan import PlannedStep, Registers
from nki_lab.kernel_runtime.tensor import NkiTensor

_PIECE: Final = 64  # ops executed between two looks at which tiles are dead

BLOCK: Final = 1 << 16
"""Bytes of a block: the blocks that two states have in common are kept once."""


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """All that an executor held after `position` instructions, except what no instruction writes.

    `units` are memories by the least buffer that lies in them, cut into blocks; the others are as at the beginning.
    """

    position: int
    units: Mapping[int, tuple[bytes, ...]]
    registers: Registers


class SteppingExecutor(Executor):
    """Executes a complete program op by op, in program order: nothing is elided or grouped.

    A tile's memory is used again some time after its last access; before that `values` can be asked. The values are
    those of a run with `matmul_order="tile"`, bit for bit.
    """

    def __init__(
        self,
        program: Program,
        arrays: Mapping[int, Array],
        allocation: Allocation | None,
        usage: BufferUsage | None = None,
        add: Mapping[int, Added] | None = None,
    ) -> None:
        super().__init__(program, arrays, None, allocation)
        self._usage = usage or BufferUsage(program)
        self._add = self.tracker.advance().add if add is None else add
        self._written = self._usage.writes > 0
        # Buffers in HBM and index tensors are never released.
        on_chip = np.array([buffer.on_chip for buffer in program.buffers], bool)
        self._last = np.where(on_chip & ~self._usage.is_index, self._usage.last_access, NEVER)
        self._by_last = np.argsort(self._last, kind="stable")
        self._ends = self._last[self._by_last]
        self._released = 0  # buffers of `_by_last` are released up to here: those whose last access is before this op
        self._released_before = 0
        with np.errstate(all="ignore"):
            self._prepare()
        self._allocation = allocation
        # Of a program that was laid out along its path no address is in a register any more; what the program does with
        # the variable of a loop, which nothing sets here, comes to nothing.
        self.registers.values.update(dict.fromkeys(range(len(program.registers)), 0))
        self._at_power_up = self.registers.copy()
        # The tensors bound now are placed ones: those that share memory stand for the least of them.
        least: dict[int, int] = {}
        self._shared = {n: least.setdefault(id(bound.flat), n) for n, bound in sorted(self._bounds.items())}

    def advance(self, stop: int) -> None:
        """Execute the ops before `stop`."""
        with np.errstate(all="ignore"):
            while self.done < stop:
                released = self._released
                self._mark_released()
                self._release(self._by_last[released : self._released].tolist())
                end = min(stop, self.done + _PIECE)
                steps: list[PlannedStep] = []
                for index in range(self.done, end):
                    self.plan(index, self._add, steps)
                self.perform(steps)
                self.done = end

    def _mark_released(self) -> None:
        self._released_before = self.done
        self._released = int(np.searchsorted(self._ends, self.done))

    def holds(self, buffer: int) -> bool:
        """Whether a buffer that was accessed still has its memory."""
        return buffer in self._shared or bool(self._last[buffer] >= self._released_before)

    def values(self, view: View | NkiTensor) -> Array:
        """Return the values of a view now, in its host dtype: a copy."""
        with np.errstate(all="ignore"):
            values = self.read(view)
        dtype = view._dtype if isinstance(view, NkiTensor) else view.type.dtype
        return values.view(np.dtype(dtype.host)) if dtype.kind == "packed" else values

    def floats(self, view: View, use: Accessor) -> Array:
        """Return the floats of an operand of an op now, float32 in its shape: memory of the executor, or a copy."""
        return self.checked_floats(view, use)[0]

    def checked_floats(self, view: View, use: Accessor) -> tuple[Array, Array | None]:
        """Return the same, and which rows are in bounds (None: all)."""
        bound = self.bound(view.buffer)
        part, rows = self._resolver.read(view, bound, use)
        return (part if bound.kind == SHADOW else to_shadow(np.ascontiguousarray(part), view.type.dtype)), rows

    def at_start(self, view: View | NkiTensor) -> Array:
        """Return the values of a view before the first op."""
        if self._fresh is None:
            self._fresh = SteppingExecutor(self.program, self.arrays, self._allocation, self._usage, self._add)
        values = self._fresh.values(view)
        self._fresh._release(list(self._fresh._blocks))
        return values

    _fresh: SteppingExecutor | None = None

    # -- states ------------------------------------------------------------------------------------------------------

    def state(self, before: State | None, written: Iterable[int]) -> State:
        """Return the present state; `before` is an earlier one, since which only the buffers `written` changed."""
        changed = {self._unit_of(number) for number in written if number in self._bounds}
        units: dict[int, tuple[bytes, ...]] = {}
        for number, flat in self._units().items():
            former = None if before is None else before.units.get(number)
            units[number] = blocks_of(flat, former) if former is None or number in changed else former
        return State(self.done, units, self.registers.copy())

    def restore(self, state: State | None) -> None:
        """Go back to a state, or to the beginning; all later changes are undone."""
        self._planned.clear()
        units = {} if state is None else state.units
        for number, bound in list(self._bounds.items()):
            if not self._usage.writes[number] or self._unit_of(number) in units:
                continue
            if number in self._blocks:
                self._release([number])
            elif number in self._shared:
                bound.flat.view(np.uint8).fill(0xFF)
            else:
                del self._bounds[number]
        for number, blocks in units.items():
            flat = self.bound(self.program.buffers[number]).flat.view(np.uint8)
            for place, block in enumerate(blocks):
                flat[place * BLOCK : place * BLOCK + len(block)] = np.frombuffer(block, np.uint8)
        self.registers.restore(self._at_power_up if state is None else state.registers)
        self.done = 0 if state is None else state.position
        self.failed = -1
        self._mark_released()

    def _unit_of(self, number: int) -> int:
        return self._shared.get(number, number)

    def _units(self) -> dict[int, Array]:
        """Return the memories that earlier ops have written and later ones may read, by their least buffer."""
        out: dict[int, Array] = {}
        for number, bound in self._bounds.items():
            dead = number not in self._shared and self._last[number] < self.done
            if not dead and self._usage.first_write[number] < self.done:
                out[self._unit_of(number)] = bound.flat
        return dict(sorted(out.items()))


def blocks_of(flat: Array, former: tuple[bytes, ...] | None) -> tuple[bytes, ...]:
    """Return a memory in blocks; those that equal the former ones are the former ones."""
    data = flat.view(np.uint8)
    blocks = [data[start : start + BLOCK].tobytes() for start in range(0, len(data), BLOCK)]
    if former is None:
        return tuple(blocks)
    return tuple(old if old == new else new for old, new in zip(former, blocks, strict=True))
