"""The walker for values: plans ops into calls on bound arrays, runs them, and hands values out."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import numpy as np

from nki_lab.diagnostic import Diagnostic, NkiError, error_of
from nki_lab.isa.dtype import BF16, BOOL, F32, TF32
from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.coverage import Added, Tracker
from nki_lab.kernel_runtime.footprint import Mask
from nki_lab.kernel_runtime.ir import Program, Variant, View
from nki_lab.kernel_runtime.issue.source_location import placed
from nki_lab.kernel_runtime.numerics import blas, slab_product
from nki_lab.kernel_runtime.numerics.advance import Advance
from nki_lab.kernel_runtime.numerics.buffer_usage import BufferUsage
from nki_lab.kernel_runtime.numerics.cache_blocks import has_large_tiles, in_blocks
from nki_lab.kernel_runtime.numerics.evacuation import Evacuation
from nki_lab.kernel_runtime.numerics.indirect import Inspection, Resolver, address_findings
from nki_lab.kernel_runtime.numerics.loops import Interval, Loops
from nki_lab.kernel_runtime.numerics.machine_memory import require_memory
from nki_lab.kernel_runtime.numerics.overlays import overlays
from nki_lab.kernel_runtime.numerics.placed import PhysicalMemory, PlacedMemory
from nki_lab.kernel_runtime.numerics.pool import Block, Bound, Pool
from nki_lab.kernel_runtime.numerics.program_plan import (
    ProgramPlan,
    arguments_at_true_width,
    plan_program,
    released_after,
)
from nki_lab.kernel_runtime.numerics.rounding import Array, Scratch
from nki_lab.kernel_runtime.numerics.slab import Slab
from nki_lab.kernel_runtime.numerics.storage import (
    BYTES,
    NATIVE,
    SHADOW,
    buffer_array,
    bytes_of,
    fresh,
    host_values,
    kind_of,
    of_array,
    poison,
    strided,
    to_bytes,
)
from nki_lab.kernel_runtime.numerics.variant_plan import (
    KEPT_WIDE,
    Place,
    PlannedStep,
    Registers,
    State,
    Step,
    VariantPlan,
    collect,
    deliver,
)
from nki_lab.kernel_runtime.path import Path, PathLog
from nki_lab.kernel_runtime.tensor import Buffer, NkiTensor, row_major
from nki_lab.own_faults import own_fault

_REMEMBERED: Final = 4096  # planned ops kept for when the same op comes again


class Executor:
    """Executes a program. `arrays` are the kernel's arguments by buffer id, in their host dtypes.

    A program that is complete runs once, with `run(final=True)`: then loads of unwritten inputs are elided, matmuls
    are grouped into slabs, and a tile's memory is used again after its last access. Otherwise `run(final=False)`
    executes what has been issued so far, as often as something observes values.
    `seconds` is the time spent, planning and conversions included.

    With an `allocation` every on-chip tensor lies at its address and tensors that overlap share their bytes; then ops
    run one by one.
    """

    _chunk = 16_384  # ops planned at a time: plans hold a few hundred bytes an op

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
        self.slabs: list[Slab] = []
        self.elided = 0
        self.done = 0
        self.failed = -1  # the op whose values could not be computed
        self.stopped = -1  # the op at which the user stopped the run
        self.registers = Registers(program.arch.pmax)
        self._precise = program.options.precise
        self._bounds: dict[int, Bound] = {}
        self._blocks: dict[int, Block] = {}
        self._kinds: dict[int, int] = {}
        self._variant_plans: dict[tuple[int, ...], VariantPlan] = {}
        self._states: dict[tuple[int, bool], State] = {}  # by core, and whether a matmul adds to what is there
        self._scratch = Scratch()
        self._pool = Pool()
        self._placed = PlacedMemory()
        self._physical = None if allocation is None else PhysicalMemory(program.arch, allocation)
        self._resolver = Resolver(self.bound, self.registers.values, tolerant=program.options.oob == "warn")
        self._loops: Loops | None = None
        self._advance = Advance(len(program))
        # Steps of ops that come again on the same memory, as those of a loop that is unrolled do.
        self._planned: dict[Hashable, list[Step]] = {}
        self._views_seen = 0
        self._buffers_seen = 0
        self._poison_all = True
        # These say more of a complete program.
        self._written: Mask | None = None
        self._stored: frozenset[int] = frozenset()
        self._narrow: frozenset[int] = frozenset()
        self._widened: dict[int, Block] = {}  # those of them that were widened before the run, until it ends
        self._evacuation = Evacuation()
        self._propagated: Mapping[int, Mapping[int, Place]] = {}
        self._joined: Mapping[int, int] = {}

    def run(self, *, final: bool) -> None:
        """Execute the ops issued and not yet executed."""
        start = time.perf_counter()
        if self.done == 0:
            require_memory(self.program.buffers, self.arrays)
        add = (self.tracker.finish() if final else self.tracker.advance()).add
        with np.errstate(all="ignore"), self._threads():
            self._prepare(final=final)
            plan: ProgramPlan | None = None
            released: Mapping[int, list[int]] = {}
            if self._loops is None and self.program.registers and not self.program.is_laid_out:
                self._loops = Loops(self)
            if final and self.done == 0 and len(self.program) and self._physical is None:
                if self._loops is None:
                    plan = plan_program(self.program, add, self._shadowed)
                    released = plan.released
                    self._take_over(plan)
                else:
                    usage = BufferUsage(self.program)
                    released = released_after(self.program, usage, usage.last_access >= 0)
                    self._stored = arguments_at_true_width(self.program, usage, self._shadowed())
            self._advance = Advance(len(self.program))
            if plan is not None:
                self._advance.follow(plan)
            try:
                self._execute(add, plan, released)
            except KeyboardInterrupt:
                self.stopped = max(self.stopped, self.done, self._advance.end)
                raise
        self._pool.forget_foreseen()
        self._pool.give_up(self._widened.values())
        self._widened.clear()
        self.seconds += time.perf_counter() - start

    def foresee(self) -> None:
        """Have the large memory that a complete program takes mapped by another thread, until `run` needs it, and the
        arguments widened that only slabs read.
        """
        program = self.program
        if self.done or self._physical is not None or program.registers or not len(program):
            return
        add = self.tracker.finish().add
        self._prepare(final=True)
        plan = plan_program(program, add, self._shadowed)
        self._adopt(plan)
        sizes: list[int] = []
        for number in np.flatnonzero(plan.bound).tolist():
            buffer = program.buffers[number]
            if buffer.on_chip:
                continue
            kind = self._kind(buffer)
            if self._argument(buffer.id) is None:
                sizes.append(bytes_of(buffer, kind))
            elif kind == SHADOW and buffer.dtype not in (F32, TF32) and buffer.id not in self._narrow:
                sizes.append(4 * math.prod(buffer.shape))
        sizes += [
            4 * math.prod(slab.shape) for slab in plan.slabs.values() if slab.first not in plan.evacuation.in_place
        ]
        works = {size for slab in plan.slabs.values() for size in self._slab_needs(slab).sizes}
        narrow: dict[int, Array] = {}
        for number in sorted(self._narrow):
            values = self._argument(number)
            # NumPy lets other threads run while it converts bfloat16.
            if program.buffers[number].dtype is BF16 and values is not None and values.flags.c_contiguous:
                narrow[number] = values.reshape(-1)
        self._pool.foresee([*sizes, *[4 * size for size in works]], narrow)

    def read(self, view: View | NkiTensor) -> Array:
        """Return the values of a view after all ops executed so far, in its host dtype: a copy."""
        if isinstance(view, NkiTensor) and view._indirect is not None:
            view = self.program.views[view._buffer.owner.view_of(view)]
            self._prepare()
        if isinstance(view, NkiTensor):
            buffer, dtype = view._buffer, view._dtype
            if dtype is not buffer.dtype and self._kinds.get(buffer.id) != BYTES:
                self._make_bytes(buffer)
            bound = self.bound(buffer)
            part = strided(bound, dtype, view._offset, view._shape, view._strides)
        else:
            bound, dtype = self.bound(view.buffer), view.type.dtype
            part, _ = self._resolver.read(view, bound, Inspection({"tensor": view.type}))
        return host_values(bound, dtype, part, on_grid=self._precise)

    def hand_out(self, tensor: NkiTensor) -> Array:
        """`read` a result that the executor needs no longer: where possible its memory, not a copy."""
        buffer = tensor._buffer
        block, bound = self._blocks.get(buffer.id), self._bounds.get(buffer.id)
        if block is None or bound is None or bound.kind == BYTES or buffer.on_chip or not is_whole(tensor):
            return self.read(tensor)
        if buffer.dtype is not F32 and (bound.kind != NATIVE or buffer.dtype is BOOL):
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
        """The path through the device loops, up to the last op executed."""
        return (PathLog() if self._loops is None else self._loops.log).path(failed=self.failed >= 0)

    def bound(self, buffer: Buffer) -> Bound:
        """Return the storage of a buffer, made at its first use."""
        return self._bounds.get(buffer.id) or self._bind(buffer)

    def _threads(self) -> AbstractContextManager[None]:
        """Return the context in which calls are made: with one thread where sums must not depend on their number."""
        return blas.single_thread() if self.program.options.matmul_order == "tile" else nullcontext()

    # -- binding ---------------------------------------------------------------------------------------------------

    def _prepare(self, *, final: bool = False) -> None:
        """Scan views and buffers that are new: some buffers must be held as bytes.

        Of a program that is complete, `final`, some that are placed over each other need not.
        """
        program = self.program
        apart: Mask | None = None
        if final and not self._buffers_seen and self._physical is None and not program.registers:
            apart = overlays(program, self.tracker.suspects)
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
            elif apart is not None and apart[buffer.id]:
                if not self._precise and buffer.dtype in KEPT_WIDE:  # as where the bytes are shared
                    self._kinds[buffer.id] = BYTES
            elif buffer.address is not None and buffer.on_chip:
                shared.update((item.id, item) for item in self._placed.add(buffer))
        for item in shared.values():
            self._share(item)
        self._buffers_seen = len(program.buffers)

    def _make_bytes(self, buffer: Buffer) -> None:
        self._kinds[buffer.id] = BYTES
        bound = self._bounds.get(buffer.id)
        if bound is not None and bound.kind != BYTES:
            self._bounds[buffer.id] = to_bytes(bound, buffer, on_grid=self._precise)

    def _share(self, buffer: Buffer) -> None:
        """Move a placed buffer into the memory that it shares with its neighbours."""
        self._kinds[buffer.id] = BYTES
        former = self._bounds.get(buffer.id)
        bound = self._placed.bind(buffer)
        if former is not None and former.flat is not bound.flat:
            contents = former if former.kind == BYTES else to_bytes(former, buffer, on_grid=self._precise)
            np.copyto(buffer_array(bound, buffer), buffer_array(contents, buffer))
        self._bounds[buffer.id] = bound

    def _bind(self, buffer: Buffer, index: int = -1, steps: list[PlannedStep] | None = None) -> Bound:
        """Make a buffer's storage. With `steps`, a call that prepares it when op `index` runs is added to them."""
        kind = self._kind(buffer)
        values = self._argument(buffer.id)
        if values is not None:
            bound = of_array(buffer, values, kind, self._pool)
            written = self._written is None or bool(self._written[buffer.id])
            if written and bound.flat.base is not None and np.shares_memory(bound.flat, values):
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

    def _kind(self, buffer: Buffer) -> int:
        return NATIVE if buffer.id in self._stored else self._kinds.get(buffer.id, kind_of(buffer))

    def _argument(self, buffer: int) -> Array | None:
        values = self.arrays.get(buffer)
        return self.program.constants.get(buffer) if values is None else values

    # -- the whole program at once -----------------------------------------------------------------------------------

    def _take_over(self, plan: ProgramPlan) -> None:
        """Bind what a complete program allows to be bound in another way."""
        self._adopt(plan)
        self._poison_all = False
        self.slabs, self.elided = list(plan.slabs.values()), plan.elided_count
        for tile, (root, offset, pitch) in plan.elided.items():
            source = self.bound(self.program.buffers[root])
            row = self.program.buffers[tile].row_elements
            self._bounds[tile] = Bound(SHADOW, source.flat, source.base + offset, row, pitch)

    def _adopt(self, plan: ProgramPlan) -> None:
        self._written, self._stored, self._narrow = plan.written, plan.stored, plan.narrow
        self._evacuation, self._propagated, self._joined = plan.evacuation, plan.propagated, plan.joined

    def _shadowed(self) -> Mask:
        found = np.array([kind_of(buffer) == SHADOW for buffer in self.program.buffers], bool)
        for number, kind in self._kinds.items():
            found[number] = kind == SHADOW
        return found

    def _slab_step(self, slab: Slab) -> Step:
        """Return the call that computes a slab; its tiles become parts of the matrix, unless that is rounded."""
        roots = {root: self._root(root) for root in slab.roots}
        needs = self._slab_needs(slab)
        flat, start, pitch = self._grid_memory(slab)
        if flat.dtype == np.float32:
            self._bind_cells(slab, flat, start, pitch)
        grid = slab_product.grid_of(slab, flat, start, pitch)
        report = self._advance.within(slab)
        return (slab_product.multiply, (slab, needs.levels, roots, grid, self._slab_work(needs), report))

    def _bind_cells(self, slab: Slab, flat: Array, start: int, pitch: int) -> None:
        carriers, buffers = self._evacuation.carriers, self.program.buffers
        for buffer, (row, column) in slab.cells.items():
            at = start + row * pitch + column
            self._bounds[buffer] = Bound(SHADOW, flat, at, slab.n, pitch)
            for tile in carriers.get(buffer, ()):
                wide = buffers[tile].dtype is not F32
                self._bounds[tile] = Bound(SHADOW, flat, at, slab.n, pitch, wide=wide)

    def _slab_needs(self, slab: Slab) -> slab_product.Needs:
        place = self._evacuation.in_place.get(slab.first)
        return slab_product.needs_of(
            slab,
            fuses=self.program.options.matmul_order == "free",
            operands=not self._narrow.isdisjoint(slab.roots),
            result=place is not None and place.root in self._stored,
        )

    def _slab_work(self, needs: slab_product.Needs) -> slab_product.Work:
        """Return a slab's bands and workspaces, whose memory is free again after this step."""
        blocks = [self._pool.take(4 * size) for size in needs.sizes]
        for block in blocks:
            self._pool.give(block)
        floats = [block.floats(size) for block, size in zip(blocks, needs.sizes, strict=True)]
        return slab_product.Work(needs.bands, *floats)

    def _grid_memory(self, slab: Slab) -> tuple[Array, int, int]:
        """Return the memory of a slab's matrix, its first element there, and the elements from row to row."""
        m, n = slab.shape
        place = self._evacuation.in_place.get(slab.first)
        if place is None:
            return self._pool.take(4 * m * n).floats(m * n), 0, n
        bound = self.bound(self.program.buffers[place.root])
        return bound.flat, bound.base + place.offset, place.pitch

    def _root(self, number: int) -> slab_product.Root:
        """Return what a slab reads: a shadow, or an argument, as the caller gave it or widened before the run."""
        buffer = self.program.buffers[number]
        if number not in self._narrow:
            return slab_product.Root(self.bound(buffer).flat, F32)
        block = self._widened.get(number) or self._pool.take_widened(number)
        if block is None:
            return slab_product.Root(self._as_given(number), buffer.dtype)
        self._widened[number] = block
        return slab_product.Root(block.floats(math.prod(buffer.shape)), F32)

    def _as_given(self, number: int) -> Array:
        """Return an argument as the caller gave it, flat."""
        return np.ascontiguousarray(self._argument(number)).reshape(-1)

    # -- execution ---------------------------------------------------------------------------------------------------

    def _execute(self, add: Mapping[int, Added], plan: ProgramPlan | None, released: Mapping[int, list[int]]) -> None:
        total, loops, large = len(self.program), self._loops, has_large_tiles(self.program)
        grouped: Mapping[int, Slab] = {} if plan is None else plan.slabs
        while True:
            region = None if loops is None else loops.next_at(self.done)
            if loops is not None and region is not None and region.first == self.done:
                loops.run(region)
                self.done = region.end
                self._release(released.get(region.end - 1, []))
                continue
            if self.done >= total:
                return
            if plan is None:
                stop = min(total if region is None else region.first, self.done + self._chunk)
                rows: Sequence[int] = range(self.done, stop)
            else:
                first = int(np.searchsorted(plan.rows, self.done))
                rows = plan.rows[first : first + self._chunk].tolist()
                stop = total if first + self._chunk >= len(plan.rows) else rows[-1] + 1
            steps: list[PlannedStep] = []
            for index in rows:
                if index in grouped:
                    steps.append((index, self._slab_step(grouped[index])))
                    continue
                if loops is None:
                    self.plan(index, add, steps)
                else:
                    loops.plan(index, steps)
                if index in released:
                    self._release(released[index])
            if loops is None:
                self.perform_all(in_blocks(self.program, steps, self._keeps_calls) if large else steps)
            else:
                loops.perform(Interval(self.done, stop, steps))
            self.done = stop

    def plan(self, index: int, add: Mapping[int, Added], steps: list[PlannedStep], state: State | None = None) -> None:
        """Add the calls that execute an op; with `state`, that of its own says whether a matmul adds."""
        program = self.program
        variant = program.variants[program.op_variant[index]]
        instruction = variant.instruction
        if instruction.synchronizes is not None and (instruction.only_orders or index in program.partners):
            self._exchange(index, steps)
            return
        at = program.op_access[index]
        adds = add.get(index, False) if instruction.accumulation is not None else False
        if index in self._propagated:
            steps += [(index, step) for step in self._steps_elsewhere(index, variant, adds, steps)]
            return
        known, views, bounds = self._bounds, [], []
        for number in program.access_view[at : at + len(variant.names)]:
            view = program.views[number]
            views.append(view)
            bounds.append(known.get(view.buffer.id) or self._bind(view.buffer, index, steps))
        repeats = state is None and (adds is True or adds is False)
        core = program.core_of(index)
        key = (variant.id, adds, core, *bounds, *[view.offset for view in views]) if repeats else None
        planned = None if key is None else self._planned.get(key)
        if planned is None:
            plan = self._variant_plan(variant, bounds)
            if state is None:
                state = self._state(core, adds, shared=key is not None)
            planned = plan.steps(views, bounds, state, self._scratch, self._resolver)
            if key is not None and plan.direct:
                self._keep_planned(key, planned)
        if len(planned) == 1:
            steps.append((index, planned[0]))
        else:
            steps.extend([(index, step) for step in planned])

    def _steps_elsewhere(self, index: int, variant: Variant, adds: Added, steps: list[PlannedStep]) -> list[Step]:
        """Return the calls of a product that reads operands at other places; a call that prepares dst goes before."""
        program, places = self.program, self._propagated[index]
        at, core = program.op_access[index], program.core_of(index)
        known, views, bounds, offsets = self._bounds, [], [], list[int]()
        for position, number in enumerate(program.access_view[at : at + len(variant.names)]):
            view, place = program.views[number], places.get(position)
            buffer = view.buffer if place is None else program.buffers[place.buffer]
            views.append(view)
            bounds.append(known.get(buffer.id) or self._bind(buffer, index, steps))
            offsets += (view.offset,) if place is None else place[1:]
        shared, rows = adds is True or adds is False, self._joined.get(index)
        key = (variant.id, adds, core, rows, *bounds, *offsets) if shared else None
        planned = None if key is None else self._planned.get(key)
        if planned is None:
            plan = self._variant_plan(variant, bounds)
            planned = plan.steps_elsewhere(views, bounds, places, rows, self._state(core, adds, shared=shared))
            if key is not None:
                self._keep_planned(key, planned)
        return planned

    def _keep_planned(self, key: Hashable, planned: list[Step]) -> None:
        """Keep planned calls for when the same op comes again."""
        if len(self._planned) >= _REMEMBERED:
            self._planned.clear()
        self._planned[key] = planned

    def _state(self, core: int, adds: Added, *, shared: bool) -> State:
        """Return the state of a core for a call; one that is `shared` by all calls that add alike."""
        if not shared:
            return State(self.registers, core, adds)
        found = self._states.get((core, adds is True))
        if found is None:
            found = self._states[core, adds is True] = State(self.registers, core, adds is True)
        return found

    def _keeps_calls(self, _index: int) -> bool:
        """Whether the calls of an op must stay as they are planned."""
        return False

    def _variant_plan(self, variant: Variant, bounds: list[Bound]) -> VariantPlan:
        key = (variant.id, *[bound.kind for bound in bounds])
        plan = self._variant_plans.get(key)
        if plan is None:
            plan = self._variant_plans[key] = VariantPlan(variant, key[1:], self._precise)
        return plan

    def _exchange(self, index: int, steps: list[PlannedStep]) -> None:
        """Add the effect of an op that waited for the other core. Both sides of an exchange follow each other."""
        program = self.program
        other = program.partners.get(index)
        if other is None:
            return  # a barrier: it is executed where both cores have come to it
        mail = self.registers.mail
        if index < other:
            # Both tiles are taken before either is written: they may be the same ones.
            for sender, receiver in ((index, other), (other, index)):
                (src,) = program.op(sender).reads
                steps.append((index, (collect, (mail, receiver, self._memory(src.buffer, index, steps), src))))
        (dst,) = program.op(index).writes
        steps.append((index, (deliver, (mail, index, self._memory(dst.buffer, index, steps), dst, self._precise))))

    def _memory(self, buffer: Buffer, index: int, steps: list[PlannedStep]) -> Bound:
        return self._bounds.get(buffer.id) or self._bind(buffer, index, steps)

    def _release(self, buffers: list[int]) -> None:
        """Give back the memory of tiles after the last op that touches them; later ops may be planned into it."""
        for buffer in buffers:
            block = self._blocks.pop(buffer, None)
            if block is not None:
                self._pool.give(block)
                del self._bounds[buffer]

    def perform_all(self, steps: list[PlannedStep]) -> None:
        """Make the calls of a stretch of the program, and tell how far they are."""
        for piece in self._advance.pieces(steps):
            self.perform(piece)

    def perform(self, steps: Sequence[PlannedStep]) -> None:
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
        except KeyboardInterrupt:
            self.stopped = index
            raise
        except MemoryError:
            raise
        except Exception as error:
            self.failed = index
            op = self.program.op(index)
            item = own_fault(
                f"{op.variant.instruction.name}: the simulator failed with {type(error).__name__}: {error}",
                limit="a legal instruction computes",
            )
            raise error_of(placed(item, op.site)) from error
        if self._resolver.notes:
            self.diagnostics += address_findings(self.program, self._resolver.notes)
            self._resolver.notes.clear()


def is_whole(tensor: NkiTensor) -> bool:
    """Whether a tensor is all of its buffer, as that was allocated."""
    buffer = tensor._buffer
    return (
        tensor._indirect is None
        and tensor._dtype is buffer.dtype
        and tensor._shape == buffer.shape
        and tensor._strides == row_major(buffer.shape)
    )
