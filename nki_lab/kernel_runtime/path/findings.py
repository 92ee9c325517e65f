"""Findings around device loops on any path: registers, and tensors of a body used outside."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nki_lab.diagnostic import Diagnostic, Related, diagnose
from nki_lab.isa.spec import Register
from nki_lab.kernel_runtime.ir import Program, Region, access_columns
from nki_lab.kernel_runtime.issue.source_location import placed, span_of
from nki_lab.kernel_runtime.path.follow import register_reads, register_writes
from nki_lab.kernel_runtime.tensor import Buffer


def loop_findings(program: Program) -> Iterator[Diagnostic]:
    """NKI301 for registers that are read before anything has written them, NKI314 for tensors used after their loop.

    NKI404 for edges of the user's schedule that cross the border of a loop.
    """
    if program.registers:
        yield from _unwritten_registers(program)
    if program.regions and program.user_edges:
        yield from _crossing(program)
    if any(side.buffers[0] < side.buffers[1] for region in program.regions for side in region.sides):
        yield from _escaped(program)


def _unwritten_registers(program: Program) -> Iterator[Diagnostic]:
    """Walk the program in order, bodies once: the first iteration has all findings of later ones."""
    written: set[int] = set()
    seen: set[int] = set()
    for place, _, number, is_write, site in sorted(_events(program)):
        if is_write:
            written.add(number)
        elif number not in written | seen and place >= 0:
            seen.add(number)
            yield placed(
                diagnose(
                    "NKI301",
                    f"register {program.registers[number] or Register(number)!r} is read and nothing has written it",
                    limit="undefined until register_alloc(value), register_move or register_load writes it",
                    help="allocate it with its first value: nisa.register_alloc(0)",
                ),
                program.sites[site],
            )


def _events(program: Program) -> Iterator[tuple[int, int, int, bool, int]]:
    """Yield (place, order at it, register, whether it is written, site) of all uses of registers."""
    for region in program.regions:
        for side in region.sides:
            upper = (region.first, -2, side.upper) if region.kind == "for" else (region.end, -3, side.upper)
            for place, order, bound in ((region.first, -2, side.lower), upper):
                if isinstance(bound, Register):
                    yield place, order, bound.number, False, side.site
            yield region.first, -1, side.register, True, side.site
    sites = program.op_site
    yield from ((op, 0, register, False, sites[op]) for op, _, register in register_reads(program))
    yield from ((op, 1, register, True, sites[op]) for op, register, _ in register_writes(program))


def _crossing(program: Program) -> Iterator[Diagnostic]:
    """Yield the edges of the user between ops that are not in the same loop."""
    inside = np.full(len(program), -1, np.int64)
    for region in program.regions:  # inner loops after outer ones
        inside[region.first : region.end] = region.id
    for op, before in program.user_edges:
        if inside[op] != inside[before]:
            names = [
                program.op_names.get(row) or program.variants[program.op_variant[row]].instruction.name
                for row in (op, before)
            ]
            yield placed(
                diagnose(
                    "NKI404",
                    f"{names[0]} waits for {names[1]}, and a device loop lies between them",
                    limit="an edge joins instructions of the same iteration of the same loops",
                    help="leave the edge out: what the instructions read and write orders them anyway",
                ),
                program.sites[program.op_site[op]],
            )


def _escaped(program: Program) -> Iterator[Diagnostic]:
    """Yield the tensors made in a body that ops outside of it access, or that the kernel returns."""
    accesses = access_columns(program)
    seen: set[int] = set()
    returned = sorted(tensor._buffer.id for tensor in program.outputs)
    # Inner loops first: theirs is the nearer body.
    for region, (low, high) in [(item, side.buffers) for item in reversed(program.regions) for side in item.sides]:
        mine = (accesses.buffer >= low) & (accesses.buffer < high)
        outside = mine & ((accesses.op < region.first) | (accesses.op >= region.end))
        used = zip(accesses.buffer[outside].tolist(), accesses.op[outside].tolist(), strict=True)
        uses = [(buffer, program.op_site[op], "used") for buffer, op in used]
        uses += [(buffer, program.buffers[buffer].site, "returned") for buffer in returned if low <= buffer < high]
        for buffer, site, how in uses:
            if buffer not in seen:
                seen.add(buffer)
                yield _used_after(program, region, program.buffers[buffer], site, how)


def _used_after(program: Program, region: Region, buffer: Buffer, site: int, how: str) -> Diagnostic:
    what = repr(buffer.name) if buffer.name else f"a {buffer.shape} {buffer.dtype.name} tensor"
    loop = program.sites[region.site]
    return placed(
        diagnose(
            "NKI314",
            f"{what} is allocated in the body of the device loop at line {loop.line}, and {how} after it",
            limit="a tensor of a body is there while the body runs",
            help="allocate it before the loop",
            related=(Related("the loop", span_of(loop) if loop.file else None),),
        ),
        program.sites[site],
    )
