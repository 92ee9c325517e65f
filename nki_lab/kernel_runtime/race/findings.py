"""Findings about races: at the later of two accesses, with the earlier ones, the bytes and what to insert."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from nki_lab.diagnostic import Diagnostic, Related
from nki_lab.kernel_runtime.footprint import Column, Overlap, distinct, in_both, overlap_of, progression
from nki_lab.kernel_runtime.ir import Program, View, access_columns
from nki_lab.kernel_runtime.issue.source_location import finding_at, instruction_name, origin, span_at, title
from nki_lab.kernel_runtime.race.conflicts import Conflict
from nki_lab.kernel_runtime.tensor import Buffer
from nki_lab.kernel_runtime.tensor.pattern import normalise

_STREAMING: Final = ("vector", "scalar", "gpsimd")
"""Engines that write results while they read."""


class Transfer(NamedTuple):
    """A transfer, or an instruction, that overlaps itself: its first op, and the views; `source` is -1 where it writes
    bytes twice."""

    op: int
    target: int
    source: int


def self_overlapping(program: Program) -> Iterator[Transfer]:
    """DMAs that write bytes which they also read for other elements, and those that write bytes more than once."""
    for op in _suspects(program).tolist():
        yield from _of_one(program, op)


def _suspects(program: Program) -> Column:
    """DMAs that read and write one tensor, and the first of each kind that writes bytes twice."""
    twice = np.array(
        [
            item.engine == "dma"
            and any(
                writes_twice(kind.shape, kind.strides)
                for name, is_out in zip(item.names, item.outs, strict=True)
                if is_out and (kind := item.use.types[name]) is not None
            )
            for item in program.variants
        ],
        bool,
    )
    variant = program.variant_column()
    accesses = access_columns(program, indices=False)
    rows = np.flatnonzero(program.ops_where(lambda item: item.engine == "dma")[accesses.op])
    key = accesses.op[rows] * max(len(program.buffers), 1) + accesses.buffer[rows]
    is_out = accesses.is_out[rows]
    both = in_both(key[is_out], key[~is_out]) // max(len(program.buffers), 1)
    kinds, first = np.unique(variant, return_index=True)
    found: Column = distinct(np.concatenate((both, first[twice[kinds]])))
    return found


def _of_one(program: Program, op: int) -> Iterator[Transfer]:
    variant = program.variant_of(op)
    views = zip(program.views_of(op), variant.outs, strict=True)
    direct = [(view, is_out) for view, is_out in views if view.indirect is None]
    exchanges = op in program.partners
    permutes = "axes" in variant.instruction.operands
    for target in (view for view, is_out in direct if is_out):
        if writes_twice(target.type.shape, target.type.strides):
            yield Transfer(op, target.id, -1)
        for source in (view for view, is_out in direct if not is_out):
            moves = source.buffer is target.buffer and (exchanges or permutes or not _is_in_place(target, source))
            if moves and overlap_of(target, source) is not None:
                yield Transfer(op, target.id, source.id)
                break


def shifted(program: Program) -> Iterator[Transfer]:
    """Instructions of engines that write elements of a tensor which they read later in their stream."""
    accesses = access_columns(program, indices=False)
    rows = np.flatnonzero(program.ops_where(lambda item: item.engine in _STREAMING)[accesses.op])
    key = accesses.op[rows] * max(len(program.buffers), 1) + accesses.buffer[rows]
    is_out = accesses.is_out[rows]
    both = in_both(key[is_out], key[~is_out]) // max(len(program.buffers), 1)
    for op in distinct(both).tolist():
        views = list(zip(program.views_of(op), program.variant_of(op).outs, strict=True))
        targets, sources = (
            [view for view, out in views if out is way and view.indirect is None] for way in (True, False)
        )
        found = next(((one, other) for one in targets for other in sources if _is_ahead(one, other)), None)
        if found is not None:
            yield Transfer(op, found[0].id, found[1].id)


def _is_ahead(target: View, source: View) -> bool:
    """Whether elements go to places further on in the partitions that they come from, some of them read later."""
    here, there = target.type, source.type
    if target.buffer is not source.buffer or here.dtype is not there.dtype or len(here.shape) < 2:
        return False
    if normalise(here.shape, here.strides) != normalise(there.shape, there.strides):
        return False
    distance = target.offset - source.offset
    within = distance % here.strides[0] if here.strides[0] else distance
    return distance > 0 and within > 0 and overlap_of(target, source) is not None


def in_one_stream(program: Program, found: Iterable[Transfer]) -> Iterator[Diagnostic]:
    """NKI422 for instructions that write what they have yet to read; one for each place of the source."""
    reported: set[int] = set()
    for item in found:
        site = program.op_site[item.op]
        if site in reported:
            continue
        reported.add(site)
        target = program.views[item.target]
        yield finding_at(
            program,
            item.op,
            "NKI422",
            f"writes elements of {title(program, target.buffer)} that it has yet to read",
            operand="dst",
            note=_bytes(overlap_of(target, program.views[item.source]), target.buffer.shape),
            remedy="write into another tile, and go on with that",
            limit="an engine writes its first results while it reads later elements",
            related=_allocation(program, target.buffer),
        )


def _is_in_place(target: View, source: View) -> bool:
    """Whether each element goes to where it came from."""
    here, there = target.type, source.type
    return (
        target.offset == source.offset
        and here.dtype is there.dtype
        and normalise(here.shape, here.strides) == normalise(there.shape, there.strides)
    )


@lru_cache(maxsize=4096)
def writes_twice(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether two elements of a pattern lie at one place; False where it is too large to tell."""
    dims = [(size, abs(step)) for size, step in zip(shape, strides, strict=True) if size > 1 and step]
    found = progression(0, dims, 1)
    return int((found.stop - found.start).sum()) < math.prod(shape)


_MOST_OTHERS: Final = 4  # other places that a finding names

_LIMIT: Final = "nothing but core_barrier and sendrecv orders what the two cores of a launch do"


def between_cores(program: Program, conflicts: Iterable[Conflict]) -> Iterator[Diagnostic]:
    """NKI407 for a read and a write of two cores without order, NKI408 where both write; one for each place.

    A place with a read that nothing orders is not reported for its writes as well.
    """
    conflicts = list(conflicts)
    certain = _by_place(program, (item for item in conflicts if item.certain))
    both_write = _by_place(program, (item for item in conflicts if not item.certain))
    for code, places in (("NKI407", certain), ("NKI408", both_write)):
        for site, found in places.items():
            if code == "NKI407" or site not in certain:
                yield _unordered(program, code, list(found.values()))


def _by_place(program: Program, conflicts: Iterable[Conflict]) -> dict[int, dict[int, Conflict]]:
    """Conflicts by the place of the later access, then by that of the earlier one; the first of each."""
    out: dict[int, dict[int, Conflict]] = {}
    for found in sorted(conflicts, key=lambda item: item.late):
        early, late = (program.op_site[op] for op, _ in (found.early, found.late))
        out.setdefault(late, {}).setdefault(early, found)
    return {late: dict(sorted(out[late].items())) for late in sorted(out)}


def _unordered(program: Program, code: str, conflicts: list[Conflict]) -> Diagnostic:
    first = conflicts[0]
    tensor = title(program, _buffer(program, first))
    early, late = _cores(program, first)
    if first.early_writes and first.late_writes:
        message = f"cores {min(early, late)} and {max(early, late)} write the same bytes of {tensor} in no order"
    elif first.late_writes:
        message = f"core {late} writes bytes of {tensor} that core {early} may not have read yet"
    else:
        message = f"core {late} reads bytes of {tensor} that core {early} may not have written yet"
    others = [
        _related(program, item.early[0], f"core {_cores(program, item)[0]} {_verb(item.early_writes)} them here")
        for item in conflicts[:_MOST_OTHERS]
    ]
    return _conflict(program, code, first, message, _LIMIT, _remedy(program, first), others)


def _remedy(program: Program, found: Conflict) -> str:
    early, late = (program.site_of(op).line for op, _ in (found.early, found.late))
    if found.early_writes and found.late_writes:
        return "let each core write a part of its own, by nl.program_id(0), or only one of them write"
    barrier = f"put nisa.core_barrier({_buffer(program, found).name or 'the tensor'}, (0, 1)) on both cores"
    if early == late:
        return f"{barrier} before line {late} is executed again"
    if early < late:
        return f"{barrier} between lines {early} and {late}"
    return f"{barrier} after line {early}, before line {late} is executed again"


def other_tensor(program: Program, conflicts: Iterable[Conflict]) -> Iterator[Diagnostic]:
    """NKI409 for accesses of two cores that synchronize between them, over other tensors."""
    reported: set[int] = set()
    for found in sorted(conflicts, key=lambda item: (item.late, item.early)):
        site = program.op_site[found.late[0]]
        if site in reported:
            continue
        reported.add(site)
        buffer = _buffer(program, found)
        early, late = _cores(program, found)
        between = _between(program, found)
        about = " and ".join(dict.fromkeys(title(program, view.buffer) for view in program.views_of(between)))
        yield _conflict(
            program,
            "NKI409",
            found,
            f"core {late} {_verb(found.late_writes)} bytes of {title(program, buffer)} that core {early} "
            f"{_verb(found.early_writes)}, and {instruction_name(program, between)} at line "
            f"{program.site_of(between).line} is about {about}",
            "a barrier orders the accesses of its tensor, an exchange those of its tiles",
            f"name the tensor that both cores access: nisa.core_barrier({buffer.name or '...'}, (0, 1))",
            [
                _related(program, found.early[0], f"core {early} {_verb(found.early_writes)} them here"),
                _related(program, between, "the cores synchronize here"),
            ],
        )


def _conflict(
    program: Program, code: str, found: Conflict, message: str, limit: str, remedy: str, related: list[Related]
) -> Diagnostic:
    """Return the finding about two accesses, at the later one."""
    buffer, (op, number) = _buffer(program, found), found.late
    operands = zip(program.variant_of(op).names, program.views_of(op), strict=True)
    return finding_at(
        program,
        op,
        code,
        message,
        operand=next((name for name, view in operands if view.id == number), ""),
        note=_bytes(overlap_of(*(program.views[view] for _, view in (found.early, found.late))), buffer.shape),
        limit=limit,
        remedy=remedy,
        related=[*related, *_allocation(program, buffer)],
    )


def _between(program: Program, found: Conflict) -> int:
    """The last op in which the later access's core synchronized with the other one before it."""
    core, op = program.core_of(found.late[0]), found.late[0]
    ops = [row for pair in program.synchronizations for row in pair if program.core_of(row) == core and row < op]
    return max(ops) if ops else program.synchronizations[0][0]


def in_one_transfer(program: Program, transfers: Iterable[Transfer]) -> Iterator[Diagnostic]:
    """NKI410 for DMAs that read bytes which they write, NKI411 for those that write bytes more than once."""
    reported: set[tuple[str, int]] = set()
    for found in transfers:
        code = "NKI410" if found.source >= 0 else "NKI411"
        if (code, program.op_site[found.op]) in reported:
            continue
        reported.add((code, program.op_site[found.op]))
        target = program.views[found.target]
        tensor, note = title(program, target.buffer), f"shape {target.type.shape}, strides {target.type.strides}"
        if code == "NKI410":
            note = _bytes(overlap_of(target, program.views[found.source]), target.buffer.shape)
        if code == "NKI411":
            message = f"dst has several elements at one place of {tensor}"
            remedy = "write each element once: the source of a broadcast may repeat, dst may not"
        elif found.op in program.partners:
            message = f"sends bytes of {tensor} that come in at the same time"
            remedy = "receive into a tile of its own"
        else:
            message = f"writes bytes of {tensor} that it also reads"
            remedy = "copy to another tensor, and from there back"
        yield finding_at(
            program,
            found.op,
            code,
            message,
            operand="dst",
            note=note,
            remedy=remedy,
            limit="the DMA engines of a core move the rows of a transfer at the same time",
            related=_allocation(program, target.buffer),
        )


def _bytes(found: Overlap | None, shape: tuple[int, ...]) -> str:
    """The bytes in words."""
    if found is None:
        return ""
    (top, bottom), (left, right) = found.rows, found.columns
    if bottom - top == 1 and found.row_bytes == right - left and top == 0:
        return f"all of {shape}"
    if found.row_bytes == right - left or bottom - top == 1:
        return f"bytes {top * found.row_bytes + left} to {(bottom - 1) * found.row_bytes + right - 1} of {shape}"
    rows = f"rows {top} to {bottom - 1} of {found.row_bytes} bytes"
    return f"{rows}, bytes {left} to {right - 1} of each"


def _buffer(program: Program, found: Conflict) -> Buffer:
    return program.views[found.late[1]].buffer


def _cores(program: Program, found: Conflict) -> tuple[int, int]:
    """The cores of the earlier and of the later access."""
    return program.core_of(found.early[0]), program.core_of(found.late[0])


def _verb(writes: bool) -> str:
    return "writes" if writes else "reads"


def _related(program: Program, op: int, text: str) -> Related:
    return Related(text, span_at(program, program.op_site[op]))


def _allocation(program: Program, buffer: Buffer) -> list[Related]:
    return origin(program, buffer, f"{title(program, buffer)} is allocated here")
