"""Programs of two cores for the tests of races: drawn steps on small tensors that both see, and every way to run them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.collectives.core_sync import synchronize_cores
from nki_lab.kernel_runtime.ir import Program, verify
from nki_lab.kernel_runtime.language.grid import GridBuilder
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.tracer import trace
from tests.kernel_runtime.drawn_kernels import elements, nisa, nl

ROWS, COLUMNS = 4, 4
BOTH = 2


@dataclass(frozen=True)
class Step:
    """What a core does, or BOTH do: "write", "read" or "add" to a part of a tensor, or "meet" over one.

    `part` is (first row, rows, first column, columns, column step), or (first element, elements) of the flat tensor.
    """

    kind: str
    core: int
    tensor: int
    part: tuple[int, ...] = ()


@st.composite
def parts(draw: Any) -> tuple[int, ...]:
    if draw(st.booleans()):
        first = draw(st.integers(0, ROWS * COLUMNS - 1))
        return first, draw(st.integers(1, ROWS * COLUMNS - first))
    row, column, step = draw(st.integers(0, ROWS - 1)), draw(st.integers(0, COLUMNS - 1)), draw(st.integers(1, 2))
    rows, columns = draw(st.integers(1, ROWS - row)), draw(st.integers(1, (COLUMNS - 1 - column) // step + 1))
    return row, rows, column, columns, step


KINDS = ("write", "write", "read", "read", "add", "meet")
APART = st.builds(Step, st.sampled_from(KINDS), st.integers(0, 1), st.integers(0, 1), parts())
ALIKE = st.builds(Step, st.sampled_from(KINDS), st.just(BOTH), st.integers(0, 1), parts())


def two_cores(steps: list[Step], *, apart: bool = False) -> Program:
    """The program of a launch on two cores, each with a tile of its own, or `apart` with one for each step.

    What a core writes is never written twice.
    """

    def kernel() -> None:
        me = nl.program_id(0)
        tensors = [nl.ndarray((ROWS, COLUMNS), nl.float32, buffer=nl.shared_hbm) for _ in range(2)]
        seen = nl.ndarray((1, ROWS * COLUMNS), nl.float32, buffer=nl.sbuf)
        nisa.memset(seen, 0.0)
        for number, step in enumerate(steps):
            tensor = tensors[step.tensor]
            if apart:
                seen = nl.ndarray((1, ROWS * COLUMNS), nl.float32, buffer=nl.sbuf)
                nisa.memset(seen, 0.0)
            if step.kind == "meet":
                nisa.core_barrier(tensor, (0, 1))
            elif step.core in (me, BOTH):
                part = part_of(tensor, step.part)
                tile = seen[:, : part.size].reshape((1, *part.shape))
                if step.kind == "read":
                    nisa.dma_copy(tile, part.reshape((1, *part.shape)))
                elif step.kind == "write":
                    value = float(number + 1 if step.core == BOTH else 100 * (me + 1) + number)
                    nisa.tensor_scalar(seen, seen, nl.add, value)
                    nisa.dma_copy(part.reshape((1, *part.shape)), tile)
                else:
                    nisa.dma_compute(part.reshape((1, *part.shape)), [part.reshape((1, *part.shape)), tile], nl.add)

    program = Program("drawn", arch_of("trn2"), Options())
    builder = GridBuilder(program)
    for core in range(2):
        builder.start((2,), (core,))
        trace(kernel, (), {}, builder)
    synchronize_cores(program)
    verify(program)
    return program


def part_of(tensor: Any, part: tuple[int, ...]) -> Any:
    if len(part) == 2:
        return tensor.reshape((ROWS * COLUMNS,))[part[0] : part[0] + part[1]]
    row, rows, column, columns, step = part
    return tensor[row : row + rows, column : column + (columns - 1) * step + 1 : step]


@dataclass(frozen=True)
class Access:
    """An op on tensors that both cores see: the bytes that it reads and writes, and whom it meets (-1: nobody)."""

    op: int
    core: int
    reads: frozenset[tuple[int, int]]
    writes: frozenset[tuple[int, int]]
    meets: int = -1


def accesses_of(program: Program) -> list[Access]:
    """The ops that matter between cores, in the order of the program."""
    met = dict(program.synchronizations) | {b: a for a, b in program.synchronizations}
    out = []
    for op in program.ops():
        touched: dict[bool, set[tuple[int, int]]] = {False: set(), True: set()}
        for view, is_out in zip(op.views, op.variant.outs, strict=True):
            if not view.buffer.on_chip and op.index not in met:
                touched[is_out] |= {(view.buffer.id, at) for at in elements(view)}
        if op.index in met or touched[False] or touched[True]:
            reads, writes = frozenset(touched[False]), frozenset(touched[True])
            out.append(Access(op.index, program.core_of(op.index), reads, writes, met.get(op.index, -1)))
    return out


def conflicts_of(accesses: list[Access]) -> set[tuple[int, int]]:
    """Pairs of ops, the lower first, that touch a byte, one writing it, and that nothing orders: by closure."""
    before = {item.op: {item.op} for item in accesses}  # everything that comes before, and itself
    changed = True
    while changed:
        changed = False
        latest: dict[int, int] = {}
        for item in accesses:
            known = set(before[item.op])
            if item.core in latest:
                known |= before[latest[item.core]]
            if item.meets >= 0:
                known |= before[item.meets] - {item.meets}
            latest[item.core] = item.op
            changed |= known != before[item.op]
            before[item.op] = known
    # What follows a meeting follows both of its ops.
    for item in accesses:
        for other in list(before[item.op]):
            met = next(one.meets for one in accesses if one.op == other)
            if met >= 0 and other != item.op:
                before[item.op] |= before[met]
    return {
        (a.op, b.op)
        for a in accesses
        for b in accesses
        if a.op < b.op and a.core != b.core and (a.writes & (b.reads | b.writes) or a.reads & b.writes)
        and a.op not in before[b.op] and b.op not in before[a.op]
    }  # fmt: skip


def outcomes(steps: list[Step]) -> set[Any]:
    """What every read finds and what is left at the end, for every order of the two cores that their meetings allow."""
    sides = [[(n, step) for n, step in enumerate(steps) if step.kind == "meet" or step.core in (core, BOTH)]
             for core in range(2)]  # fmt: skip
    zeros = (0,) * (ROWS * COLUMNS)

    def go(at: tuple[int, ...], memory: dict[Any, Any], tiles: tuple[Any, ...], log: tuple[Any, ...]) -> Iterator[Any]:
        ahead = [sides[core][at[core]] if at[core] < len(sides[core]) else None for core in range(2)]
        if not any(ahead):
            yield log, tuple(sorted(memory.items()))
        elif all(item is not None and item[1].kind == "meet" for item in ahead):
            yield from go((at[0] + 1, at[1] + 1), memory, tiles, log)
        else:
            for core, item in enumerate(ahead):
                if item is not None and item[1].kind != "meet":
                    tile, writes, found = _done(core, *item, tiles[core], memory)
                    yield from go(
                        _with(at, core, at[core] + 1), memory | writes, _with(tiles, core, tile),
                        _with(log, core, (*log[core], found)),
                    )  # fmt: skip

    return set(go((0, 0), {}, (zeros, zeros), ((), ())))


def _with(items: tuple[Any, ...], place: int, item: Any) -> tuple[Any, ...]:
    return (*items[:place], item, *items[place + 1 :])


def _done(core: int, number: int, step: Step, tile: tuple[Any, ...], memory: dict[Any, Any]) -> tuple[Any, ...]:
    """The tile after a step, what it writes, and what it reads; every element of memory is something else at first."""
    places = elements_of(step)
    if step.kind == "write":
        tile = tuple(hash((value, number, step.core if step.core == BOTH else core)) for value in tile)
        return tile, dict(zip(places, tile, strict=False)), ()
    found = tuple(memory.get(place, place) for place in places)
    if step.kind == "read":
        return (*found, *tile[len(found) :]), {}, found
    added = {place: hash((value, more)) for place, value, more in zip(places, found, tile, strict=False)}
    return tile, added, found


def elements_of(step: Step) -> list[tuple[int, int]]:
    """(tensor, element) of what a step accesses, in the order of the view."""
    if len(step.part) == 2:
        return [(step.tensor, at) for at in range(step.part[0], sum(step.part))]
    row, rows, column, columns, by = step.part
    across = range(column, column + columns * by, by)
    return [(step.tensor, COLUMNS * y + x) for y in range(row, row + rows) for x in across]


def waits_of(program: Program) -> dict[int, set[int]]:
    """For each op all that it waits for, itself among it: what touches the same bytes on its core, and who is met."""
    touched: dict[int, tuple[set[Any], set[Any]]] = {}
    for op in program.ops():
        reads: set[Any] = set()
        writes: set[Any] = set()
        for view, is_out in zip(op.views, op.variant.outs, strict=True):
            places = {(view.buffer.id, at) for at in elements(view)}
            (writes if is_out or op.variant.instruction.only_orders else reads).update(places)
        touched[op.index] = reads, writes
    met = dict(program.synchronizations) | {b: a for a, b in program.synchronizations}
    out: dict[int, set[int]] = {}
    for op in touched:
        both = (op, met[op]) if op in met else (op,)
        found = set(both)
        for end in both:
            for other in range(min(both)):
                (read, wrote), (reads, writes) = touched[other], touched[end]
                if program.core_of(other) == program.core_of(end) and (wrote & (reads | writes) or read & writes):
                    found |= out[other]
        out[op] = found
    return out
