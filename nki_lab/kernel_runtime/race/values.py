"""Numbers of written values, equal where two cores computed alike.

A kernel that does not ask for its core does all of its work twice, and one that splits most of it may do the rest
twice; both cores then write the same, and no order is missed. The number of a write stands for the instruction, its
attributes, the numbers of what it reads, and the part that it writes. Equal numbers are equal values; different ones
say nothing. What the other core writes counts from the synchronization on at which both are.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable
from functools import cached_property
from typing import Final

import numpy as np

from nki_lab.isa.spec import Register
from nki_lab.kernel_runtime.allocate import Allocation, allocate
from nki_lab.kernel_runtime.footprint import Column
from nki_lab.kernel_runtime.ir import Program, Variant, View, register_written, registers_of
from nki_lab.kernel_runtime.schedule import firm_edges
from nki_lab.kernel_runtime.tensor import Buffer, VirtualRegister

_MOST_STEPS: Final = 1_000_000  # ops that all searches together come to; of what is asked later nothing is said


class Reach:
    """The order that the compiler keeps: through memory, registers, the user's edges and the cores' synchronizations.

    The graph is made when it is first asked for.
    """

    def __init__(self, program: Program, allocation: Allocation | None) -> None:
        self._program = program
        self._allocation = allocation
        self._left = _MOST_STEPS

    @cached_property
    def _graph(self) -> tuple[list[int], list[int]]:
        """The ops that wait for each op, and where those of an op begin."""
        program = self._program
        found = firm_edges(program, self._allocation or allocate(program))
        order = np.lexsort((found.op, found.pred))
        return found.op[order].tolist(), np.searchsorted(found.pred[order], np.arange(len(program) + 1)).tolist()

    def __call__(self, early: int, late: int) -> bool:
        """Whether `late` runs after `early` for certain, or too much has been asked."""
        if self._left <= 0:
            return True
        # Only the user has ops wait for later ones.
        last = len(self._program) if self._program.user_edges else late
        if early > last:
            return False
        after, start = self._graph
        seen = {early}
        ahead = [early]
        while ahead:
            op = ahead.pop()
            for other in after[start[op] : start[op + 1]]:
                if other == late:
                    self._left -= len(seen)
                    return True
                if other <= last and other not in seen:
                    seen.add(other)
                    ahead.append(other)
        self._left -= len(seen)
        return False


_WORD: Final = (1 << 64) - 1

Part = tuple[int, int]
"""(offset, number of the view type) of a write that is not of the whole tensor."""


class _Contents:
    """The contents of a buffer as a core knows them: the first number, and those of later writes."""

    __slots__ = ("base", "parts", "total")

    def __init__(self, base: int) -> None:
        self.base = base
        self.parts: dict[Part, int] = {}
        self.total = 0

    @property
    def number(self) -> int:
        return (self.base + self.total) & _WORD

    def write(self, part: Part | None, number: int) -> None:
        if part is None:
            self.base, self.parts, self.total = number, {}, 0
            return
        self.total += number - self.parts.get(part, 0)
        self.parts[part] = number


def write_numbers(program: Program, op: Column, view: Column) -> Column:
    """The number of each write, given by its op and view; what writes nothing has one of its own."""
    found = _Numbering(program).run()
    rows = zip(op.tolist(), view.tolist(), strict=True)
    return np.array([found.get(row, ~place & _WORD) for place, row in enumerate(rows)], np.uint64).astype(np.int64)


class _Numbering:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.cores = program.cores
        self.memory: dict[tuple[int, int], _Contents] = {}
        self.registers: dict[tuple[int, int], int] = {}
        self.found: dict[tuple[int, int], int] = {}
        self.fresh: defaultdict[int, list[tuple[int, Part | None, int]]] = defaultdict(list)
        self.kinds = [_kind(variant) for variant in program.variants]
        self.partners = program.partners
        self.second = {second for _, second in program.synchronizations}

    def run(self) -> dict[tuple[int, int], int]:
        program = self.program
        for first, end, core in program.stretches:
            for op in range(first, end):
                if not program.variant_of(op).instruction.only_orders:
                    self._execute(op, core)
                if op in self.second:
                    self._exchange()
        return self.found

    def _execute(self, op: int, core: int) -> None:
        if op in self.partners:
            self._receive(op, core)
            return
        variant, operands = self.program.variant_of(op), self._operands(op)
        inputs = [self._read(view, core) for view, is_out in operands if not is_out]
        inputs += [self._address(view, core) for view, _ in operands if view.indirect is not None]
        inputs += [self._register(register, core) for register in registers_of(variant)]
        if variant.instruction.updates(variant.use):
            inputs += [self._read(view, core) for view, is_out in operands if is_out]
        number = hash((self.kinds[variant.id], *inputs)) & _WORD
        self._write_all(op, operands, core, number)
        if variant.instruction.writes_register:
            self.registers[core, register_written(variant)] = number

    def _receive(self, op: int, core: int) -> None:
        """Execute an exchange: each core gets what the other one sends; the first of the two ops does both."""
        other = self.partners[op]
        if self.found.pop((op, -1), None) is not None:
            return
        far = self.program.core_of(other)
        sent, received = self._sent(op, core), self._sent(other, far)
        self._write_all(op, self._operands(op), core, received)
        self._write_all(other, self._operands(other), far, sent)
        self.found[other, -1] = 0

    def _sent(self, op: int, core: int) -> int:
        return next(hash((self._read(view, core),)) for view, is_out in self._operands(op) if not is_out) & _WORD

    def _operands(self, op: int) -> list[tuple[View, bool]]:
        """Return the views of an op, and whether it writes them."""
        return list(zip(self.program.views_of(op), self.program.variant_of(op).outs, strict=True))

    def _write_all(self, op: int, operands: list[tuple[View, bool]], core: int, number: int) -> None:
        for position, (view, is_out) in enumerate(operands):
            if not is_out:
                continue
            part = None if view.full and view.indirect is None else (view.offset, view.type.id)
            result = hash((number, position, part)) & _WORD
            self._contents(view.buffer, core).write(part, result)
            if not view.buffer.on_chip:
                self.found[op, view.id] = result
                self.fresh[core].append((view.buffer.id, part, result))

    def _exchange(self) -> None:
        """Let all cores know what each wrote to memory."""
        for core, writes in self.fresh.items():
            for other, (number, part, result) in itertools.product(range(self.cores), writes):
                if other != core:
                    self._contents(self.program.buffers[number], other).write(part, result)
        self.fresh.clear()

    def _contents(self, buffer: Buffer, core: int) -> _Contents:
        known = self.memory.get((core, buffer.id))
        if known is None:
            known = self.memory[core, buffer.id] = _Contents(self._first(buffer))
        return known

    def _first(self, buffer: Buffer) -> int:
        """The number of a buffer that nothing has written: what it is made of, or which one it is."""
        if buffer.kind == "const":
            data = np.ascontiguousarray(self.program.constants[buffer.id])
            return hash((buffer.shape, buffer.dtype.name, data.tobytes())) & _WORD
        if buffer.kind == "temp" and (buffer.on_chip or self.cores > 1):
            return hash((buffer.space.value, buffer.shape, buffer.dtype.name)) & _WORD
        return hash((buffer.kind, buffer.id)) & _WORD

    def _read(self, view: View, core: int) -> int:
        return hash((self._contents(view.buffer, core).number, view.offset, view.type.id))

    def _address(self, view: View, core: int) -> int:
        assert view.indirect is not None
        index = view.indirect.index
        if isinstance(index, VirtualRegister):
            return self._register(Register(index.id), core)
        return self._read(self.program.views[index._view], core)

    def _register(self, register: Register, core: int) -> int:
        """Return the contents of a register; each core numbers its own registers in order of use."""
        known = self.registers.get((core, register.number))
        if known is None:
            known = self.registers[core, register.number] = sum(key[0] == core for key in self.registers)
        return known


def _kind(variant: Variant) -> Hashable:
    """The variant, but for the numbers of registers, which differ between cores."""
    if not registers_of(variant):
        return variant.id
    attrs = variant.use.attrs
    plain = tuple((name, repr(value)) for name, value in attrs.items() if not isinstance(value, Register))
    return (variant.instruction.name, plain, tuple(view and view.id for view in variant.use.types.values()))
