"""An executor that can stop after any instruction, say what memory holds then, and go back to where it was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.dtype import BOOL
from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.ir import Program, View
from nki_lab.kernel_runtime.numerics.buffer_usage import BufferUsage
from nki_lab.kernel_runtime.numerics.executor import Executor
from nki_lab.kernel_runtime.numerics.indirect import Inspection
from nki_lab.kernel_runtime.numerics.storage import host_values, window
from nki_lab.kernel_runtime.numerics.variant_plan import Registers, Step
from nki_lab.kernel_runtime.tensor import NkiTensor

Array = NDArray[Any]

_PIECE: Final = 64  # ops executed between two looks at which tiles are dead
_NEVER: Final = np.iinfo(np.int64).max

BLOCK: Final = 1 << 16
"""Bytes of a block: what two states have in common is kept once, block by block."""


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """All that an executor held after `position` instructions, except what no instruction writes.

    `units` are memories by the least buffer that lies in them, cut into blocks; the others are as at the beginning.
    """

    position: int
    units: Mapping[int, tuple[bytes, ...]]
    registers: Registers


class Facts(NamedTuple):
    """What is known of a program: its accesses, and for each accumulating op whether it adds to what is there."""

    usage: BufferUsage
    add: Mapping[int, Any]


class SteppingExecutor(Executor):
    """Executes a complete program op by op, in program order: nothing is elided or grouped.

    A tile's memory is used again some time after its last access; before that `values` can be asked. The values are
    those of a run with `matmul_order="tile"`, bit for bit.
    """

    def __init__(
        self, program: Program, arrays: Mapping[int, Array], allocation: Allocation | None, facts: Facts | None = None
    ) -> None:
        super().__init__(program, arrays, None, allocation)
        self._facts = facts or Facts(BufferUsage(program), self.tracker.advance().add)
        self._written = self._facts.usage.writes > 0
        self._last = np.where(_stays(program), _NEVER, self._facts.usage.last_access)
        self._by_last = np.argsort(self._last, kind="stable")
        self._dead = 0  # how many buffers of `_by_last` are given back
        self._buried = 0  # those that no op from here on accesses
        with np.errstate(all="ignore"):
            self._prepare()
        self._allocation = allocation
        # Of a program that was laid out along its path no address is in a register any more; what the program does with
        # the variable of a loop, which nothing sets here, comes to nothing.
        self.registers.values.update(dict.fromkeys(range(len(program.registers)), 0))
        self._at_power_up = self.registers.copy()
        # What is bound now are placed tensors: those that share memory stand for the least of them.
        least: dict[int, int] = {}
        self._shared = {n: least.setdefault(id(bound.flat), n) for n, bound in sorted(self._bounds.items())}

    def advance(self, stop: int) -> None:
        """Execute the ops before `stop`."""
        with np.errstate(all="ignore"):
            while self.done < stop:
                self._bury()
                end = min(stop, self.done + _PIECE)
                self._run_piece(end)
                self.done = end

    def holds(self, buffer: int) -> bool:
        """Whether a buffer that was accessed still has its memory."""
        return buffer in self._shared or bool(self._last[buffer] >= self._buried)

    def values(self, view: View | NkiTensor) -> Array:
        """What a view shows now, in its host dtype: a copy."""
        with np.errstate(all="ignore"):
            if isinstance(view, NkiTensor):
                values = self.read(view)
            else:
                bound = self.bound(view.buffer)
                if view.indirect is None:
                    part = window(bound, view.type.dtype, view.offset, view.type.shape, view.type.strides)
                else:
                    part, _ = self._resolver.read(view, bound, Inspection({"tensor": view.type}))
                values = host_values(bound, view.type.dtype, part, on_grid=self.program.options.precise)
        dtype = view._dtype if isinstance(view, NkiTensor) else view.type.dtype
        return values.view(np.dtype(dtype.host)) if dtype.kind == "packed" or dtype is BOOL else values

    def at_start(self, view: View | NkiTensor) -> Array:
        """What a view shows before the first op."""
        if self._fresh is None:
            self._fresh = SteppingExecutor(self.program, self.arrays, self._allocation, self._facts)
        values = self._fresh.values(view)
        self._fresh._release(list(self._fresh._blocks))
        return values

    _fresh: SteppingExecutor | None = None

    # -- states ------------------------------------------------------------------------------------------------------

    def state(self, before: State | None, written: Iterable[int]) -> State:
        """What is held now. `before` is an earlier state, since which nothing but the buffers `written` changed."""
        changed = {self._unit_of(number) for number in written if number in self._bounds}
        units: dict[int, tuple[bytes, ...]] = {}
        for number, flat in self._units().items():
            former = None if before is None else before.units.get(number)
            if former is None or number in changed:
                units[number] = _blocks(flat, former)
            else:
                units[number] = former
        return State(self.done, units, self.registers.copy())

    def restore(self, state: State | None) -> None:
        """Go back to a state, or to the beginning. What changed meanwhile is undone."""
        self._planned.clear()
        units = {} if state is None else state.units
        for number, bound in list(self._bounds.items()):
            if not self._written[number] or self._unit_of(number) in units:
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
        self._buried = self.done
        self._dead = int(np.searchsorted(self._last[self._by_last], self.done))

    # -- memory ------------------------------------------------------------------------------------------------------

    def _bury(self) -> None:
        """Give back the tiles that no op from here on accesses."""
        self._buried = self.done
        order, last = self._by_last, self._last
        while self._dead < len(order) and last[order[self._dead]] < self.done:
            number = int(order[self._dead])
            self._dead += 1
            if number in self._blocks:
                self._release([number])

    def _run_piece(self, end: int) -> None:
        steps: list[tuple[int, Step]] = []
        for index in range(self.done, end):
            self.plan(index, self._facts.add, steps)
        self.perform(steps)

    def _unit_of(self, number: int) -> int:
        return self._shared.get(number, number)

    def _units(self) -> dict[int, Array]:
        """The memories that some op before now has written and some op from here on may read, by their least buffer."""
        out: dict[int, Array] = {}
        for number, bound in self._bounds.items():
            dead = number not in self._shared and self._last[number] < self.done
            if not dead and self._facts.usage.first_write[number] < self.done:
                out[self._unit_of(number)] = bound.flat
        return dict(sorted(out.items()))


def _stays(program: Program) -> NDArray[np.bool_]:
    """The buffers that are never given back: those in HBM, and index tensors, which are read when views are."""
    out = np.array([not buffer.on_chip for buffer in program.buffers], bool)
    for view in program.views:
        if view.indirect is not None and isinstance(view.indirect.index, NkiTensor):
            out[view.indirect.index._buffer.id] = True
    return out


def _blocks(flat: Array, former: tuple[bytes, ...] | None) -> tuple[bytes, ...]:
    """A memory in blocks; those that equal the former ones are the former ones."""
    data = flat.view(np.uint8)
    blocks = [data[start : start + BLOCK].tobytes() for start in range(0, len(data), BLOCK)]
    if former is None:
        return tuple(blocks)
    return tuple(old if old == new else new for old, new in zip(former, blocks, strict=True))
