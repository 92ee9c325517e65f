"""The walker for values: plans ops into calls on bound arrays, runs them, and hands values out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.diagnostic import Diagnostic, NkiError, diagnose, error_of
from nki_lab.isa.dtype import BOOL, F32
from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.coverage import Tracker
from nki_lab.kernel_runtime.ir import Program, Variant
from nki_lab.kernel_runtime.issue.source_location import placed
from nki_lab.kernel_runtime.numerics import slab as slabs
from nki_lab.kernel_runtime.numerics.buffer_usage import BufferUsage
from nki_lab.kernel_runtime.numerics.exchange import collect, deliver
from nki_lab.kernel_runtime.numerics.indirect import Inspection, Resolver, repeated, strayed
from nki_lab.kernel_runtime.numerics.loops import Interval, Loops
from nki_lab.kernel_runtime.numerics.physical import PhysicalMemory
from nki_lab.kernel_runtime.numerics.placed import PlacedMemory
from nki_lab.kernel_runtime.numerics.pool import Block, Pool
from nki_lab.kernel_runtime.numerics.program_plan import ProgramPlan, dying, kept, plan_program
from nki_lab.kernel_runtime.numerics.rounding import Scratch
from nki_lab.kernel_runtime.numerics.storage import (
    BYTES,
    NATIVE,
    SHADOW,
    Bound,
    fresh,
    host_values,
    kind_of,
    of_array,
    poison,
    to_bytes,
    window,
)
from nki_lab.kernel_runtime.numerics.variant_plan import Registers, State, Step, VariantPlan
from nki_lab.kernel_runtime.path import Path, PathLog
from nki_lab.kernel_runtime.tensor import Buffer, NkiTensor, row_major

Array = NDArray[Any]

_REMEMBERED: Final = 4096  # planned ops kept for when the same op comes again
_CHUNK: Final = 16_384  # ops planned at a time: plans hold a few hundred bytes an op


class Executor:
    """Executes a program. `arrays` are the kernel's arguments by buffer id, in their host dtypes.

    A program that is complete runs once, with `run(final=True)`: then loads of unwritten inputs are elided, matmuls
    are grouped into slabs, and a tile's memory is used again after its last access. Otherwise `run(final=False)`
    executes what has been issued so far, as often as something observes values.
    `seconds` is the time spent, planning and conversions included.

    `path` is the way that it took through the program's device loops, up to now.

    With an `allocation` every on-chip tensor lies at its address and tensors that overlap share their bytes; then ops
    run one by one.
    """

    def __init__(
        self,
        program: Program,
        arrays: Mapping[int, Array],
        tracker: Tracker | None = None,
        allocation: Allocation | None = None,
    ) -> None:
        self.program = program
        self.arrays = dict(arrays)
        self.tracker = tracker or Tracker(program)
        self.diagnostics: list[Diagnostic] = []
        self.seconds = 0.0
        self.slabs: list[slabs.Slab] = []
        self.elided = 0
        self.done = 0
        self.failed = -1  # the op whose values could not be computed
        self._bounds: dict[int, Bound] = {}
        self._blocks: dict[int, Block] = {}
        self._kinds: dict[int, int] = {}
        self._variant_plans: dict[Any, VariantPlan] = {}
        self.registers = Registers(program.arch.pmax)
        self._states = (State(self.registers, False), State(self.registers, True))
        self._scratch = Scratch()
        self._pool = Pool()
        self._placed = PlacedMemory()
        self._physical = None if allocation is None else PhysicalMemory(program.arch, allocation)
        self._resolver = Resolver(self.bound, self.registers.values, tolerant=program.options.oob == "warn")
        self._loops: Loops | None = None
        # Steps of ops that come again on the same memory, as those of a loop that is unrolled do.
        self._planned: dict[Any, list[Step]] = {}
        self._views_seen = 0
        self._buffers_seen = 0
        self._poison_all = True

    def run(self, *, final: bool) -> None:
        """Execute the ops issued and not yet executed."""
        start = time.perf_counter()
        coverage = self.tracker.finish() if final else self.tracker.advance()
        with np.errstate(all="ignore"):
            self._prepare()
            plan: ProgramPlan | None = None
            ends: Mapping[int, list[int]] = {}
            if self._loops is None and self.program.registers and not self.program.is_laid_out:
                self._loops = Loops(self.program, self.registers, self.bound, self.plan, self.perform,
                                    lambda: self.failed)  # fmt: skip
            if final and self.done == 0 and len(self.program) and self._physical is None:
                if self._loops is None:
                    plan = plan_program(self.program, coverage.add, self._shadowed())
                    self._take_over(plan)
                else:
                    ends = dying(self.program, BufferUsage(self.program), kept(self.program))
            self._execute(coverage.add, plan, ends)
        self.seconds += time.perf_counter() - start

    def read(self, tensor: NkiTensor) -> Array:
        """The values of a view after everything executed so far, in its host dtype: a copy."""
        buffer = tensor._buffer
        if tensor._indirect is not None:
            number = buffer.owner.view_of(tensor)
            self._prepare()
            view = self.program.views[number]
            part, _ = self._resolver.read(view, self.bound(buffer), Inspection({"tensor": view.type}))
            return host_values(self.bound(buffer), tensor._dtype, part, on_grid=self.program.options.precise)
        if tensor._dtype is not buffer.dtype and self._kinds.get(buffer.id) != BYTES:
            self._make_bytes(buffer)
        part = window(self.bound(buffer), tensor._dtype, tensor._offset, tensor._shape, tensor._strides)
        values = host_values(self.bound(buffer), tensor._dtype, part, on_grid=self.program.options.precise)
        return values.view(np.bool_) if tensor._dtype is BOOL and values.dtype != np.bool_ else values

    def hand_out(self, tensor: NkiTensor) -> Array:
        """`read` of a result, with which the executor has done: where it can be, its memory and no copy."""
        buffer = tensor._buffer
        block, bound = self._blocks.get(buffer.id), self._bounds.get(buffer.id)
        plain = buffer.dtype is F32 or (bound is not None and bound.kind == NATIVE and buffer.dtype is not BOOL)
        if block is None or bound is None or bound.kind == BYTES or not plain or buffer.on_chip or not is_whole(tensor):
            return self.read(tensor)
        del self._blocks[buffer.id]
        self._pool.forget(block)
        return bound.flat.reshape(buffer.shape)

    def close(self) -> None:
        """Give all memory back; nothing can be run or read any more."""
        self._bounds.clear()
        self._blocks.clear()
        self._planned.clear()
        self._pool.close()

    @property
    def path(self) -> Path:
        """The way through the device loops, as far as it has been gone."""
        return (PathLog() if self._loops is None else self._loops.log).path(failed=self.failed >= 0)

    def bound(self, buffer: Buffer) -> Bound:
        """The storage of a buffer, made at its first use."""
        found = self._bounds.get(buffer.id)
        if found is None:
            found = self._bind(buffer)
        return found

    # -- binding ---------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Look at views and buffers that are new: some buffers must be held as bytes."""
        program = self.program
        for view in program.views[self._views_seen :]:
            if view.type.dtype is not view.buffer.dtype and self._kinds.get(view.buffer.id) != BYTES:
                self._make_bytes(view.buffer)
        self._views_seen = len(program.views)
        shared: dict[int, Buffer] = {}
        for buffer in program.buffers[self._buffers_seen :]:
            bound = None if self._physical is None else self._physical.bind(buffer)
            if bound is not None:
                self._kinds[buffer.id] = BYTES
                self._bounds[buffer.id] = bound
            elif buffer.address is not None and buffer.on_chip:
                shared.update((item.id, item) for item in self._placed.add(buffer))
        for item in shared.values():
            self._share(item)
        self._buffers_seen = len(program.buffers)

    def _make_bytes(self, buffer: Buffer) -> None:
        self._kinds[buffer.id] = BYTES
        bound = self._bounds.get(buffer.id)
        if bound is not None and bound.kind != BYTES:
            self._bounds[buffer.id] = to_bytes(bound, buffer, on_grid=self.program.options.precise)

    def _share(self, buffer: Buffer) -> None:
        """Move a placed buffer into the memory that it shares with its neighbours."""
        self._kinds[buffer.id] = BYTES
        former = self._bounds.get(buffer.id)
        bound = self._placed.bind(buffer)
        if former is not None and former.flat is not bound.flat:
            precise = self.program.options.precise
            kept = former if former.kind == BYTES else to_bytes(former, buffer, on_grid=precise)
            source = window(kept, buffer.dtype, 0, (buffer.partitions, buffer.row_elements), (buffer.row_elements, 1))
            target = window(bound, buffer.dtype, 0, (buffer.partitions, buffer.row_elements), (buffer.row_elements, 1))
            np.copyto(target, source)
        self._bounds[buffer.id] = bound

    def _bind(self, buffer: Buffer, index: int = -1, steps: list[tuple[int, Step]] | None = None) -> Bound:
        """Make a buffer's storage. What must happen to it when op `index` runs, and not now, is added to `steps`."""
        kind = NATIVE if buffer.id in self._stored else self._kinds.get(buffer.id, kind_of(buffer))
        values = self.arrays.get(buffer.id)
        if values is None:
            values = self.program.constants.get(buffer.id)
        if values is not None:
            bound = of_array(buffer, values, kind, self._pool)
            if bound.flat.base is not None and np.shares_memory(bound.flat, values) and self._is_written(buffer):
                bound = Bound(bound.kind, bound.flat.copy(), 0, bound.row, bound.pitch)
        else:
            bound, block = fresh(self._pool, buffer, kind)
            self._blocks[buffer.id] = block
            if self._poison_all or buffer.id in self.tracker.suspects:
                if steps is None:
                    poison(bound, buffer.dtype)
                else:
                    # The block may be another tile's until then.
                    steps.append((index, (poison, (bound, buffer.dtype))))
        self._bounds[buffer.id] = bound
        return bound

    def _is_written(self, buffer: Buffer) -> bool:
        return self._written is None or bool(self._written[buffer.id])

    _written: Any = None
    _stored: frozenset[int] = frozenset()
    _narrow: frozenset[int] = frozenset()

    # -- the whole program at once -----------------------------------------------------------------------------------

    def _take_over(self, plan: ProgramPlan) -> None:
        """Bind what a complete program allows to be bound in another way."""
        self._written = plan.written
        self._stored = plan.stored
        self._poison_all = False
        self._bind_windows(plan.windows)
        self.slabs = list(plan.slabs)
        self.elided = plan.elided
        self._narrow = plan.narrow

    def _shadowed(self) -> NDArray[np.bool_]:
        kinds = self._kinds
        return np.array([kinds.get(item.id, kind_of(item)) == SHADOW for item in self.program.buffers], bool)

    def _bind_windows(self, windows: Mapping[int, slabs.Window]) -> None:
        for tile, window_of in windows.items():
            source = self.bound(self.program.buffers[window_of.root])
            row = self.program.buffers[tile].row_elements
            self._bounds[tile] = Bound(SHADOW, source.flat, source.base + window_of.base, row, window_of.pitch)

    def _slab_step(self, found: slabs.Slab) -> Step:
        """Bind the slab's tiles to windows of one matrix and give the call that fills it."""
        m, n = found.shape
        grid = self._pool.take(4 * m * n).memory[: 4 * m * n].view(np.float32)
        for buffer, (row, column) in found.cells.items():
            self._bounds[buffer] = Bound(SHADOW, grid, row * n + column, found.n, n)
        roots = {place.root for place in (*found.left, *found.right)}
        sources = {root: self._root(root) for root in roots}
        free = self.program.options.matmul_order == "free"
        workspace = np.zeros(0, np.float32)
        if any(isinstance(source, slabs.Narrow) for source in sources.values()):
            size = slabs.workspace_size(found, free=free)
            block = self._pool.take(4 * size)
            workspace = block.memory[: 4 * size].view(np.float32)
            self._pool.give(block)  # to what comes after this step
        return (_multiply, (found, sources, grid.reshape(m, n), workspace, free))

    def _root(self, number: int) -> Array | slabs.Narrow:
        """What a slab reads: a shadow, or an argument as the caller gave it."""
        buffer = self.program.buffers[number]
        if number not in self._narrow:
            return self.bound(buffer).flat
        values = self.arrays.get(number)
        if values is None:
            values = self.program.constants[number]
        return slabs.Narrow(np.ascontiguousarray(values).reshape(-1), buffer.dtype)

    # -- execution ---------------------------------------------------------------------------------------------------

    def _execute(self, add: Mapping[int, Any], plan: ProgramPlan | None, dying: Mapping[int, list[int]]) -> None:
        total, loops = len(self.program), self._loops
        while True:
            region = None if loops is None else loops.next_at(self.done)
            stop = min(total if region is None else region.first, self.done + _CHUNK)
            if loops is not None and region is not None and region.first == self.done:
                loops.run(region)
                self.done = region.end
                self._release(dying.get(region.end - 1, []))
                continue
            if self.done >= total:
                return
            steps: list[tuple[int, Step]] = []
            if plan is not None:
                stop = self._plan_rows(add, plan, steps)
            for index in range(self.done, stop) if plan is None else ():
                if loops is None:
                    self.plan(index, add, steps)
                else:
                    loops.plan(index, steps)
                if index in dying:
                    self._release(dying[index])
            if loops is None:
                self.perform(steps)
            else:
                loops.perform(Interval(self.done, stop, steps))
            self.done = stop

    def _plan_rows(self, add: Mapping[int, Any], plan: ProgramPlan, steps: list[tuple[int, Step]]) -> int:
        """Plan the next of the rows that remain; gives the op up to which they go."""
        first = int(np.searchsorted(plan.rows, self.done))
        rows = plan.rows[first : first + _CHUNK].tolist()
        skip, dying = plan.skip, plan.dying
        for index in rows:
            if index in skip:
                steps.append((index, self._slab_step(skip[index])))
                continue
            self.plan(index, add, steps)
            if index in dying:
                self._release(dying[index])
        return len(self.program) if first + _CHUNK >= len(plan.rows) else rows[-1] + 1

    def plan(self, index: int, add: Mapping[int, Any], steps: list[tuple[int, Step]],
             state: State | None = None) -> None:  # fmt: skip
        """Add the calls that execute an op; with `state`, that of its own says whether a matmul adds."""
        program = self.program
        variant = program.variants[program.op_variant[index]]
        instruction = variant.instruction
        if instruction.synchronizes is not None and (instruction.only_orders or index in program.partners):
            self._exchange(index, steps)
            return
        at = program.op_access[index]
        numbers = program.access_view[at : at + len(variant.names)]
        adds = add.get(index, False) if instruction.accumulation is not None else False
        known, views = self._bounds, []
        place: list[Any] = [variant.id, adds if adds is True or adds is False else None]
        for number in numbers:
            view = program.views[number]
            views.append(view)
            place.append(known.get(view.buffer.id) or self._bind(view.buffer, index, steps))
            place.append(view.offset)
        repeated = state is None and place[1] is not None
        key = tuple(place)
        planned = self._planned.get(key) if repeated else None
        if planned is not None:
            steps.extend([(index, step) for step in planned])
            return
        bounds: list[Bound] = place[2::2]
        recipe = self._variant_plan(variant, bounds)
        if state is None:
            state = self._states[adds] if repeated else State(self.registers, adds)
        made = recipe.steps(views, bounds, state, self._scratch, self._resolver)
        steps.extend([(index, step) for step in made])
        if repeated and recipe.direct:
            if len(self._planned) >= _REMEMBERED:
                self._planned.clear()
            self._planned[key] = made

    def _variant_plan(self, variant: Variant, bounds: list[Bound]) -> VariantPlan:
        key = (variant.id, *[bound.kind for bound in bounds])
        recipe = self._variant_plans.get(key)
        if recipe is None:
            recipe = self._variant_plans[key] = VariantPlan(variant, key[1:], self.program.options.precise)
        return recipe

    def _exchange(self, index: int, steps: list[tuple[int, Step]]) -> None:
        """Add what an op does that waited for the other core. Both sides of an exchange follow each other."""
        program = self.program
        other = program.partners.get(index)
        if other is None:
            return  # a barrier: it is executed where both cores have come to it
        mail, precise = self.registers.mail, program.options.precise
        if index < other:
            # Both tiles are taken before either is written: they may be the same ones.
            for sender, receiver in ((index, other), (other, index)):
                (src,) = program.op(sender).reads
                steps.append((index, (collect, (mail, receiver, self._memory(src.buffer, index, steps), src))))
        (dst,) = program.op(index).writes
        steps.append((index, (deliver, (mail, index, self._memory(dst.buffer, index, steps), dst, precise))))

    def _memory(self, buffer: Buffer, index: int, steps: list[tuple[int, Step]]) -> Bound:
        return self._bounds.get(buffer.id) or self._bind(buffer, index, steps)

    def _release(self, buffers: list[int]) -> None:
        """Give back the memory of tiles after the last op that touches them; later ops may be planned into it."""
        for buffer in buffers:
            block = self._blocks.pop(buffer, None)
            if block is not None:
                self._pool.give(block)
                del self._bounds[buffer]

    def perform(self, steps: list[tuple[int, Step]]) -> None:
        """Make the calls; NKI901 where one fails that should not."""
        index = -1
        try:
            for index, (function, arguments) in steps:  # noqa: B007 - read when something fails
                function(*arguments)
        except NkiError as error:
            self.failed = index
            site = self.program.sites[self.program.op_site[index]]
            error.diagnostics = tuple(placed(item, site) for item in error.diagnostics)
            raise
        except (KeyboardInterrupt, MemoryError):
            raise
        except Exception as error:
            self.failed = index
            raise self._our_fault(index, error) from error
        if self._resolver.repeats:
            self.diagnostics += repeated(self.program, self._resolver.repeats)
            self._resolver.repeats.clear()
        if self._resolver.strays:
            self.diagnostics += strayed(self.program, self._resolver.strays)
            self._resolver.strays.clear()

    def _our_fault(self, index: int, error: Exception) -> NkiError:
        op = self.program.op(index)
        item = diagnose(
            "NKI901",
            f"{op.variant.instruction.name}: the simulator failed with {type(error).__name__}: {error}",
            limit="a legal instruction computes",
            help="please report the kernel together with this message",
        )
        return error_of(placed(item, op.site))


def is_whole(tensor: NkiTensor) -> bool:
    """Whether a tensor is all of its buffer, as that was allocated."""
    buffer = tensor._buffer
    return (
        tensor._indirect is None
        and tensor._dtype is buffer.dtype
        and tensor._shape == buffer.shape
        and tensor._strides == row_major(buffer.shape)
    )


def _multiply(found: slabs.Slab, sources: Mapping[int, Array | slabs.Narrow], grid: Array, workspace: Array,
              free: bool) -> None:  # fmt: skip
    slabs.multiply(found, sources, grid, workspace, free=free)
