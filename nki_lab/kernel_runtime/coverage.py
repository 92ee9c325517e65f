"""The written elements of a program: uninitialised reads, unwritten outputs, and where matmuls accumulate.

The program alone decides, so that checker and simulator agree. The body of a device loop counts once, as its first
iteration; a loop that plainly has no iterations is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.diagnostic import Diagnostic, diagnose
from nki_lab.kernel_runtime.footprint import Rect, WrittenPart, elements_of, rect_of, share_bytes
from nki_lab.kernel_runtime.ir import Program, Variant, View
from nki_lab.kernel_runtime.issue.source_location import finding_at, origin, placed, title
from nki_lab.kernel_runtime.path import loop_findings
from nki_lab.kernel_runtime.tensor import Buffer, VirtualRegister

MOST_ELEMENTS: Final = 1 << 30
"""Elements of the largest tensor that is followed, a byte each; a larger one counts as written."""

Added = bool | NDArray[np.bool_]
"""Whether something is added to the elements of a view: to all, to none, or to those of a mask."""


@dataclass(slots=True)
class Coverage:
    """The result of `cover`. `add`: whether each accumulating op adds to its dst: False, True, or a mask."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    add: dict[int, Added] = field(default_factory=dict)


class Tracker:
    """Follows a program that may still grow; `advance` takes the ops issued since the last call.

    `suspects` are buffers with elements that are read, or returned, before anything has written them.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.result = Coverage()
        self.done = 0
        self.suspects: set[int] = set()
        self._whole: set[int] = set()
        self._buffers_seen = 0
        self._written: dict[int, WrittenPart] = {}
        self._products: dict[int, WrittenPart] = {}
        self._multiplied: set[int] = set()
        self._rects: dict[int, Rect | None] = {}
        self._units: dict[int, int] = {}
        self._scanned = 0
        self._reported: set[tuple[str, int]] = set()
        self._unwritten_outputs: set[int] = set()
        self._renewals = 0
        self._other_names: dict[int, Buffer] = {}
        self._finished = False
        self._parts: list[_Parts] = []  # by variant

    def assume_written(self, buffers: Iterable[int]) -> None:
        """Say nothing about these buffers: something that is not in the program may have written them."""
        self._whole.update(buffers)
        self._multiplied.update(buffers)

    def advance(self) -> Coverage:
        program = self.program
        self._scan_views()
        variants, views, numbers = program.variants, program.views, program.access_view
        whole = self._whole
        fresh = program.buffers[self._buffers_seen :]
        whole.update(buffer.id for buffer in fresh if buffer.kind in ("input", "const"))
        self.assume_written(buffer.id for buffer in fresh if buffer.partitions * buffer.row_elements > MOST_ELEMENTS)
        self._buffers_seen = len(program.buffers)
        parts = self._parts
        parts += [_parts(variant) for variant in variants[len(parts) :]]
        numbers_of, first = program.op_variant, program.op_access
        for index in self._ops_ahead():
            reads, writes, summed, asked, names = parts[numbers_of[index]]
            at = first[index]
            for position in reads:
                view = views[numbers[at + position]]
                if view.buffer.id not in whole:
                    self._read(index, view, names[position])
                if view.indirect is not None:
                    self._read_index(index, view, names[position])
            if summed >= 0:
                self._accumulate(index, views[numbers[at + summed]], asked, names[summed])
            for position in writes:
                view = views[numbers[at + position]]
                if view.indirect is not None:
                    # Where a scatter lands is not known; nothing more is said about this tensor.
                    self._read_index(index, view, names[position])
                    whole.add(view.buffer.id)
                elif view.full:
                    whole.add(view.buffer.id)
                    self._written.pop(view.buffer.id, None)
                elif view.buffer.id not in whole:
                    self._write(self._written, whole, view)
        self.done = len(program)
        return self.result

    def _ops_ahead(self) -> Iterator[int]:
        """The ops that have not been looked at; those of loops without iterations are left out."""
        program = self.program
        at, end = self.done, len(program)
        for region in program.regions:
            if region.trip_count == 0 and at <= region.first:
                yield from range(at, region.first)
                at = region.end
        for op, first, last in program.renewed[self._renewals :]:
            yield from range(at, op)
            self.renew(first, last)
            self._renewals += 1
            at = op
        yield from range(at, end)

    def renew(self, first: int, end: int) -> None:
        """Buffers `first` to before `end` begin anew: what matmuls left in them before counts no more."""
        for number in range(first, end):
            self._products.pop(number, None)
            self._multiplied.discard(number)

    def adds(self, view: View, asked: bool | None) -> Added:
        """Whether a matmul into `view` adds to what is there: False, True, or a mask; it counts as there from now on.

        `asked` is its mode of accumulation.
        """
        self._scan_views()
        return self._adds(view, asked)[0]

    def finish(self) -> Coverage:
        """Also look at the outputs, when the kernel is complete; what is found is said once, however often asked."""
        self.advance()
        if not self._finished:
            self._finished = True
            self.result.diagnostics.extend(loop_findings(self.program))
        for tensor in self.program.outputs:
            buffer = tensor._buffer
            if buffer.id in self._whole:
                continue
            region = self._written.get(buffer.id)
            missing = buffer.partitions * buffer.row_elements if region is None else region.missing()
            if missing:
                self._unwritten(buffer, missing)
        return self.result

    def _scan_views(self) -> None:
        """Buffers that are seen in several widths are tracked byte by byte."""
        views = self.program.views
        for view in views[self._scanned :]:
            if view.type.dtype.nbytes != view.buffer.dtype.nbytes and view.buffer.id not in self._units:
                self._units[view.buffer.id] = view.buffer.dtype.nbytes
                for regions in (self._written, self._products):
                    old = regions.get(view.buffer.id)
                    if old is not None and old.unit == 1:
                        regions[view.buffer.id] = old.widened(view.buffer)
        self._scanned = len(views)

    def _write(self, regions: dict[int, WrittenPart], whole: set[int], view: View) -> None:
        """Note a write in one of the two maps; a buffer that is complete moves to its set."""
        number = view.buffer.id
        if view.full:
            whole.add(number)
            regions.pop(number, None)
            return
        region = self._region(regions, view.buffer)
        region.write(view, self._rect(view))
        if region.complete:
            whole.add(number)
            del regions[number]

    def _region(self, regions: dict[int, WrittenPart], buffer: Buffer) -> WrittenPart:
        region = regions.get(buffer.id)
        if region is None:
            region = regions[buffer.id] = WrittenPart(buffer, self._units.get(buffer.id, 1))
        return region

    def _rect(self, view: View) -> Rect | None:
        if view.id not in self._rects:
            self._rects[view.id] = rect_of(view)
        return self._rects[view.id]

    def _read(self, index: int, view: View, operand: str) -> None:
        if view.buffer.id in self._whole:
            return
        region = self._written.get(view.buffer.id)
        if region is None:
            self._uninitialised(index, view, operand, None)
        elif not (
            view.indirect is not None
            or region.holds(view, self._rect(view))
            or self._unused_is_missing(index, view, operand, region)
        ):
            self._uninitialised(index, view, operand, region)

    def _unused_is_missing(self, index: int, view: View, operand: str, region: WrittenPart) -> bool:
        """Whether all is written that the instruction reads of its operand."""
        variant = self.program.variant_of(index)
        declared = variant.instruction.operands.get(operand)  # none of those in a list reads part of itself
        rows = None if declared is None else declared.rows
        return rows is not None and bool(region.mask(view)[rows(variant.use)].all())

    def _read_index(self, index: int, view: View, operand: str) -> None:
        assert view.indirect is not None
        source = view.indirect.index
        if not isinstance(source, VirtualRegister) and source._view >= 0:
            self._read(index, self.program.views[source._view], operand)

    def _accumulate(self, index: int, view: View, asked: bool | None, operand: str) -> None:
        found, held = self._adds(view, asked)
        self.result.add[index] = found
        if asked and not held:
            if view.buffer.id not in self._whole:
                self.suspects.add(view.buffer.id)  # what is added to may be fresh memory
            self._report(
                "NKI401",
                index,
                view,
                operand,
                "accumulate=True adds to PSUM that no matmul has written",
                "the first matmul of an accumulation overwrites: accumulate=False or None",
                "write accumulate=(k > 0), or leave it out",
            )

    def _adds(self, view: View, asked: bool | None) -> tuple[Added, bool]:
        """Return the result of `adds`, and whether matmuls have written all of the view before."""
        number = view.buffer.id
        if number in self._multiplied:
            return asked is not False, True
        region = self._products.get(number)
        held = region is not None and region.holds(view, self._rect(view))
        found: Added = bool(asked)
        if asked is None:
            found = held if held or region is None or not region.touches(view) else region.mask(view)
        self._write(self._products, self._multiplied, view)
        return found, held

    def _report(self, code: str, index: int, view: View, operand: str, message: str, limit: str, remedy: str) -> None:
        """Report a finding of an op, once for each place in the source."""
        key = (code, self.program.op_site[index])
        if key in self._reported:
            return
        self._reported.add(key)
        self.result.diagnostics.append(
            finding_at(
                self.program,
                index,
                code,
                message,
                operand=operand,
                limit=limit,
                remedy=remedy,
                note=f"{operand}: {tuple(view.type.shape)} {view.type.dtype.name}",
                related=origin(self.program, view.buffer, "the tensor is allocated here"),
            )
        )

    def _uninitialised(self, index: int, view: View, operand: str, region: WrittenPart | None) -> None:
        self.suspects.add(view.buffer.id)
        part = f"{operand} {tuple(view.type.shape)} of {self._title(view.buffer)}"
        limit = "memory is undefined until an instruction writes it"
        if region is not None and region.touches(view):
            if ("NKI302", self.program.op_site[index]) in self._reported:
                return  # the words take longer than all the rest
            missing = ~region.mask(view)
            count = int(np.count_nonzero(missing))
            are = "element is read before it is" if count == 1 else "elements are read before they are"
            rows = "partition" if view.buffer.on_chip else "row"
            message = f"{part}: {count} of its {missing.size} {are} written: {elements_of(missing, rows)}"
            remedy = "initialise the whole tile, or read only the part that is written"
            self._report("NKI302", index, view, operand, message, limit, remedy)
        elif ("NKI301", self.program.op_site[index]) in self._reported:
            return
        elif (other := self._other_name(view.buffer)) is not None:
            message = f"{part} is read, and only {self._title(other)} in the same memory is written"
            limit = "tensors placed over each other are the same memory"
            remedy = "read that tensor, with .view and .reshape as another one"
            self._report("NKI302", index, view, operand, message, limit, remedy)
        else:
            remedy = "write it first, with nisa.dma_copy, nisa.memset or a computation"
            message = f"{part} is read and nothing has written it"
            self._report("NKI301", index, view, operand, message, limit, remedy)

    def _other_name(self, buffer: Buffer) -> Buffer | None:
        """A written tensor in the memory of `buffer`, of another extent, shape or dtype: meant to be the same bytes.

        One of the same form is what an allocator gave the bytes to before: reading on is a forgotten write.
        """
        known = self._other_names.get(buffer.id)
        if known is not None or buffer.address is None:
            return known
        form = (buffer.address, buffer.shape, buffer.dtype)
        for other in self.program.buffers:
            if (other.address, other.shape, other.dtype) == form or not share_bytes(buffer, other):
                continue
            if other.id in self._whole or other.id in self._written:
                self._other_names[buffer.id] = other
                return other
        return None

    def _title(self, buffer: Buffer) -> str:
        return f"{title(self.program, buffer)} in {buffer.space.value}"

    def _unwritten(self, buffer: Buffer, missing: int) -> None:
        self.suspects.add(buffer.id)
        if buffer.id in self._unwritten_outputs:
            return
        self._unwritten_outputs.add(buffer.id)
        total = buffer.partitions * buffer.row_elements
        written = "nothing of it is" if missing == total else f"only {total - missing} of its {total} elements are"
        item = diagnose(
            "NKI308",
            f"the kernel returns {self._title(buffer)} and {written} written",
            note=f"{buffer.shape} {buffer.dtype.name}",
            limit="a result is undefined where the kernel does not write it",
            help="copy every tile of the result to it with nisa.dma_copy",
        )
        self.result.diagnostics.append(placed(item, self.program.sites[buffer.site]) if buffer.site >= 0 else item)


_Parts = tuple[tuple[int, ...], tuple[int, ...], int, bool | None, tuple[str, ...]]


def _parts(variant: Variant) -> _Parts:
    """The numbers of the operands that a variant reads, of those that it writes, of the one that matmuls add to (-1:
    none) and in which mode; and the operands' names."""
    instruction, names = variant.instruction, variant.names
    if instruction.only_orders:
        return (), (), -1, None, names
    reads = tuple([position for position, is_out in enumerate(variant.outs) if not is_out])
    writes = tuple([position for position, is_out in enumerate(variant.outs) if is_out])
    accumulation = instruction.accumulation
    if accumulation is None:
        return reads, writes, -1, None, names
    return reads, writes, names.index(accumulation.operand), accumulation.mode(variant.use), names


def cover(program: Program, written: Iterable[int] = ()) -> Coverage:
    """Coverage of a complete program; buffers in `written` (by number) count as written before it starts."""
    tracker = Tracker(program)
    tracker.assume_written(written)
    return tracker.finish()
