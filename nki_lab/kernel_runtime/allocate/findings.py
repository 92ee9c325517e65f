"""What is said about memory that is full, nearly full, or given to two tensors at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.diagnostic import Diagnostic, Related, diagnose
from nki_lab.kernel_runtime.allocate.lifetime import Column, Lifetimes, Load
from nki_lab.kernel_runtime.allocate.placing import Placing, Room, Tenants
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.issue.source_location import placed, span_of
from nki_lab.kernel_runtime.tensor import Buffer, MemoryRegion

_LISTED: Final = 6  # live tensors that a finding names

_REMEDY: Final = {
    MemoryRegion.sbuf: "use smaller tiles, load a tile inside the loop that uses it, or keep what waits in HBM",
    MemoryRegion.psum: "copy each result to SBUF before the next matmuls start, or use tiles of fewer columns",
}


def capacity(
    program: Program, space: MemoryRegion, tenants: Tenants, placing: Placing, need: Load
) -> Iterator[Diagnostic]:
    """NKI315 where no arrangement has room, NKI318 where the compiler makes some; NKI316 where none was found, or only
    in bytes thought to be reserved."""
    room = Room.of(space, program.arch)
    least = need.least
    over = np.flatnonzero(least > room.capacity)
    name, chip = space.value.upper(), program.arch.name
    limit = f"live tensors <= {room.capacity} bytes in each partition ({name} of {chip})"
    if len(over):
        op, most = int(need.op[over[0]]), int(least.max())
        what = f"live {name} tensors need {_amount(int(least[over[0]]), room)} in each partition"
        has = f"{chip} has {_amount(room.capacity, room)}"
        worst = int(need.op[int(least.argmax())])
        note = "" if worst == op else f"at most {_amount(most, room)}, at line {_line(program, worst)}"
        code = "NKI318" if _spills(program, tenants) else "NKI315"
        yield _at(program, code, op, f"{what}, {has}", note, limit, space, tenants)
    elif placing.missing:
        first = placing.missing[0]
        op, buffer = tenants.first[first], tenants.buffers[first]
        what = f"no {tenants.size[first]} bytes in one piece were found in {name} for {title(buffer)}"
        yield _at(program, "NKI316", op, what, "the live tensors would fit if they lay closer together", limit, space,
                  tenants)  # fmt: skip
    elif len(near := np.flatnonzero(least > room.usable)):
        op = int(need.op[near[0]])
        what = f"live {name} tensors need {_amount(int(least.max()), room)} of the {room.capacity} in each partition"
        limit = f"about {room.usable} bytes are free for kernels, the rest is thought to be reserved"
        yield _at(program, "NKI316", op, what, "", limit, space, tenants)


def _spills(program: Program, tenants: Tenants) -> bool:
    """Whether the compiler may move tensors to the next memory and back: Beta 1's does so with those it places itself.

    Source: memory hierarchy overview. inferred: the compiler of the current dialect refuses; AWS's own Beta 1 kernels
    are over capacity, none of the current ones is.
    """
    return program.dialect == "beta1" and all(buffer.address is None for buffer in tenants.buffers)


def clobbered(program: Program, times: Lifetimes, overlaps: list[tuple[int, int]]) -> Iterator[Diagnostic]:
    """NKI317 for placed tensors of which one is written while the other holds a value that is read later."""
    if not overlaps:
        return
    columns = times.accesses
    order = np.argsort(columns.buffer, kind="stable")
    start = np.searchsorted(columns.buffer[order], np.arange(len(program.buffers) + 1))
    said = set()
    for pair in overlaps:
        for victim, writer in (pair, pair[::-1]):
            mine, other = (order[start[number] : start[number + 1]] for number in (victim, writer))
            writes = columns.op[other[columns.is_out[other]]]
            harm = _harm(columns.op[mine], columns.is_out[mine], writes)
            if harm is None:
                continue
            write, read = harm
            key = (program.op_site[write], program.buffers[victim].site)
            if key not in said:
                said.add(key)
                yield _overlap(program, victim, writer, write, read)
            break


def _harm(ops: Column, is_out: NDArray[np.bool_], writes: Column) -> tuple[int, int] | None:
    """(write, read): one of `writes` comes after a victim was written, and the victim's next access is a later read.

    `ops` and `is_out` are the victim's accesses.
    """
    if not is_out.any():
        return None
    written = int(ops[is_out].min())
    for write in writes[writes > written].tolist():
        row = int(np.searchsorted(ops, write, side="right"))
        if row == len(ops):
            return None
        following = int(ops[row])
        if not is_out[ops == following].any():
            return write, following
    return None


def _overlap(program: Program, victim: int, writer: int, write: int, read: int) -> Diagnostic:
    a, b = program.buffers[victim], program.buffers[writer]
    assert a.address is not None
    assert b.address is not None
    name = program.variants[program.op_variant[write]].instruction.name
    message = (
        f"{name}: {title(b)} at {b.address} is written over {title(a)} at {a.address}, "
        f"which is read again at line {_line(program, read)}"
    )
    item = diagnose(
        "NKI317",
        message,
        limit="tensors placed over each other are the same memory, whichever was written last",
        help="move one of them, or read the first one before the second is written",
        related=[*_made(program, a), *_made(program, b)],
    )
    return placed(item, program.sites[program.op_site[write]])


def _at(
    program: Program, code: str, op: int, message: str, note: str, limit: str, space: MemoryRegion, tenants: Tenants
) -> Diagnostic:
    """The finding at an op, with the largest tensors that live then."""
    live = [row for row in range(len(tenants.buffers)) if tenants.first[row] <= op <= tenants.last[row]]
    live.sort(key=lambda row: (-tenants.size[row], tenants.buffers[row].id))
    related = [_resident(program, tenants, row) for row in live[:_LISTED]]
    if len(live) > _LISTED:
        rest = sum(tenants.size[row] for row in live[_LISTED:])
        related.append(Related(f"and {len(live) - _LISTED} more with {rest} bytes together"))
    name = program.variants[program.op_variant[op]].instruction.name
    item = diagnose(code, f"{name}: {message}", note=note, limit=limit, help=_REMEDY[space], related=related)
    return placed(item, program.sites[program.op_site[op]])


def _resident(program: Program, tenants: Tenants, row: int) -> Related:
    buffer = tenants.buffers[row]
    lines = sorted({_line(program, tenants.first[row]), _line(program, tenants.last[row])})
    where = f"line {lines[0]}" if len(lines) == 1 else f"lines {lines[0]} to {lines[1]}"
    made = program.sites[buffer.site] if buffer.site >= 0 else None
    span = span_of(made) if made is not None and made.file else None
    return Related(f"{title(buffer)}: {tenants.size[row]} bytes, in use at {where}", span)


def _made(program: Program, buffer: Buffer) -> Iterator[Related]:
    made = program.sites[buffer.site] if buffer.site >= 0 else None
    if made is not None and made.file:
        yield Related(f"{title(buffer)} is placed here", span_of(made))


def _amount(count: int, room: Room) -> str:
    banks = f" ({-(-count // room.bank)} banks)" if room.bank else ""
    return f"{count} bytes{banks}"


def _line(program: Program, op: int) -> int:
    return program.sites[program.op_site[op]].line


def title(buffer: Buffer) -> str:
    """A tensor as users know it."""
    return f"{buffer.name!r}" if buffer.name else f"a {buffer.shape} {buffer.dtype.name} tensor"
