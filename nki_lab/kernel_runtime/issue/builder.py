"""`Builder.issue`: binding, legality, views and emission of one instruction, for the tracer and the evaluator alike."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import numpy as np

from nki_lab.diagnostic import Diagnostic, NkiError, coded_error, diagnose
from nki_lab.isa.dtype import DType, dtype_of
from nki_lab.isa.spec import Instruction
from nki_lab.kernel_runtime.ir import Program, Region, Site, Variant, View, synchronization
from nki_lab.kernel_runtime.issue.iterations import NOWHERE, CodePosition, IterationTracker, is_tested_by_while
from nki_lab.kernel_runtime.issue.legality import legalise, live_names
from nki_lab.kernel_runtime.issue.source_location import of_allocation, outside, placed, site_at, span_of, title
from nki_lab.kernel_runtime.progress import current_monitor
from nki_lab.kernel_runtime.tensor import (
    Buffer,
    MemoryRegion,
    NkiTensor,
    VirtualRegister,
    check_allocation,
    make_view,
    row_major,
    view_type,
)
from nki_lab.kernel_runtime.tensor.refusal import describe, require_valid

Read = Callable[[NkiTensor], "np.ndarray[Any, Any]"]
_REPORTED: Final = 256  # instructions between two reports of progress
_new: Final = object.__new__  # half the time of calling the class


@dataclass(slots=True, eq=False, repr=False)
class NkiInstruction:
    """Handle of an instruction, as nisa calls return it."""

    _program: Program
    index: int

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        """Let this instruction wait until every producer is complete; gives this instruction again."""
        given: tuple[object, ...] = producers
        for producer in given:
            if not isinstance(producer, NkiInstruction) or producer._program is not self._program:
                raise coded_error(
                    "NKI012",
                    f"depends_on: {producer!r} is no instruction of this kernel",
                    operand="producers",
                    limit="an instruction waits for instructions of the same kernel",
                    help="pass what the nisa calls returned: second.depends_on(first)",
                )
        self._program.user_edges += [(self.index, producer.index) for producer in producers]
        return self

    def __repr__(self) -> str:
        op = self._program.op(self.index)
        return f"<{op.variant.instruction.name} {op.name or self.index}>"


class OpenLoop(NamedTuple):
    """A device loop whose body is being recorded.

    `key` tells whose `while` it is, empty for other loops; `token` is what `IterationTracker.leave` gets when it ends.
    """

    region: Region
    token: int
    key: tuple[object, ...] = ()


class Builder:
    """Record a kernel's instructions into a Program; the owner of its tensors.

    `reader` answers when something observes values; without it values are unknown and observing is NKI017. `guessed`
    says that something went another way for want of values, as text of a tensor does: a run may record another program.
    `pinned` is the site of the current expression where the evaluator sets it, `pinned_iteration` the iteration of
    Python's loops; otherwise both come from the stack. `loops` are the device loops whose bodies are being recorded.
    `on_new_place` is called with the user's frame where a call stands at a place that led to no other one before.
    """

    on_new_place: Callable[[FrameType], None] | None = None

    def __init__(self, program: Program) -> None:
        self.program = program
        self.arch = program.arch
        self.reader: Read | None = None
        self.guessed = False
        self.pinned = self.pinned_iteration = -1
        self.iterations = IterationTracker(program.iterations, self.site_of)
        self.loops: list[OpenLoop] = []
        self.notes: list[Diagnostic] = []
        self.grid: tuple[int, ...] = ()
        self.program_ids: tuple[int, ...] = ()
        self.depth = 0
        self.fenced = 0  # open blocks of nl.no_reorder()
        self.thorough = False  # of a refused call every fault is found, not only the first
        self.limit = program.options.max_instructions
        self._stop = min(self.limit, _REPORTED)
        self._variants: dict[object, tuple[Variant, tuple[Diagnostic, ...]]] = {}
        self._views: dict[object, int] = {}
        self._shapes: dict[object, Any] = {}
        self._sites: dict[tuple[int, int], tuple[int, CodePosition]] = {}  # by id of the code object and place in it
        self._codes: list[CodeType] = []  # those objects, so that they stay
        self._noted: set[object] = set()
        self.compared: set[int] = set()  # buffers that comparisons made: as conditions they stand for their values

    # -- places in the source ------------------------------------------------------------------------------------

    def site(self) -> int:
        """Return the number of the user's call that led here."""
        return self.pinned if self.pinned >= 0 else self._place(sys._getframe(2))[0]

    def place(self) -> tuple[int, int]:
        """Return that number with the iteration of Python's loops that the call is in, -1 outside of all."""
        if self.pinned >= 0:
            return self.pinned, self.pinned_iteration
        number, frame, place = self._place(sys._getframe(2))
        return number, -1 if frame is None else self.iterations.current(frame, place)

    def _place(self, frame: FrameType | None) -> tuple[int, FrameType | None, CodePosition]:
        """Return the number of the user's innermost call, seen from `frame`, with its frame and position."""
        frame = outside(frame)
        if frame is None:
            return self.site_of(Site("", 0, 0, 0, 0, "")), None, NOWHERE
        known = self._sites.get((id(frame.f_code), frame.f_lasti)) or self._new_site(frame)
        return known[0], frame, known[1]

    def _new_site(self, frame: FrameType) -> tuple[int, CodePosition]:
        code, offset = frame.f_code, frame.f_lasti
        if self.on_new_place is not None:
            self.on_new_place(frame)
        self._codes.append(code)
        known = self._sites[id(code), offset] = self.site_of(site_at(code, offset)), self.iterations.place_of(frame)
        return known

    def site_of(self, site: Site) -> int:
        """Return the number of a place in the program's site table."""
        self.program.sites.append(site)
        return len(self.program.sites) - 1

    def located(self, diagnostic: Diagnostic) -> Diagnostic:
        """Return the diagnostic with the place in the user's code that led here; the evaluator sets it itself."""
        frame = None if self.pinned >= 0 else outside(sys._getframe(1))
        return diagnostic if frame is None else placed(diagnostic, site_at(frame.f_code, frame.f_lasti))

    def note(self, diagnostic: Diagnostic, site: int) -> None:
        """Keep a finding that does not stop the kernel, once for each place and code."""
        key = (diagnostic.code, diagnostic.operand, site)
        if key in self._noted:
            return
        self._noted.add(key)
        self.notes.append(placed(diagnostic, self.program.sites[site]))

    def advise(self, code: str, message: str, *, operand: str = "", limit: str = "", remedy: str = "") -> None:
        """Keep a finding about the user's call that led here, which does not stop the kernel."""
        self.note(diagnose(code, message, operand=operand, limit=limit, help=remedy), self.site())

    # -- tensors ---------------------------------------------------------------------------------------------------

    def allocate(
        self, shape: Any, dtype: Any, space: object, *, name: str = "", address: object = None, kind: str = "temp"
    ) -> NkiTensor:
        """Return a fresh uninitialised tensor; checked as `check_allocation` says."""
        key: object = (shape, dtype, space, address)
        try:
            known = self._shapes.get(key)
        except TypeError:
            known = key = None
        if known is not None:
            for size in shape:
                if size.__class__ is not int:
                    known = key = None  # 512.0 and True are equal to sizes and are none
        if known is None:
            found = dtype_of(dtype)
            sizes, region, place = check_allocation(shape, found, space, address, self.arch)
            pattern = Buffer(-1, region, found, sizes, address=place, owner=self)
            strides = row_major(sizes)
            known = pattern, strides, view_type(make_view(pattern, sizes, strides, 0, found))
            if key is not None:
                self._shapes[key] = known
        pattern, strides, whole = known
        site = self.pinned
        if site < 0:
            frame = sys._getframe(2)  # the caller is nl.ndarray, or another function of ours
            seen = self._sites.get((id(frame.f_code), frame.f_lasti))
            site = self._place(frame)[0] if seen is None else seen[0]
        buffers = self.program.buffers
        buffer = pattern.twin(len(buffers), name or "", kind, site)
        buffers.append(buffer)
        made = make_view(buffer, buffer.shape, strides, 0, buffer.dtype)
        made._type = whole  # the same of all that are allocated alike
        return made

    def like(
        self,
        tensor: NkiTensor,
        *,
        shape: tuple[int, ...] | None = None,
        dtype: DType | None = None,
        space: str = "sbuf",
    ) -> NkiTensor:
        """Return a fresh on-chip tile of `tensor`'s shape and dtype, where not given."""
        require_valid(tensor)
        return self.allocate(shape or tensor._shape, dtype or tensor._dtype, _REGIONS[space])

    # -- instructions ----------------------------------------------------------------------------------------------

    def _pause(self, issued: int) -> None:
        """Say how many instructions there are; NKI011 where those are too many."""
        if issued >= self.limit:
            raise coded_error(
                "NKI011",
                f"the kernel issued {self.limit} instructions and has not ended",
                limit="instructions <= max_instructions",
                help="check the loop's bound, or raise max_instructions if the kernel is meant to be this long",
            )
        self._stop = min(self.limit, issued + _REPORTED)
        current_monitor().advance(issued)

    def issue(
        self,
        instruction: Instruction,
        live: tuple[object, ...],
        fixed: tuple[object, ...],
        name: str | None = None,
    ) -> NkiInstruction:
        """Record one instruction.

        `live` are its tensors, scalars and numbers, `fixed` its other attributes, both in declaration order. Raises
        the coded error of the first limit that does not hold.
        """
        parts: list[object] = [instruction, fixed]
        touched = []
        for value in live:
            if value.__class__ is NkiTensor:
                parts.append(value._type or view_type(value))
                touched.append(value)
            elif value is None:
                parts.append(None)
            else:
                parts.append(_scalar_key(value))
        key = tuple(parts)
        try:
            found = self._variants.get(key)
        except TypeError:
            key = (instruction, frozen(fixed), *parts[2:])
            found = self._variants.get(key)
        if found is None:
            found = self._variants[key] = self._new_variant(instruction, live, fixed)
        variant, notes = found
        program = self.program
        index = len(program.op_variant)
        site, running = self.pinned, self.pinned_iteration
        if site < 0:
            frame: FrameType | None = sys._getframe(2)  # the caller is a nisa function, or another of ours
            assert frame is not None
            seen = self._sites.get((id(frame.f_code), frame.f_lasti))
            if seen is None:
                site, frame, place = self._place(frame)
            else:
                site, place = seen
            if frame is not None:
                running = self.iterations.current(frame, place)
        if notes:
            for item in notes:
                self.note(item, site)
        if index >= self._stop:
            self._pause(index)
        program.op_variant.append(variant.id)
        program.op_site.append(site)
        program.op_iteration.append(running)
        accesses = program.access_view
        program.op_access.append(len(accesses))
        for tensor in touched:
            number = tensor._view
            accesses.append(number if number >= 0 else self.view_of(tensor))
        if name is not None:
            program.op_names[index] = name
        made = _new(NkiInstruction)
        made._program = program
        made.index = index
        return made

    def _new_variant(
        self, instruction: Instruction, live: tuple[object, ...], fixed: tuple[object, ...]
    ) -> tuple[Variant, tuple[Diagnostic, ...]]:
        try:
            use, notes = legalise(
                instruction, live, fixed, self.arch, dialect=self.program.dialect, every=self.thorough
            )
        except NkiError as error:
            origins = dict(zip(live_names(instruction), live, strict=True))
            error.diagnostics = tuple(self._with_origin(item, origins) for item in error.diagnostics)
            raise
        for value in (*live, *fixed):
            if isinstance(value, VirtualRegister):
                self.require_own(value)
        variant = Variant(len(self.program.variants), use)
        self.program.variants.append(variant)
        return variant, notes

    def _with_origin(self, item: Diagnostic, operands: dict[str, object]) -> Diagnostic:
        """Return the finding with the line where the operand it is about was allocated."""
        tensor = operands.get(item.operand)
        if not isinstance(tensor, NkiTensor) or not item.note or tensor._buffer.site < 0:
            return item
        made, site = self.program.sites[tensor._buffer.site], self.site()
        used = self.program.sites[site] if site >= 0 else None
        buffer, kind = tensor._buffer, tensor._type or view_type(tensor)
        if (
            item.code == "NKI204"
            and item.measured is not None
            and item.measured[0] == kind.partitions == buffer.partitions
            and used is not None
            and made.file == used.file
            and made.function == used.function
            and made != used
        ):
            return placed(of_allocation(item, title(self.program, buffer), span_of(used)), made)
        line = made.line
        return replace(item, note=f"{item.note}, made at line {line}") if line else item

    def view_of(self, tensor: NkiTensor) -> int:
        """Return the interned number of a tensor's view."""
        buffer = tensor._buffer
        if buffer.owner is not self:
            raise coded_error(
                "NKI314",
                "the tensor belongs to another run of a kernel",
                note=f"{tensor._shape} {tensor._dtype.name}",
                limit="a tensor lives as long as the kernel call that made it",
                help="return arrays from one kernel and pass them to the next",
            )
        kind = tensor._type or view_type(tensor)
        indirect = tensor._indirect
        key = (buffer.id, tensor._offset, kind, None if indirect is None else id(indirect))
        known = self._views.get(key)
        if known is None:
            self.check_view(tensor)
            index = None if indirect is None else indirect.index
            if isinstance(index, VirtualRegister):
                self.require_own(index)
            elif isinstance(index, NkiTensor):
                self.view_of(index)
            views = self.program.views
            known = self._views[key] = len(views)
            full = (
                indirect is None
                and kind.contiguous
                and kind.dtype is buffer.dtype
                and kind.partitions * kind.free_size == buffer.partitions * buffer.row_elements
            )
            views.append(View(known, buffer, tensor._offset, kind, indirect, full))
        tensor._view = known
        return int(known)

    def check_view(self, tensor: NkiTensor) -> None:
        """Refuse a view that leaves its storage; in the current dialect slicing has done so."""

    # -- registers -------------------------------------------------------------------------------------------------

    def register(self, name: str = "", *, frozen: bool = False) -> VirtualRegister:
        """Return a register that nothing has written; a `frozen` one is written by its loop only."""
        registers = self.program.registers
        registers.append(name)
        return VirtualRegister(None, frozen, id=len(registers) - 1, owner=self, name=name)

    def require_own(self, register: VirtualRegister) -> None:
        """Refuse a register of another kernel, or of none."""
        if register.owner is not self:
            raise coded_error(
                "NKI314",
                f"{register!r} belongs to no kernel, or to another run of one",
                limit="a register lives as long as the kernel call that allocated it",
                help="allocate it with nisa.register_alloc() in the kernel",
            )

    # -- what tensors ask of their owner ----------------------------------------------------------------------------

    def read(self, tensor: NkiTensor) -> np.ndarray[Any, Any]:
        """Return the tensor's values now, in its host dtype; everything issued so far is executed first."""
        if self.reader is not None and not self.loops and not self._is_synchronized():
            return self.reader(tensor)
        if self.reader is None:
            message, limit, remedy = (
                "a tensor's values are needed, and this is a compilation without values",
                "shapes and dtypes are known at specialisation time, element values are not",
                "use nki_lab.run or nki.simulate to see values",
            )
        elif self.loops:
            message, limit, remedy = (
                "a tensor's values are looked at in the body of a device loop",
                "the body is specialised once, before the loop runs: there is no one value yet",
                "look after the loop, or unroll it with range() while you search",
            )
        else:
            message, limit, remedy = (
                "a tensor's values are looked at after the cores have waited for each other",
                "the cores are specialised one after the other: there is no value before both are",
                "look before the first core_barrier or sendrecv, or at run.values afterwards",
            )
        raise coded_error("NKI017", message, limit=limit, help=remedy)

    @property
    def has_values(self) -> bool:
        self.guessed |= self.reader is None
        return self.reader is not None and not self._is_synchronized()

    def _is_synchronized(self) -> bool:
        """Return whether something waits for the other core, so that values depend on its later specialisation."""
        return any(synchronization(item) is not None for item in self.program.variants)

    def sync(self) -> None:
        """Record instructions that are held back; a builder of the current dialect holds none."""

    elementwise_operators = False

    def truth(self, tensor: NkiTensor) -> bool:
        """Return True for a tensor as a condition, as of any Python object, with an advice; refuse values with NKI017.

        Elements and comparisons are values, and a `while` that asks for an object would never end.
        """
        site = self.site()
        element = math.prod(tensor._shape) == 1 < math.prod(tensor._buffer.shape)
        if element or tensor._buffer.id in self.compared or is_tested_by_while(self.program.sites[site]):
            tensor._needed("used as a condition")
        message = f"the tensor {describe(tensor)} is used as a condition, which holds for every tensor"
        self.note(
            diagnose(
                "NKI608",
                message,
                operand=tensor._buffer.name,
                limit="Python sees objects when a kernel is specialised: what a tensor holds does not count",
                help="write `is not None` for an optional tensor; let instructions or a register decide by values",
            ),
            site,
        )
        return True


_REGIONS: dict[str, MemoryRegion] = {region.value: region for region in MemoryRegion} | {"hbm": MemoryRegion.shared_hbm}


def _scalar_key(value: object) -> object:
    """Return a hashable stand-in that keeps 1, 1.0, True and -0.0 apart."""
    return (value.__class__, value or repr(value)) if isinstance(value, (int, float)) else frozen(value)


def frozen(value: object) -> object:
    """Return a hashable stand-in for a value, the same for equal lists."""
    if isinstance(value, (list, tuple)):
        return tuple(frozen(item) for item in value)
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    try:
        hash(value)
    except TypeError:
        return (type(value), id(value))
    return value
