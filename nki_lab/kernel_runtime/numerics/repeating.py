"""An executor that keeps the calls it planned, and makes them again for the arguments of another run.

Memory stays bound from run to run: tiles, and arguments that are small or converted, which each run copies into their
place. Large arguments and results that need no conversion lie in the caller's memory; each run puts its arrays into the
calls.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np

from nki_lab.isa.dtype import BOOL, F32, TF32
from nki_lab.kernel_runtime.coverage import Added, Tracker
from nki_lab.kernel_runtime.footprint import distinct
from nki_lab.kernel_runtime.ir import Program, access_columns
from nki_lab.kernel_runtime.numerics.executor import Executor, is_whole
from nki_lab.kernel_runtime.numerics.pool import Bound
from nki_lab.kernel_runtime.numerics.program_plan import ProgramPlan
from nki_lab.kernel_runtime.numerics.rounding import Array
from nki_lab.kernel_runtime.numerics.slab import Submatrix
from nki_lab.kernel_runtime.numerics.slab_product import Root, grid_of, multiply
from nki_lab.kernel_runtime.numerics.storage import (
    BYTES,
    NATIVE,
    SHADOW,
    fresh,
    host_values,
    of_array,
    poison,
    refill,
    strided,
)
from nki_lab.kernel_runtime.numerics.variant_plan import PlannedStep, State, call_position, ndarray
from nki_lab.kernel_runtime.tensor import Buffer, NkiTensor

REPEATED: Final = 32_768
"""Instructions of a program whose calls are kept, at most: a kept call takes up to a kilobyte."""


SMALL: Final = 32 * 2**10
"""Bytes of arguments and results that are copied in any case: that takes less time than to put them into the calls."""


def can_repeat(program: Program) -> bool:
    """Check that the calls of a program depend on nothing but memory: no registers, no exchange between cores."""
    simple = not (program.registers or program.regions or program.partners or program.arrivals)
    return simple and not program.observed and 0 < len(program) <= REPEATED and program.options.memory != "physical"


class _Form(NamedTuple):
    """The form of an array in the caller's memory: what `ndarray` makes it of, offset and strides in bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int
    strides: tuple[int, ...]


@dataclass(slots=True)
class _Places:
    """The places in kept calls where a buffer in the caller's memory belongs.

    `operands` are namespaces of operands, as dictionaries with a name; `arguments` positions of steps and of arguments
    in their calls; `bindings` lists of bindings with a position.
    """

    operands: list[tuple[dict[str, Any], str, _Form]] = field(default_factory=list)
    arguments: list[tuple[int, int, _Form]] = field(default_factory=list)
    bindings: list[tuple[list[Bound], int, int]] = field(default_factory=list)


@dataclass(slots=True)
class _OuterSlab:
    """A slab with operands, or with its matrix, in the caller's memory: its kept call is at `at`.

    `roots` lacks those operands; `target` is where the matrix belongs.
    """

    at: int
    index: int
    call: tuple[Any, ...]
    roots: dict[int, Root]
    outer: list[int]
    target: Submatrix | None


_NOTHING: Final[PlannedStep] = (-1, (id, (None,)))
_NOWHERE: Final = Bound(SHADOW, np.zeros(0, np.float32), 0, 1, 1)


class RepeatableExecutor(Executor):
    """An executor of one complete program that can run `again` on other arguments of the same shapes and dtypes.

    After each run come `read` and `hand_out`, and then `rest`, which lets go of all memory of the caller's.
    """

    _chunk = REPEATED

    def __init__(self, program: Program, arrays: Mapping[int, Array], tracker: Tracker) -> None:
        super().__init__(program, arrays, tracker)
        self._steps: list[PlannedStep] = []
        self._outer: set[int] = set()  # buffers in the caller's memory, of inputs and results
        self._elided: list[tuple[int, int, int, int]] = []  # tiles that are parts of outer inputs
        self._root_of: dict[int, int] = {}  # the outer buffer of each of both
        self._outer_rows: set[int] = set()
        self._places: dict[int, _Places] = {}  # by outer buffer
        self._outer_slabs: list[_OuterSlab] = []
        self._filled: list[tuple[Buffer, Bound]] = []  # arguments with memory of their own
        self._late: list[int] = []  # buffers that only readers asked for
        self._sums_by_tile = program.options.matmul_order == "tile"
        self._stale: list[Bound] = []  # placed memory that is read before it is written
        self._results: dict[int, tuple[NkiTensor, Bound, Array]] = {}  # by id: results that are copied
        self._leaves_state = any(variant.instruction.keeps_state is not None for variant in program.variants)

    @property
    def nbytes(self) -> int:
        """The bytes that are held between runs, but for small tiles."""
        own = sum(bound.flat.nbytes for _, bound in self._filled if bound.flat.base is None)
        return self._pool.nbytes + own + 1024 * len(self._steps)

    def again(self, arrays: Mapping[int, Array]) -> None:
        """Run the program on other arguments, by buffer id and in the host dtypes of the first ones."""
        start = time.perf_counter()
        self.arrays = dict(arrays)
        self.done, self.failed, self.stopped = 0, -1, -1
        self._advance.renew()
        self.diagnostics = []
        if self._late:
            self._release(self._late)
            self._late.clear()
        if self._leaves_state:  # else nothing writes registers of engines
            self.registers.clear()
        with np.errstate(all="ignore"):
            for bound in self._stale:
                bound.flat.fill(0xFF)
            for buffer, bound in self._filled:
                values = self._argument(buffer.id)
                assert values is not None
                refill(bound, buffer, values)
            if self._outer or self._outer_slabs:  # slabs read narrow arguments where they are
                self._bind_outer()
                self._put_outer()
            if self._advance.monitor.is_followed:
                with self._threads():
                    self.perform_all(self._steps)
            elif self._sums_by_tile:
                with self._threads():
                    self.perform(self._steps)
            else:
                self.perform(self._steps)
        self.done = len(self.program)
        self.seconds = time.perf_counter() - start

    def rest(self) -> None:
        """Let go of the caller's memory until the next run."""
        self.arrays.clear()
        self._advance.rest()
        self._planned.clear()
        for places in self._places.values():
            for space, name, _ in places.operands:
                space[name] = None
            for at, position, _ in places.arguments:
                self._put(at, position, None)
            for bounds, position, _ in places.bindings:
                bounds[position] = _NOWHERE
        for slab in self._outer_slabs:
            self._steps[slab.at] = _NOTHING
        for number in self._root_of:
            self._bounds.pop(number, None)
            block = self._blocks.pop(number, None)
            if block is not None:  # a result that nobody took
                self._pool.forget(block)

    # -- memory ------------------------------------------------------------------------------------------------------

    def hand_out(self, tensor: NkiTensor) -> Array:
        """`read` a result; one in the caller's memory is that memory."""
        buffer = tensor._buffer
        if buffer.id in self._outer:
            return super().hand_out(tensor)
        _, bound, part = self._results.get(id(tensor)) or self._part(tensor)
        if self._bounds.get(buffer.id) is not bound:
            return self.read(tensor)
        return host_values(bound, tensor._dtype, part, on_grid=self._precise)

    def _part(self, tensor: NkiTensor) -> tuple[NkiTensor, Bound, Array]:
        """Return a result with its place in memory, where it has one of its own that stays."""
        known = (tensor, _NOWHERE, _NOWHERE.flat)
        buffer = tensor._buffer
        if tensor._indirect is None and (tensor._dtype is buffer.dtype or self._kinds.get(buffer.id) == BYTES):
            bound = self._bounds.get(buffer.id)
            if bound is not None:
                known = (tensor, bound, strided(bound, tensor._dtype, tensor._offset, tensor._shape, tensor._strides))
        self._results[id(tensor)] = known
        return known

    def _bind(self, buffer: Buffer, index: int = -1, steps: list[PlannedStep] | None = None) -> Bound:
        values = self._argument(buffer.id)
        bound = super()._bind(buffer, index, steps)
        if values is None:
            if steps is None:
                self._late.append(buffer.id)
        elif buffer.id in self.arrays or (self._written is not None and self._written[buffer.id]):
            if np.may_share_memory(bound.flat, values):
                bound = self._bounds[buffer.id] = Bound(bound.kind, bound.flat.copy(), 0, bound.row, bound.pitch)
            self._filled.append((buffer, bound))
        return bound

    def _take_over(self, plan: ProgramPlan) -> None:
        """Decide what lies in the caller's memory."""
        placed = list(self._bounds.items())
        if any(number in self.tracker.suspects for number, _ in placed):
            self._stale = list({id(bound.flat): bound for _, bound in placed}.values())
        self._adopt(plan)
        self._choose_outer(plan)
        self._bind_outer()
        super()._take_over(plan)

    def _choose_outer(self, plan: ProgramPlan) -> None:
        program = self.program
        arguments = {item.id for item in program.inputs if self._lies_outside(item, plan)}
        results = {
            item._buffer.id for item in program.outputs if item._buffer.id not in self.arrays and self._can_leave(item)
        }
        self._outer = arguments | results
        self._elided = [(tile, *source) for tile, source in plan.elided.items() if source.root in self._outer]
        self._root_of = {number: number for number in self._outer} | {tile: root for tile, root, *_ in self._elided}
        self._places = {number: _Places() for number in self._outer}
        touched = np.zeros(len(program.buffers), bool)
        touched[list(self._root_of)] = True
        op, _, buffer, _ = access_columns(program)
        self._outer_rows = set(distinct(op[touched[buffer]]).tolist())
        self._outer_rows.update(
            op
            for op, places in plan.propagated.items()
            if any(place.buffer in self._outer for place in places.values())
        )

    def _lies_outside(self, buffer: Buffer, plan: ProgramPlan) -> bool:
        """Whether an argument can be used as it is."""
        converted = buffer.dtype is TF32 or (self._kind(buffer) == SHADOW and buffer.dtype is not F32)
        return buffer.nbytes > SMALL and not converted and not plan.written[buffer.id] and buffer.id not in plan.narrow

    def _can_leave(self, tensor: NkiTensor) -> bool:
        """Whether the memory of a result can become the caller's."""
        buffer, kind = tensor._buffer, self._kind(tensor._buffer)
        as_it_is = buffer.dtype is F32 if kind == SHADOW else kind == NATIVE and buffer.dtype is not BOOL
        return (
            as_it_is
            and buffer.nbytes > SMALL
            and not buffer.on_chip
            and is_whole(tensor)
            and buffer.kind not in ("input", "const")
        )

    def _bind_outer(self) -> None:
        for number in self._outer:
            buffer = self.program.buffers[number]
            values = self._argument(number)
            if values is not None:
                self._bounds[number] = of_array(buffer, values, self._kind(buffer), self._pool)
                continue
            # Kept calls of earlier ops write to blocks that have been a tile's.
            self._bounds[number], self._blocks[number] = fresh(self._pool, buffer, self._kind(buffer), untouched=True)
            if number in self.tracker.suspects:
                poison(self._bounds[number], buffer.dtype)
        for tile, root, offset, pitch in self._elided:
            source = self._bounds[root]
            row = self.program.buffers[tile].row_elements
            self._bounds[tile] = Bound(SHADOW, source.flat, source.base + offset, row, pitch)

    # -- calls -------------------------------------------------------------------------------------------------------

    def plan(self, index: int, add: Mapping[int, Added], steps: list[PlannedStep], state: State | None = None) -> None:
        """Add the calls that execute an op, and note those that touch the caller's memory."""
        at = len(steps)
        super().plan(index, add, steps, state)
        if index not in self._outer_rows or len(steps) == at:  # a barrier makes no calls
            return
        while steps[at][1][0] is poison:  # of a tile that the op is the first to touch
            at += 1
        # Ops on the same memory share their calls; here each has its own.
        function, arguments = steps[at][1]
        if isinstance(arguments[0], SimpleNamespace):
            arguments = (*[SimpleNamespace(**vars(space)) for space in arguments[:2]], *arguments[2:])
            steps[at] = (index, (function, arguments))
        variant, elsewhere = self.program.variant_of(index), self._propagated.get(index, {})
        for position, (view, name, is_out) in enumerate(
            zip(self.program.views_of(index), variant.names, variant.outs, strict=True)
        ):
            place = elsewhere.get(position)
            root = self._root_of.get(view.buffer.id if place is None else place.buffer)
            if root is None:
                continue
            places = self._places[root]
            if isinstance(arguments[0], SimpleNamespace):
                space: dict[str, Any] = arguments[0 if is_out else 1].__dict__
                places.operands.append((space, name, self._form(root, space[name])))
            elif isinstance(arguments[0], list):  # of the operands' views: a general step
                places.bindings.append((arguments[1], position, view.buffer.id))
            else:
                number = call_position(function, is_out=is_out)
                places.arguments.append((at, number, self._form(root, arguments[number])))

    def _keeps_calls(self, index: int) -> bool:
        """Calls on the caller's memory are given its arrays in each run."""
        return index in self._outer_rows

    def _form(self, root: int, array: Array) -> _Form:
        start = self._bounds[root].flat.__array_interface__["data"][0]
        return _Form(array.shape, array.dtype, array.__array_interface__["data"][0] - start, array.strides)

    def perform_all(self, steps: list[PlannedStep]) -> None:
        """Make the calls, and keep them."""
        if steps is not self._steps:
            self._steps = steps
            self._outer_slabs = [*self._found_slabs()]
        super().perform_all(steps)

    def _found_slabs(self) -> Iterator[_OuterSlab]:
        for at, (index, (function, arguments)) in enumerate(self._steps):
            if function is multiply:
                roots = arguments[2]
                outer = [number for number in roots if number in self._outer or number in self._narrow]
                target = self._evacuation.in_place.get(index)
                target = target if target is not None and target.root in self._outer else None
                if outer or target is not None:
                    slab, levels, _, grid, *others = arguments
                    if target is not None:
                        grid = None
                        for cell in slab.cells:  # which nothing else reads
                            for tile in (cell, *self._evacuation.carriers[cell]):
                                self._bounds.pop(tile, None)
                    inner = {number: root for number, root in roots.items() if number not in outer}
                    yield _OuterSlab(at, index, (slab, levels, grid, *others), inner, outer, target)

    def _put_outer(self) -> None:
        """Put the arrays of a run into the kept calls."""
        for number, places in self._places.items():
            flat = self._bounds[number].flat
            for space, name, (shape, dtype, offset, strides) in places.operands:
                space[name] = ndarray(shape, dtype, flat, offset, strides)
            for at, position, (shape, dtype, offset, strides) in places.arguments:
                self._put(at, position, ndarray(shape, dtype, flat, offset, strides))
            for bounds, position, buffer in places.bindings:
                bounds[position] = self._bounds[buffer]
        for item in self._outer_slabs:
            slab, levels, grid, *others = item.call
            roots = item.roots | {number: self._root(number) for number in item.outer}
            if item.target is not None:
                bound = self._bounds[item.target.root]
                grid = grid_of(slab, bound.flat, bound.base + item.target.offset, item.target.pitch)
            self._steps[item.at] = (item.index, (multiply, (slab, levels, roots, grid, *others)))

    def _put(self, at: int, position: int, argument: Array | None) -> None:
        index, (function, arguments) = self._steps[at]
        self._steps[at] = (index, (function, (*arguments[:position], argument, *arguments[position + 1 :])))
