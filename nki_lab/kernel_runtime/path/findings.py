"""What can be wrong around device loops whichever way a program goes: registers, and tensors of a body used outside."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nki_lab.diagnostic import Diagnostic, Related, diagnose
from nki_lab.isa.spec import Register
from nki_lab.kernel_runtime.ir import Program, Region, access_columns, register_written, registers_read
from nki_lab.kernel_runtime.issue.source_location import placed, span_of
from nki_lab.kernel_runtime.tensor import Buffer, VirtualRegister


def loop_findings(program: Program) -> Iterator[Diagnostic]:
    """NKI301 for registers that are read before anything has written them, NKI314 for tensors used after their loop.

    NKI404 for edges of the user's schedule that cross the border of a loop.
    """
    if program.registers:
        yield from _unwritten_registers(program)
    if program.regions and program.user_edges:
        yield from _crossing(program)
    if any(region.buffers[0] < region.buffers[1] for region in program.regions):
        yield from _escaped(program)


def _unwritten_registers(program: Program) -> Iterator[Diagnostic]:
    """Registers in the order of the program, bodies once: what the first pass finds, later ones find too."""
    written: set[int] = set()
    said: set[int] = set()
    for place, _, numbers, is_write, site in sorted(_events(program)):
        for number in numbers:
            if is_write:
                written.add(number)
            elif number not in written and number not in said and place >= 0:
                said.add(number)
                item = diagnose(
                    "NKI301",
                    f"register {program.registers[number] or Register(number)!r} is read and nothing has written it",
                    limit="undefined until register_alloc(value), register_move or register_load writes it",
                    help="allocate it with its first value: nisa.register_alloc(0)",
                )
                yield placed(item, program.sites[site])


def _events(program: Program) -> Iterator[tuple[int, int, tuple[int, ...], bool, int]]:
    """(place, order at it, registers, whether they are written, site) of whatever uses registers."""
    for region in program.regions:
        deciding = (region.lower, region.upper) if region.kind == "for" else (region.lower,)
        yield region.first, -2, _numbers(*deciding), False, region.site
        yield region.first, -1, (region.register,), True, region.site
        if region.kind == "while":
            yield region.end, -3, _numbers(region.upper), False, region.site
    moved = {
        view.id: view.indirect.index.id
        for view in program.views
        if view.indirect is not None and isinstance(view.indirect.index, VirtualRegister)
    }
    written = {v.id: register_written(v) for v in program.variants if v.instruction.writes_register}
    reading = {v.id: found for v in program.variants if (found := registers_read(v))}
    rows, views = program.op_variant, program.access_view
    wanted = {v.id for v in program.variants if any(view and view.indirect for view in v.use.types.values())}
    for op in np.flatnonzero(np.isin(np.frombuffer(rows, np.uint32), [*wanted, *written, *reading])).tolist():
        variant, site = program.variants[rows[op]], program.op_site[op]
        first = program.op_access[op]
        used = [moved[number] for number in views[first : first + len(variant.names)] if number in moved]
        used += [register.number for register in reading.get(variant.id, {}).values()]
        if used:
            yield op, 0, tuple(used), False, site
        if variant.id in written:
            yield op, 1, (written[variant.id],), True, site


def _numbers(*sources: Register | int) -> tuple[int, ...]:
    return tuple(source.number for source in sources if isinstance(source, Register))


def _crossing(program: Program) -> Iterator[Diagnostic]:
    """Edges of the user between ops that are not in the same loop."""
    inside = np.full(len(program), -1, np.int64)
    for region in program.regions:  # inner loops after outer ones
        inside[region.first : region.end] = region.id
    for op, before in program.user_edges:
        if inside[op] != inside[before]:
            names = [program.op_names.get(row) or program.variants[program.op_variant[row]].instruction.name
                     for row in (op, before)]  # fmt: skip
            item = diagnose(
                "NKI404",
                f"{names[0]} waits for {names[1]}, and a device loop lies between them",
                limit="an edge joins instructions of the same pass of the same loops",
                help="leave the edge out: what the instructions read and write orders them anyway",
            )
            yield placed(item, program.sites[program.op_site[op]])


def _escaped(program: Program) -> Iterator[Diagnostic]:
    """Tensors that were made in a body, and that ops outside of it access, or that the kernel returns."""
    accesses = access_columns(program)
    said: set[int] = set()
    returned = {tensor._buffer.id for tensor in program.outputs}
    for region in reversed(program.regions):  # inner loops first: theirs is the nearer body
        low, high = region.buffers
        mine = (accesses.buffer >= low) & (accesses.buffer < high)
        outside = mine & ((accesses.op < region.first) | (accesses.op >= region.end))
        for buffer, op in zip(accesses.buffer[outside].tolist(), accesses.op[outside].tolist(), strict=True):
            if buffer not in said:
                said.add(buffer)
                yield _used_after(program, region, program.buffers[buffer], program.op_site[op], "used")
        for buffer in sorted(returned & set(range(low, high)) - said):
            said.add(buffer)
            yield _used_after(program, region, program.buffers[buffer], program.buffers[buffer].site, "returned")


def _used_after(program: Program, region: Region, buffer: Buffer, site: int, how: str) -> Diagnostic:
    what = repr(buffer.name) if buffer.name else f"a {buffer.shape} {buffer.dtype.name} tensor"
    loop = program.sites[region.site]
    item = diagnose(
        "NKI314",
        f"{what} is allocated in the body of the device loop at line {loop.line}, and {how} after it",
        limit="a tensor of a body is there while the body runs",
        help="allocate it before the loop",
        related=(Related("the loop", span_of(loop) if loop.file else None),),
    )
    return placed(item, program.sites[site])
