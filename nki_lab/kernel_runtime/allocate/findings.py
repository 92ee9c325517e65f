"""Findings about memory that is full, nearly full, or given to two tensors at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from nki_lab.diagnostic import Diagnostic, Related
from nki_lab.kernel_runtime.allocate.lifetime import Lifetimes, Load, Pairs
from nki_lab.kernel_runtime.allocate.placing import AddressSpace, LiveBuffers, Placing
from nki_lab.kernel_runtime.footprint import Column, Mask
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.issue.source_location import finding_at, origin, span_at, title
from nki_lab.kernel_runtime.tensor import MemoryRegion

_LISTED: Final = 6  # live tensors that a finding names

_REMEDY: Final = {
    MemoryRegion.sbuf: "use smaller tiles, load a tile inside the loop that uses it, or keep what waits in HBM",
    MemoryRegion.psum: "copy each result to SBUF before the next matmuls start, or use tiles of fewer columns",
}


def capacity(
    program: Program, space: MemoryRegion, live: LiveBuffers, placing: Placing, need: Load
) -> Iterator[Diagnostic]:
    """NKI315 where no arrangement has room, NKI318 where the compiler makes some; NKI316 where none was found, or only
    in bytes thought to be reserved.

    The compiler of Beta 1 moves tensors to the next memory and back. Source: memory hierarchy overview; AWS's own
    kernels of that dialect are over capacity, also some that choose addresses. inferred: that of the current dialect
    refuses, as none of its kernels is.
    """
    memory = AddressSpace.of(space, program.arch)
    least = need.least
    over, near = np.flatnonzero(least > memory.capacity), np.flatnonzero(least > memory.usable)
    name, chip, code, note = space.value.upper(), program.arch.name, "NKI316", ""
    limit = f"live tensors <= {memory.capacity} bytes in each partition ({name} of {chip})"
    if len(over):
        op, worst = int(need.op[over[0]]), int(least.argmax())
        message = (
            f"live {name} tensors need {_amount(int(least[over[0]]), memory)} in each partition, "
            f"{chip} has {_amount(memory.capacity, memory)}"
        )
        if need.op[worst] != op:
            note = f"at most {_amount(int(least[worst]), memory)}, at line {program.site_of(int(need.op[worst])).line}"
        code = "NKI318" if program.dialect == "beta1" else "NKI315"
    elif placing.missing:
        first = placing.missing[0]
        op = live.first[first]
        message = (
            f"no {live.size[first]} bytes in one piece were found in {name} for {title(program, live.buffers[first])}"
        )
        note = "the live tensors would fit if they lay closer together"
    elif len(near):
        op, most = int(need.op[near[0]]), _amount(int(least.max()), memory)
        message = f"live {name} tensors need {most} of the {memory.capacity} in each partition"
        limit = f"about {memory.usable} bytes are free for kernels, the rest is thought to be reserved"
    else:
        return
    yield finding_at(
        program, op, code, message, note=note, limit=limit, remedy=_REMEDY[space], related=_largest(program, live, op)
    )


def clobbered(program: Program, times: Lifetimes, overlaps: Pairs) -> Iterator[Diagnostic]:
    """NKI317 for placed tensors of which one is written while the other holds a value that is read later."""
    if not overlaps:
        return
    columns = times.accesses
    order = np.argsort(columns.buffer, kind="stable")
    start = np.searchsorted(columns.buffer[order], np.arange(len(program.buffers) + 1))
    reported = set()
    for pair in overlaps:
        for victim, writer in (pair, pair[::-1]):
            mine, other = (order[start[number] : start[number + 1]] for number in (victim, writer))
            harm = _harm(columns.op[mine], columns.is_out[mine], columns.op[other[columns.is_out[other]]])
            if harm is None:
                continue
            write, read = harm
            key = (program.op_site[write], program.buffers[victim].site)
            if key not in reported:
                reported.add(key)
                yield _overlap(program, victim, writer, write, read)
            break


def _harm(ops: Column, is_out: Mask, writes: Column) -> tuple[int, int] | None:
    """(write, read): one of `writes` comes after a victim was written, and the victim's next access is a later read.

    `ops` and `is_out` are the victim's accesses.
    """
    if not is_out.any():
        return None
    for write in writes[writes > int(ops[is_out].min())].tolist():
        row = int(np.searchsorted(ops, write, side="right"))
        if row == len(ops):
            return None
        following = int(ops[row])
        if not is_out[ops == following].all():  # it reads, and may write the same place too
            return write, following
    return None


def _overlap(program: Program, victim: int, writer: int, write: int, read: int) -> Diagnostic:
    a, b = program.buffers[victim], program.buffers[writer]
    return finding_at(
        program,
        write,
        "NKI317",
        f"{title(program, b)} at {b.address} is written over {title(program, a)} at {a.address}, "
        f"which is read again at line {program.site_of(read).line}",
        limit="tensors placed over each other are the same memory, whichever was written last",
        remedy="move one of them, or read the first one before the second is written",
        related=[
            item for buffer in (a, b) for item in origin(program, buffer, f"{title(program, buffer)} is placed here")
        ],
    )


def _largest(program: Program, live: LiveBuffers, op: int) -> Iterator[Related]:
    """The largest tensors that live at an op."""
    rows = [row for row in range(len(live.buffers)) if live.first[row] <= op <= live.last[row]]
    rows.sort(key=lambda row: (-live.size[row], live.buffers[row].id))
    for row in rows[:_LISTED]:
        lines = sorted({program.site_of(end).line for end in (live.first[row], live.last[row])})
        where = f"line {lines[0]}" if len(lines) == 1 else f"lines {lines[0]} to {lines[1]}"
        text = f"{title(program, live.buffers[row])}: {live.size[row]} bytes, in use at {where}"
        yield Related(text, span_at(program, live.buffers[row].site))
    if len(rows) > _LISTED:
        rest = sum(live.size[row] for row in rows[_LISTED:])
        yield Related(f"and {len(rows) - _LISTED} more with {rest} bytes together")


def _amount(count: int, memory: AddressSpace) -> str:
    banks = f" ({-(-count // memory.bank)} banks)" if memory.bank else ""
    return f"{count} bytes{banks}"
