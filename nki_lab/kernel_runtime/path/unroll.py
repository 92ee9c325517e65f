"""A program laid out along a path: the same tables, and a row for everything that the chip executes."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_lab.diagnostic import error_of
from nki_lab.isa.spec import Register, RegisterValues, Use
from nki_lab.kernel_runtime.ir import Iteration, Program, Region, Variant, View, registers_read
from nki_lab.kernel_runtime.path.follow import UNKNOWN, Follower, Path, endless
from nki_lab.kernel_runtime.tensor import VirtualRegister

Column = NDArray[np.int64]


def executed(program: Program, path: Path) -> Program:
    """The rows that a program executes along `path`, as a program without loops; one without registers is its own.

    Views that a register moves lie where its value puts them, as far as that is known, and `register_store` stores that
    value. Variants, sites, buffers, constants, inputs and outputs are those of `program`; views and passes are more.
    `Program.flows` tells which ops wait for a register, `control` which stretches wait for what decides them, and
    `renewed` where tensors of a body begin anew. NKI011 where there are more rows than `max_instructions`.
    """
    if not program.registers or program.is_laid_out:
        return program
    layout = _Layout(program, path)
    layout.run()
    return layout.made()


class _Layout(Follower):
    def __init__(self, program: Program, path: Path) -> None:
        super().__init__(program)
        self._trips: list[int] = path.trips.tolist()
        self._loads: list[int] = path.loaded.tolist()
        self._entered = self._read = 0
        self._limit = program.options.max_instructions
        self._end = path.rows
        self._stretches = array("q")  # (first, end) of the ops executed, one after the other
        self._rows = 0
        self._pass_rows: list[tuple[int, int, dict[int, int]]] = []
        self._iterations: list[Iteration] = []
        self._here: dict[int, int] = {-1: -1}
        self._writer: dict[int, int] = {}
        self._moved = _MovedViews(program)
        self._access_patches: list[tuple[int, int, int]] = []  # (row, operand, view)
        self._stores: list[tuple[int, int]] = []  # (row, variant)
        self._flows: list[tuple[int, int]] = []
        self._control: list[tuple[int, int]] = []
        self._renewed: list[tuple[int, int, int]] = []

    # -- what decides ------------------------------------------------------------------------------------------------

    def enter(self, region: Region) -> int:
        self._entered += 1
        self._waits(region.lower, region.upper if region.kind == "for" else 0)
        return self._entered - 1

    def more(self, region: Region, entry: int, done: int, known: bool | None) -> bool:
        if done and region.kind == "while":
            self._waits(region.upper)
        if entry < len(self._trips) and done < self._trips[entry]:
            if self.executed + self.iterations > self._limit:
                raise error_of(endless(self.program, region, self._limit))
            return True
        return False

    def loaded(self, op: int) -> int | None:
        at = self._read
        self._read += 1
        if at >= len(self._loads) or self._loads[at] == UNKNOWN:
            return None
        return self._loads[at]

    # -- what is met -------------------------------------------------------------------------------------------------

    def begin(self, region: Region, done: int) -> dict[int, int]:
        around = self._here
        value = self.values[region.register]
        number = len(self._iterations)
        variable = region.variable or region.name
        shown = done if value is None or region.kind == "while" else value
        self._iterations.append(Iteration(self._mapped(region.within), variable, shown, region.site))
        self._here = {region.within: number}
        self._writer.pop(region.register, None)
        if region.buffers[0] < region.buffers[1]:
            self._renewed.append((self._rows, *region.buffers))
        return around

    def finish(self, region: Region, token: dict[int, int]) -> None:
        self._here = token

    def straight(self, first: int, end: int) -> None:
        self._stretches.extend((first, end))
        self._pass_rows.append((first, end, self._here))
        for op, operand, register in self._moved.within(first, end):
            row = self._rows + op - first
            self._follows(row, register)
            value = self.values[register]
            if operand < 0:
                self._stores.append((row, self._moved.storing(op, self.values)))
            elif value is not None:
                self._access_patches.append((row, operand, self._moved.at(op, operand, value)))
        self._rows += end - first

    def wrote(self, register: int, op: int) -> None:
        self._writer[register] = self._rows - 1

    def _follows(self, row: int, register: int) -> None:
        writer = self._writer.get(register)
        if writer is not None and writer != row:
            self._flows.append((row, writer))

    def _waits(self, *sources: Register | int) -> None:
        """All that comes now waits for the registers that decide it."""
        for source in sources:
            writer = self._writer.get(source.number) if isinstance(source, Register) else None
            if writer is not None:
                self._control.append((self._rows, writer))

    def _mapped(self, number: int) -> int:
        """The pass of the laid-out program for one of the program that holds loops once."""
        found = self._here.get(number)
        if found is None:
            item = self.program.iterations[number]
            parent = self._mapped(item.parent)
            found = self._here[number] = len(self._iterations)
            self._iterations.append(item._replace(parent=parent))
        return found

    # -- the program ---------------------------------------------------------------------------------------------------

    def made(self) -> Program:
        old = self.program
        new = copy(old)
        new.is_laid_out = True
        new.regions, new.op_names, new.user_edges, new.fences = [], {}, [], []
        stretches = np.array(self._stretches, np.int64).reshape(-1, 2)
        rows = _spread(stretches[:, 0], stretches[:, 1] - stretches[:, 0])
        if self._end >= 0:
            rows = rows[: self._end]
        variant = np.frombuffer(old.op_variant, np.uint32).astype(np.int64)[rows]
        width = np.fromiter((len(item.names) for item in old.variants), np.int64, len(old.variants))[variant]
        first = np.cumsum(width) - width
        view = np.frombuffer(old.access_view, np.uint32)[
            _spread(np.frombuffer(old.op_access, np.uint32).astype(np.int64)[rows], width)
        ].astype(np.int64)
        for row, operand, number in self._access_patches:
            if row < len(rows):
                view[first[row] + operand] = number
        for row, number in self._stores:
            if row < len(rows):
                variant[row] = number
        new.op_variant = _column("I", variant, np.uint32)
        new.op_access = _column("I", first, np.uint32)
        new.op_site = _column("I", np.frombuffer(old.op_site, np.uint32)[rows], np.uint32)
        new.access_view = _column("I", view, np.uint32)
        new.op_iteration = _column("i", self._iteration_column(self._rows)[: len(rows)], np.int32)
        new.iterations = self._iterations
        new.variants, new.views = self._moved.variants, self._moved.views
        new.flows = [pair for pair in self._flows if pair[0] < len(rows)]
        new.control = [pair for pair in self._control if pair[0] < len(rows)]
        new.renewed = [item for item in self._renewed if item[0] < len(rows)]
        self._carry_order(new, rows)
        return new

    def _iteration_column(self, count: int) -> Column:
        """The pass of each row; passes of Python's loops inside a body are made for each of its own."""
        held = np.frombuffer(self.program.op_iteration, np.int32)
        out = np.empty(count, np.int64)
        at = 0
        inverses: dict[tuple[int, int], tuple[list[int], Column]] = {}
        for first, end, here in self._pass_rows:
            known = inverses.get((first, end))
            if known is None:
                numbers, inverse = np.unique(held[first:end], return_inverse=True)
                known = inverses[first, end] = numbers.tolist(), inverse
            self._here = here
            out[at : at + end - first] = np.array([self._mapped(number) for number in known[0]], np.int64)[known[1]]
            at += end - first
        return out

    def _carry_order(self, new: Program, rows: Column) -> None:
        """Names, and what the user said about order, on the rows of each pass."""
        old = self.program
        named = np.flatnonzero(np.isin(rows, list(old.op_names))).tolist() if old.op_names else []
        new.op_names = {row: old.op_names[int(rows[row])] for row in named}
        for op, before in old.user_edges:
            waiting, awaited = np.flatnonzero(rows == op).tolist(), np.flatnonzero(rows == before).tolist()
            if len(waiting) == len(awaited):  # in the same loop: pass by pass
                new.user_edges += zip(waiting, awaited, strict=True)
        for first, end in old.fences:
            new.fences += [(row, row + end - first) for row in np.flatnonzero(rows == first).tolist()]
        new.core_starts = [int(np.count_nonzero(rows < start)) for start in old.core_starts]
        # No meeting is in a device loop, so that each of its ops is there once, unless the run ended before.
        met = np.flatnonzero(np.isin(rows, np.array(old.synchronizations, np.int64))).tolist()
        places = {int(rows[row]): row for row in met}
        new.synchronizations = [(places[a], places[b]) for a, b in old.synchronizations if b in places]
        new.partners = {places[a]: places[b] for a, b in old.partners.items() if a in places and b in places}


class _MovedViews:
    """The operands whose address comes from a register, and where its values put them."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.views = list(program.views)
        self.variants = list(program.variants)
        self._known: dict[tuple[int, int], int] = {}
        self._storing: dict[tuple[int | None, ...], int] = {}
        registers = {
            view.id: view.indirect.index.id
            for view in program.views
            if view.indirect is not None and isinstance(view.indirect.index, VirtualRegister)
        }
        # What writes registers has no value to show.
        self._named = {
            v.id: read for v in program.variants if not v.instruction.writes_register and (read := registers_read(v))
        }
        found: list[tuple[int, int, int]] = []
        if registers:
            accesses = np.frombuffer(program.access_view, np.uint32)
            starts = np.frombuffer(program.op_access, np.uint32)
            for place in np.flatnonzero(np.isin(accesses, list(registers))).tolist():
                op = int(np.searchsorted(starts, place, "right")) - 1
                found.append((op, place - int(starts[op]), registers[int(accesses[place])]))
        if self._named:
            rows = np.frombuffer(program.op_variant, np.uint32)
            found += [
                (op, -1, register.number)
                for op in np.flatnonzero(np.isin(rows, list(self._named))).tolist()
                for register in self._named[int(rows[op])].values()
            ]
        self._found = sorted(found)
        self._ops = [op for op, _, _ in self._found]

    def within(self, first: int, end: int) -> list[tuple[int, int, int]]:
        """(op, operand, register) of ops `first` to before `end`; operand -1 where it is an attribute."""
        low = bisect_left(self._ops, first)
        return self._found[low : bisect_left(self._ops, end, low)]

    def at(self, op: int, operand: int, value: int) -> int:
        """The view of an operand when its register holds `value`."""
        program = self._program
        number = program.access_view[program.op_access[op] + operand]
        key = (number, value)
        known = self._known.get(key)
        if known is None:
            view = program.views[number]
            indirect = view.indirect
            assert indirect is not None
            inside = indirect.lowest <= value <= indirect.highest
            known = number
            if inside:  # what lies outside is skipped, or was refused
                known = len(self.views)
                offset = view.offset + value * indirect.stride
                self.views.append(View(known, view.buffer, offset, view.type, None, False))
            self._known[key] = known
        return known

    def storing(self, op: int, values: RegisterValues) -> int:
        """The variant of an op that reads registers as attributes, with what is known of their values."""
        number = self._program.op_variant[op]
        read = {name: values[register.number] for name, register in self._named[number].items()}
        held = {name: value for name, value in read.items() if value is not None}
        key = (number, *read.values())
        known = self._storing.get(key) if held else number
        if known is None:
            old = self.variants[number]
            attrs = {**old.use.attrs, **held}
            use = Use(old.instruction, old.use.arch, old.use.types, attrs, old.use.dims)
            use.engine = old.use.engine
            known = self._storing[key] = len(self.variants)
            self.variants.append(Variant(known, old.instruction, use, old.names))
        return known


def _spread(first: Column, length: Column) -> Column:
    """first[0], first[0] + 1, ... (length[0] numbers), first[1], ..."""
    ends = np.cumsum(length)
    out: Column = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - length), length)
    return out


def _column(kind: str, values: Any, dtype: Any) -> array[int]:
    """A column of a program."""
    out = array(kind)
    out.frombytes(np.ascontiguousarray(values.astype(dtype)).tobytes())
    return out
