"""A program laid out along a path: the same tables, and a row for everything that the chip executes."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from copy import copy
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.spec import Register, RegisterValues, Use
from nki_lab.kernel_runtime.footprint import Column, spread
from nki_lab.kernel_runtime.ir import Iteration, Program, Region, Variant, View, registers_read
from nki_lab.kernel_runtime.path.follow import UNKNOWN, Follower, Path, register_reads

Row = TypeVar("Row", bound=tuple[int, ...])


def executed(program: Program, path: Path) -> Program:
    """Return the rows that a program executes along `path`, as a program without loops; without registers, itself.

    Views that a register moves lie at its value, as far as that is known, and `register_store` stores that value.
    Variants, sites, buffers, constants, inputs and outputs are those of `program`; views and iterations are more.
    `Program.flows` tells which ops wait for a register, `control` which intervals wait for what decides them, `begins`
    where iterations of loops that data decides begin, and `renewed` where tensors of a body begin again. NKI011 where
    there are more rows than `max_instructions`.
    """
    if not program.registers or program.is_laid_out:
        return program
    layout = _Layout(program, path)
    layout.run()
    return layout.laid_out()


class _Layout(Follower[int, list[dict[int, int]]]):
    def __init__(self, program: Program, path: Path) -> None:
        super().__init__(program)
        self._trips = iter(path.trips.tolist())
        self._loads = iter(path.loaded.tolist())
        self._end = path.rows
        self._rows = 0
        # (first, end, core, iterations) of the ops executed.
        self._intervals: list[tuple[int, int, int, dict[int, int]]] = []
        self._iterations: list[Iteration] = []
        self._here: list[dict[int, int]] = [{-1: -1} for _ in range(program.cores)]  # of each core
        self._entered: Counter[int] = Counter()  # by core: iterations begun since its last row
        self._writer: dict[int, int] = {}
        self._moved = _MovedViews(program)
        self._access_patches: list[tuple[int, int, int]] = []  # (row, operand, view)
        self._stores: list[tuple[int, int]] = []  # (row, variant)
        self._flows: list[tuple[int, int]] = []
        self._control: list[tuple[int, int]] = []
        self._renewed: list[tuple[int, int, int]] = []
        self._begins: list[int] = []

    # -- decisions ---------------------------------------------------------------------------------------------------

    def enter(self, region: Region) -> int:
        """Return the trip count."""
        for side in region.sides:
            self._waits(side.lower, side.upper if region.kind == "for" else 0)
        return next(self._trips, 0)

    def more(self, region: Region, entry: int, done: int, known: bool | None) -> bool:
        if done and region.kind == "while":
            self._waits(*(side.upper for side in region.sides))
        if done < entry:
            self.check_limit(region)
        return done < entry

    def loaded(self, op: int) -> int | None:
        value = next(self._loads, UNKNOWN)
        return None if value == UNKNOWN else value

    # -- rows --------------------------------------------------------------------------------------------------------

    def begin(self, region: Region, done: int) -> list[dict[int, int]]:
        around = list(self._here)
        decided = region.kind == "while" or Register in map(type, (region.lower, region.upper))
        for number, side in enumerate(region.sides):
            core = number if region.twin is not None else self.program.core_of(region.first)
            if decided:  # guess: the compiler unrolls loops between constants
                self._entered[core] += 1
            value = self.values[side.register]
            value = done if value is None or region.kind == "while" else value
            item = Iteration(self._mapped(side.within, core), side.variable or side.name, value, side.site)
            self._iterations.append(item)
            self._here[core] = {side.within: len(self._iterations) - 1}
            self._writer.pop(side.register, None)
            if side.buffers[0] < side.buffers[1]:
                self._renewed.append((self._rows, *side.buffers))
        return around

    def finish(self, region: Region, token: list[dict[int, int]]) -> None:
        self._here = token

    def straight(self, first: int, end: int) -> None:
        starts, order = self.program.core_starts, self.program.core_order
        while first < end:  # core by core
            place = bisect_right(starts, first)
            stop = min(end, starts[place]) if place < len(starts) else end
            self._stretch(first, stop, order[place - 1])
            first = stop

    def _stretch(self, first: int, end: int, core: int) -> None:
        self._begins += [self._rows] * self._entered.pop(core, 0)
        self._intervals.append((first, end, core, self._here[core]))
        for op, operand, register in self._moved.within(first, end):
            row = self._rows + op - first
            writer = self._writer.get(register, row)
            if writer != row:
                self._flows.append((row, writer))
            value = self.values[register]
            if operand < 0:
                self._stores.append((row, self._moved.storing(op, self.values)))
            elif value is not None:
                self._access_patches.append((row, operand, self._moved.at(op, operand, value)))
        self._rows += end - first

    def wrote(self, register: int, op: int) -> None:
        self._writer[register] = self._rows - 1

    def _waits(self, *sources: Register | int) -> None:
        """Let all rows from here on wait for the registers that decide about them."""
        for source in sources:
            if isinstance(source, Register) and source.number in self._writer:
                self._control.append((self._rows, self._writer[source.number]))

    def _mapped(self, number: int, core: int) -> int:
        """Return the iteration of the laid-out program for one of the program that holds loops once."""
        found = self._here[core].get(number)
        if found is None:
            item = self.program.iterations[number]
            parent = self._mapped(item.parent, core)
            found = self._here[core][number] = len(self._iterations)
            self._iterations.append(item._replace(parent=parent))
        return found

    # -- the program ---------------------------------------------------------------------------------------------------

    def laid_out(self) -> Program:
        old = self.program
        new = copy(old)
        new.is_laid_out = True
        new.regions, new.op_names, new.user_edges, new.fences = [], {}, [], []
        spans = np.array([item[:2] for item in self._intervals], np.int64).reshape(-1, 2)
        rows = spread(spans[:, 0], spans[:, 1] - spans[:, 0])
        if self._end >= 0:
            rows = rows[: self._end]
        count = len(rows)
        variant = np.frombuffer(old.op_variant, np.uint32).astype(np.int64)[rows]
        width = np.fromiter((len(item.names) for item in old.variants), np.int64, len(old.variants))[variant]
        first = np.cumsum(width) - width
        accesses = spread(np.frombuffer(old.op_access, np.uint32).astype(np.int64)[rows], width)
        view = np.frombuffer(old.access_view, np.uint32)[accesses]
        for row, operand, number in _before(count, self._access_patches):
            view[first[row] + operand] = number
        for row, number in _before(count, self._stores):
            variant[row] = number
        new.op_variant = _column("I", variant)
        new.op_access = _column("I", first)
        new.op_site = _column("I", np.frombuffer(old.op_site, np.uint32)[rows])
        new.access_view = _column("I", view)
        new.op_iteration = _column("i", self._iteration_column()[:count])
        new.iterations = self._iterations
        new.variants, new.views = self._moved.variants, self._moved.views
        new.flows = _before(count, self._flows)
        new.control = _before(count, self._control)
        new.renewed = _before(count, self._renewed)
        new.begins = [row for row in self._begins if row < count]
        self._carry_order(new, rows)
        return new

    def _iteration_column(self) -> Column:
        """Return the iteration of each row; iterations of Python's loops inside a body are made for each of its own."""
        iterations = np.frombuffer(self.program.op_iteration, np.int32)
        out = np.empty(self._rows, np.int64)
        at = 0
        inverses: dict[tuple[int, int], tuple[list[int], Column]] = {}
        for first, end, core, here in self._intervals:
            self._here[core] = here
            if (first, end) not in inverses:
                distinct, inverse = np.unique(iterations[first:end], return_inverse=True)
                inverses[first, end] = distinct.tolist(), inverse
            numbers, inverse = inverses[first, end]
            out[at : at + end - first] = np.array([self._mapped(number, core) for number in numbers], np.int64)[inverse]
            at += end - first
        return out

    def _carry_order(self, new: Program, rows: Column) -> None:
        """Set names, and the order that the user asked for, on the rows of each iteration."""
        old = self.program
        named = np.flatnonzero(np.isin(rows, list(old.op_names))).tolist() if old.op_names else []
        new.op_names = {row: old.op_names[int(rows[row])] for row in named}
        for op, before in old.user_edges:
            waiting, awaited = np.flatnonzero(rows == op).tolist(), np.flatnonzero(rows == before).tolist()
            if len(waiting) == len(awaited):  # in the same loop: iteration by iteration
                new.user_edges += zip(waiting, awaited, strict=True)
        for first, end in old.fences:
            new.fences += [(row, row + end - first) for row in np.flatnonzero(rows == first).tolist()]
        self._carry_cores(new, rows)
        # Ops that cores meet in follow each other, also in a loop that both go round in.
        met = np.flatnonzero(np.isin(rows[:-1], np.array([a for a, _ in old.synchronizations], np.int64)))
        new.synchronizations = [(row, row + 1) for row in met.tolist()]
        exchanged = [row for row in met.tolist() if int(rows[row]) in old.partners]
        new.partners = {row: row + 1 for row in exchanged} | {row + 1: row for row in exchanged}

    def _carry_cores(self, new: Program, rows: Column) -> None:
        """Note which core each row is of; a core that has come to none of its rows comes last."""
        if self.program.cores == 1:
            return
        core = self.program.core_column()[rows]
        first = np.flatnonzero(np.diff(core, prepend=-1))
        missing = [number for number in range(self.program.cores) if not (core == number).any()]
        new.core_starts = [*first.tolist(), *[len(rows)] * len(missing)]
        new.core_order = [*core[first].tolist(), *missing]


class _MovedViews:
    """The operands whose address comes from a register, and their views for its values."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.views = list(program.views)
        self.variants = list(program.variants)
        self._known: dict[tuple[int, int], int] = {}
        self._storing: dict[tuple[int | None, ...], int] = {}
        # Writers of registers have no value to show.
        self._named = {
            v.id: read for v in program.variants if not v.instruction.writes_register and (read := registers_read(v))
        }
        rows = program.op_variant
        self._reads = [item for item in register_reads(program) if item[1] >= 0 or rows[item[0]] in self._named]
        self._ops = [op for op, _, _ in self._reads]

    def within(self, first: int, end: int) -> list[tuple[int, int, int]]:
        """Return (op, operand, register) of ops `first` to before `end`; operand -1 where it is an attribute."""
        low = bisect_left(self._ops, first)
        return self._reads[low : bisect_left(self._ops, end, low)]

    def at(self, op: int, operand: int, value: int) -> int:
        """Return the view of an operand when its register holds `value`."""
        program = self._program
        number = program.access_view[program.op_access[op] + operand]
        key = (number, value)
        known = self._known.get(key)
        if known is None:
            view = program.views[number]
            indirect = view.indirect
            assert indirect is not None
            known = number
            if indirect.lowest <= value <= indirect.highest:  # what lies outside is skipped, or was refused
                known = len(self.views)
                offset = view.offset + value * indirect.stride
                self.views.append(View(known, view.buffer, offset, view.type, None, False))
            self._known[key] = known
        return known

    def storing(self, op: int, values: RegisterValues) -> int:
        """Return the variant of an op that reads registers as attributes, with the values that are known."""
        number = self._program.op_variant[op]
        read = {name: values[register.number] for name, register in self._named[number].items()}
        values_known = {name: value for name, value in read.items() if value is not None}
        key = (number, *read.values())
        known = self._storing.get(key) if values_known else number
        if known is None:
            old = self.variants[number]
            use = Use(old.instruction, old.use.arch, old.use.types, {**old.use.attrs, **values_known}, old.use.dims)
            use.engine = old.use.engine
            known = self._storing[key] = len(self.variants)
            self.variants.append(Variant(known, use))
        return known


def _before(count: int, items: list[Row]) -> list[Row]:
    """Return the tuples whose row is among the first `count`."""
    return [item for item in items if item[0] < count]


def _column(kind: str, values: NDArray[np.integer[Any]]) -> array[int]:
    """Return a column of a program."""
    return array(kind, values.astype(kind).tobytes())
