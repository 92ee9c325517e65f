"""The builder of Beta 1 kernels: calls return tiles, and an assignment makes its target the destination.

An instruction that fills a fresh tile is checked when it is called and held back until the next one. If the kernel
assigns the tile in the same statement, the instruction is recorded with the assigned view as its destination; otherwise
the tile enters the program with it. So `x[...] = nisa.f(...)`, `psum += nisa.nc_matmul(...)` and every composite of
`nl` cost no copy, and the assigned tensor's dtype and memory decide.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from nki_lab.diagnostic import NkiError, coded_error, diagnose
from nki_lab.isa.spec import Instruction
from nki_lab.kernel_runtime.beta1.blocks import BlockTensor, require_tile
from nki_lab.kernel_runtime.beta1.deferred import Box, Deferred, out_positions, result_position, writer_kind
from nki_lab.kernel_runtime.beta1.splitting import parts, too_many
from nki_lab.kernel_runtime.beta1.subscript import OutsideView, checked, restricted, subscript
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.issue import context
from nki_lab.kernel_runtime.issue.builder import Builder, NkiInstruction, frozen
from nki_lab.kernel_runtime.issue.legality import legalise, live_names
from nki_lab.kernel_runtime.issue.source_location import placed
from nki_lab.kernel_runtime.language import operations
from nki_lab.kernel_runtime.tensor import Buffer, MemoryRegion, NkiTensor, extent, view_type
from nki_lab.kernel_runtime.tensor.refusal import describe, refuse


class DeferringBuilder(Builder):
    """Records the instructions of a Beta 1 kernel; see the module for what is held back."""

    elementwise_operators = True

    temporary: bool | None = None
    """Whether the value of the running assignment was computed by it, set by who knows; None asks the source."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.deferred: Deferred | None = None
        self._legal: set[Any] = set()
        self.plans: dict[Any, Any] = {}  # of calls by their types
        self.writers: dict[int, int] = {}
        self.places_tensors = False  # whether some tensor has an allocator
        self._zeros: dict[Buffer, tuple[NkiTensor, int]] = {}
        self._shared: list[NkiTensor] = []
        self._shared_next = -1
        self.first_addresses: dict[Any, Any] = {}  # of allocators in loops, by call

    # -- tensors ---------------------------------------------------------------------------------------------------

    def allocate(
        self, shape: Any, dtype: Any, space: Any, *, name: str = "", address: Any = None, kind: str = "temp"
    ) -> NkiTensor:
        """A fresh tensor. An on-chip one enters the program with its first access.

        Tensors in shared HBM are the same for every instance of a launch grid: the n-th of one is the n-th of all.
        """
        if kind == "temp" and space is MemoryRegion.shared_hbm and self._shared_next >= 0:
            return self._share(shape, dtype, name)
        tensor = super().allocate(shape, dtype, space, name=name, address=address, kind=kind)
        if kind == "temp" and tensor._buffer.on_chip:
            self.program.buffers.pop()
            tensor._buffer.id = -1
        elif kind == "temp" and space is MemoryRegion.shared_hbm:
            self._shared.append(tensor)
        return tensor

    def start(self, grid: tuple[int, ...], ids: tuple[int, ...]) -> None:
        """Begin the instance `ids` of the launch grid; the first one makes the shared tensors."""
        self.grid, self.program_ids = grid, ids
        self._shared_next = 0 if any(ids) else -1

    def _share(self, shape: Any, dtype: Any, name: str) -> NkiTensor:
        at, self._shared_next = self._shared_next, self._shared_next + 1
        wanted = super().allocate(shape, dtype, MemoryRegion.shared_hbm, name=name)
        self.program.buffers.pop()
        if at < len(self._shared):
            known = self._shared[at]
            if known._shape == wanted._shape and known._dtype is wanted._dtype:
                return known
        raise coded_error(
            "NKI016",
            f"instance {self.program_ids} of the launch grid allocates {describe(wanted)}, which the first did not",
            limit="all instances of a grid allocate the same tensors in shared HBM, in the same order",
            help="allocate shared tensors at the kernel's top level, outside of branches on program_id",
        )

    def view_of(self, tensor: NkiTensor) -> int:
        """Interned number of a view; brings its buffer into the program."""
        if self.deferred is not None:
            self.sync()
        buffer = tensor._buffer
        if buffer.id < 0 and buffer.owner is self:
            require_tile(tensor)
            if buffer in self._zeros:
                self._fill_zeros(buffer)
            else:
                buffer.id = len(self.program.buffers)
                self.program.buffers.append(buffer)
        return super().view_of(tensor)

    def check_view(self, tensor: NkiTensor) -> None:
        if tensor._indirect is None:
            buffer = tensor._buffer
            low, high = extent(tensor._offset, tensor._shape, tensor._strides)
            if low < 0 or high >= buffer.partitions * buffer.row_elements * buffer.dtype.nbytes // tensor._dtype.nbytes:
                raise refuse(
                    "NKI303",
                    f"the view reaches from element {low} to {high} of its storage",
                    tensor,
                    limit="views lie inside their tensor",
                )

    def zero_accumulator(self, tile: NkiTensor) -> None:
        """Fill a fresh PSUM tile with zeros: by its first product where that overwrites all of it, else by a memset."""
        self._zeros[tile._buffer] = (tile, self.site())

    def _fill_zeros(self, buffer: Buffer) -> None:
        tile, site = self._zeros.pop(buffer)
        former, self.pinned = self.pinned, site
        deferred, self.deferred = self.deferred, None
        try:
            operations.fill(tile, 0.0)
            self.sync()
        finally:
            self.pinned, self.deferred = former, deferred

    subscript = staticmethod(subscript)

    def read(self, tensor: NkiTensor) -> np.ndarray[Any, Any]:
        """The tensor's values now; a grid of tiles gives them in the grid's shape."""
        if isinstance(tensor, BlockTensor):
            return np.stack([self.read(tile) for tile in tensor.tiles()]).reshape(tensor._shape)
        view = checked(tensor)
        self.view_of(view)
        return super().read(view)

    def truth(self, tensor: NkiTensor) -> bool:
        """A tensor as a condition: arguments and other HBM tensors are there, and that is all Python can ask."""
        if not tensor._buffer.on_chip:
            return True
        raise refuse(
            "NKI017",
            f"the tile {describe(tensor)} is used as a condition",
            tensor,
            limit="Python decides at specialisation time, from shapes, dtypes and compile-time values",
            help="test for `is not None`; combine tiles with & and |; select elements with mask= or nl.where",
        )

    # -- instructions ----------------------------------------------------------------------------------------------

    def issue(
        self,
        instruction: Instruction,
        live: tuple[Any, ...],
        fixed: tuple[Any, ...],
        name: str | None = None,
    ) -> NkiInstruction:
        """Record one instruction, or hold it back where it fills a fresh on-chip tile; checked in either case."""
        self.sync()
        for value in live:
            if value.__class__ is OutsideView or value.__class__ is BlockTensor:
                live = tuple([_plain(item) for item in live])
                break
        dst = live[result_position(instruction)]
        if dst.__class__ is NkiTensor and dst._buffer.id < 0 and dst._buffer.owner is self:
            self.check(instruction, live, fixed)
            site, running = self.place()
            self.deferred = Deferred(dst, instruction, live, fixed, name, site, running)
            return NkiInstruction(self.program, len(self.program))
        return self._record(instruction, live, fixed, name)

    def _record(
        self,
        instruction: Instruction,
        live: tuple[Any, ...],
        fixed: tuple[Any, ...],
        name: str | None,
    ) -> NkiInstruction:
        if self._zeros:
            self._settle(instruction, live)
        if too_many(live):
            for part in parts(instruction, live):
                done = super().issue(instruction, part, fixed, name)
        else:
            done = super().issue(instruction, live, fixed, name)
        if self.places_tensors:
            self._demand_constants(instruction)
        kind = writer_kind(self.program.variants[self.program.op_variant[-1]])
        writers = self.writers
        for place in out_positions(instruction):
            value = live[place]
            if value.__class__ is NkiTensor:
                number = value._buffer.id
                writers[number] = writers.get(number, 0) | kind
        return done

    def _demand_constants(self, instruction: Instruction) -> None:
        """Note the instruction just recorded where it reads a constant that nothing has placed."""
        for item in instruction.implicit_operands(self.program.variants[self.program.op_variant[-1]].use):
            self.note(
                diagnose(
                    "NKI331",
                    item.text,
                    operand=item.operand,
                    help=item.help,
                    limit="a kernel with allocators places every tensor, and the constants too",
                ),
                self.program.op_site[-1],
            )

    def _settle(self, instruction: Instruction, live: tuple[Any, ...]) -> None:
        """Fill the waiting accumulators among the operands; a product that overwrites a whole one needs no fill."""
        for value in live:
            if value.__class__ is NkiTensor and value._buffer.id < 0 and value._buffer in self._zeros:
                buffer = value._buffer
                whole = value.size == buffer.partitions * buffer.row_elements and value._dtype is buffer.dtype
                if instruction.accumulation is not None and value is live[result_position(instruction)] and whole:
                    del self._zeros[buffer]
                else:
                    self._fill_zeros(buffer)

    def check(self, instruction: Instruction, live: tuple[Any, ...], fixed: tuple[Any, ...]) -> None:
        """Raise what recording this call would raise; answers are kept by operand types and attributes."""
        key: tuple[Any, ...] = (
            instruction,
            fixed,
            *[
                (value._type or view_type(value)) if value.__class__ is NkiTensor else (value.__class__, value)
                for value in live
            ],
        )
        try:
            known = key in self._legal
        except TypeError:
            key = (instruction, frozen(fixed), *[frozen(_type_key(value)) for value in live])
            known = key in self._legal
        if known:
            return
        self._legal.add(key)
        try:
            legalise(instruction, next(parts(instruction, live)), fixed, self.arch, dialect=self.program.dialect)
        except NkiError as error:
            self._legal.discard(key)
            operands = dict(zip(live_names(instruction), live, strict=True))
            error.diagnostics = tuple(self._with_origin(item, operands) for item in error.diagnostics)
            raise

    def sync(self) -> None:
        """Record the instruction that is held back."""
        deferred = self.deferred
        if deferred is not None:
            self.deferred = None
            if deferred.instruction is not None:
                self.replay(deferred, deferred.live, deferred.fixed)

    def replay(self, deferred: Deferred, live: tuple[Any, ...], fixed: tuple[Any, ...]) -> None:
        assert deferred.instruction is not None
        former = self.pinned, self.pinned_iteration
        self.pinned, self.pinned_iteration = deferred.site, deferred.running
        try:
            self._record(deferred.instruction, live, fixed, deferred.name)
        except NkiError as error:
            error.diagnostics = tuple(placed(item, self.program.sites[deferred.site]) for item in error.diagnostics)
            raise
        finally:
            self.pinned, self.pinned_iteration = former

    # -- results of calls --------------------------------------------------------------------------------------------

    def widen(self, result: NkiTensor, shape: tuple[int, ...], box: Box) -> NkiTensor:
        """A fresh tile of `shape` of which the call's `result` fills `box`; the rest stays as it is."""
        tile = self.like(result, shape=shape, space=result._buffer.space.value)
        deferred = self.deferred
        target = restricted(tile, box)
        if (
            deferred is not None
            and deferred.box is None
            and deferred.instruction is not None
            and result is deferred.tile
        ):
            place = result_position(deferred.instruction)
            deferred.live = (*deferred.live[:place], target, *deferred.live[place + 1 :])
            deferred.tile, deferred.box = tile, box
        else:
            operations.assign(target, result)
            if self.deferred is not None:
                self.deferred.tile, self.deferred.box = tile, box
        return tile

    def unwritten(self, shape: tuple[int, ...], dtype: Any, space: Any) -> NkiTensor:
        """A fresh tile that no instruction fills, as a call under an empty mask returns it."""
        self.sync()
        tile = self.allocate(shape, dtype, space)
        self.deferred = Deferred(tile)
        return tile

    def written(self, tensor: NkiTensor) -> bool:
        """Whether an instruction has written to the tensor's storage."""
        self.sync()
        return tensor._buffer.id in self.writers or tensor._buffer.kind in ("input", "const")


def current(what: str = "neuronxcc.nki") -> DeferringBuilder:
    """Return the builder of the Beta 1 kernel being specialised; NKI605 in a kernel of the current dialect."""
    builder = context.current(what)
    if isinstance(builder, DeferringBuilder):
        return builder
    raise coded_error(
        "NKI605",
        f"neuronxcc's {what} is called in a kernel of the current dialect",
        limit="a kernel uses either nki or neuronxcc.nki",
        help=f"import {what.partition('.')[0]} from nki, or decorate the kernel with neuronxcc.nki.jit",
    )


def located(function: Callable[..., Any], what: str = "") -> Callable[..., Any]:
    """Return the function with the user's call as the site of everything that it records.

    With `what`, the function's name for users, it is called in Beta 1 kernels only: NKI005 and NKI605 elsewhere.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        builder = current(what) if what else context.local.builder
        if builder is None or builder.pinned >= 0:
            return function(*args, **kwargs)
        builder.pinned, builder.pinned_iteration = builder.place()
        try:
            return function(*args, **kwargs)
        finally:
            builder.pinned = -1

    return call


def _plain(value: Any) -> Any:
    if isinstance(value, BlockTensor):
        require_tile(value)
    return checked(value) if isinstance(value, NkiTensor) else value


def _type_key(value: Any) -> Any:
    return view_type(value) if value.__class__ is NkiTensor else (value.__class__, value)
