"""What is said about races: at the later of two accesses, with the other ones, the bytes and what to insert."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from nki_lab.diagnostic import Diagnostic, Related, Span, diagnose
from nki_lab.kernel_runtime.allocate.findings import title
from nki_lab.kernel_runtime.footprint import Overlap, overlap_of
from nki_lab.kernel_runtime.ir import Program, Site
from nki_lab.kernel_runtime.issue.source_location import placed, span_of
from nki_lab.kernel_runtime.race.conflicts import Conflict
from nki_lab.kernel_runtime.race.transfers import Transfer

_MOST_OTHERS: Final = 4  # other places that a finding names

_LIMIT: Final = "nothing but core_barrier and sendrecv orders what the two cores of a launch do"


def between_cores(program: Program, conflicts: Iterable[Conflict]) -> Iterator[Diagnostic]:
    """NKI407 for a read and a write of two cores without order, NKI408 where both write; one for each place.

    A place that is said to read what nothing orders is not said to be in conflict with a write as well.
    """
    both = {code: _by_place(program, conflicts, code) for code in ("NKI407", "NKI408")}
    for code, places in both.items():
        for site, found in places.items():
            if code == "NKI407" or site not in both["NKI407"]:
                yield _unordered(program, code, found)


def _by_place(program: Program, conflicts: Iterable[Conflict], code: str) -> dict[int, dict[int, Conflict]]:
    """Conflicts by the place of the later access, then by that of the earlier one; the first of each."""
    out: dict[int, dict[int, Conflict]] = {}
    for found in conflicts:
        if (code == "NKI407") == found.certain:
            early, late = (program.op_site[op] for op, _ in (found.early, found.late))
            known = out.setdefault(late, {}).get(early)
            if known is None or found.late < known.late:
                out[late][early] = found
    return {late: dict(sorted(out[late].items())) for late in sorted(out)}


def _unordered(program: Program, code: str, found: dict[int, Conflict]) -> Diagnostic:
    first = next(iter(found.values()))
    buffer = program.views[first.late[1]].buffer
    early, late = (program.core_of(op) for op, _ in (first.early, first.late))
    name, tensor = _name(program, first.late[0]), title(buffer)
    if first.early_writes and first.late_writes:
        message = f"cores {min(early, late)} and {max(early, late)} write the same bytes of {tensor} in no order"
    elif first.late_writes:
        message = f"core {late} writes bytes of {tensor} that core {early} may not have read yet"
    else:
        message = f"core {late} reads bytes of {tensor} that core {early} may not have written yet"
    verb = "writes" if first.early_writes else "reads"
    others = [Related(f"core {program.core_of(item.early[0])} {'writes' if item.early_writes else 'reads'} them here",
                      _span(program, item.early[0])) for item in list(found.values())[:_MOST_OTHERS]]  # fmt: skip
    item = diagnose(
        code,
        f"{name}: {message}",
        operand=_operand(program, first.late),
        note=_where(overlap_of(*(program.views[view] for _, view in (first.early, first.late))), buffer.shape),
        limit=_LIMIT,
        help=_remedy(program, first, verb),
        related=[*others, *_made(program, buffer.site, tensor)],
    )
    return placed(item, _site(program, first.late[0]))


def _remedy(program: Program, found: Conflict, verb: str) -> str:
    buffer = program.views[found.late[1]].buffer
    early, late = (_site(program, op).line for op, _ in (found.early, found.late))
    if verb == "writes" and found.late_writes:
        return "let each core write a part of its own, by nl.program_id(0), or only one of them write"
    barrier = f"put nisa.core_barrier({buffer.name or 'the tensor'}, (0, 1)) on both cores"
    if early == late:
        return f"{barrier} before line {late} is executed again"
    if early < late:
        return f"{barrier} between lines {early} and {late}"
    return f"{barrier} after line {early}, before line {late} is executed again"


def other_tensor(program: Program, conflicts: Iterable[Conflict]) -> Iterator[Diagnostic]:
    """NKI409 for accesses of two cores between which cores meet, over other tensors."""
    said: set[int] = set()
    for found in sorted(conflicts, key=lambda item: (item.late, item.early)):
        site = program.op_site[found.late[0]]
        if site in said:
            continue
        said.add(site)
        buffer = program.views[found.late[1]].buffer
        tensor = title(buffer)
        early, late = (program.core_of(op) for op, _ in (found.early, found.late))
        meeting = _between(program, found)
        does, did = ("writes" if writes else "reads" for writes in (found.late_writes, found.early_writes))
        item = diagnose(
            "NKI409",
            f"{_name(program, found.late[0])}: core {late} {does} bytes of {tensor} that core {early} {did}, and "
            f"{_name(program, meeting)} at line {_site(program, meeting).line} is about {_about(program, meeting)}",
            operand=_operand(program, found.late),
            note=_where(overlap_of(*(program.views[view] for _, view in (found.early, found.late))),
                        buffer.shape),
            limit="a barrier orders the accesses of its tensor, an exchange those of its tiles",
            help=f"name the tensor that both cores access: nisa.core_barrier({buffer.name or '...'}, (0, 1))",
            related=[Related(f"core {early} {did} them here", _span(program, found.early[0])),
                     Related("the cores meet here", _span(program, meeting)), *_made(program, buffer.site, tensor)],
        )  # fmt: skip
        yield placed(item, _site(program, found.late[0]))


def _between(program: Program, found: Conflict) -> int:
    """The last op in which the later access's core met the other one before it."""
    core, op = program.core_of(found.late[0]), found.late[0]
    ops = [row for pair in program.meetings for row in pair if program.core_of(row) == core and row < op]
    return max(ops) if ops else program.meetings[0][0]


def _about(program: Program, op: int) -> str:
    return " and ".join(dict.fromkeys(title(view.buffer) for view in program.op(op).views))


def in_one_transfer(program: Program, transfers: Iterable[Transfer]) -> Iterator[Diagnostic]:
    """NKI410 for DMAs that read bytes which they write, NKI411 for those that write bytes more than once."""
    said: set[tuple[str, int]] = set()
    for found in transfers:
        code = "NKI410" if found.source >= 0 else "NKI411"
        if (code, program.op_site[found.op]) in said:
            continue
        said.add((code, program.op_site[found.op]))
        target = program.views[found.target]
        name, tensor = _name(program, found.op), title(target.buffer)
        if code == "NKI411":
            item = diagnose(
                code, f"{name}: dst has several elements at one place of {tensor}",
                operand="dst", limit="the DMA engines of a core move the rows of a transfer at the same time",
                note=f"shape {target.type.shape}, strides {target.type.strides}",
                help="write each element once: the source of a broadcast may repeat, dst may not",
                related=_made(program, target.buffer.site, tensor),
            )  # fmt: skip
        else:
            source = program.views[found.source]
            exchange = found.op in program.partners
            what = (
                "sends bytes of {} that come in at the same time"
                if exchange
                else "writes bytes of {} that it also reads"
            )
            item = diagnose(
                code, f"{name}: {what.format(tensor)}", operand="dst",
                note=_where(overlap_of(target, source), target.buffer.shape),
                limit="the DMA engines of a core move the rows of a transfer at the same time",
                help="receive into a tile of its own" if exchange else "copy to another tensor, and from there back",
                related=_made(program, target.buffer.site, tensor),
            )  # fmt: skip
        yield placed(item, _site(program, found.op))


def _where(found: Overlap | None, shape: tuple[int, ...]) -> str:
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


def _operand(program: Program, access: tuple[int, int]) -> str:
    op, number = access
    shown = program.op(op)
    return next((name for name, view in zip(shown.variant.names, shown.views, strict=True) if view.id == number), "")


def _name(program: Program, op: int) -> str:
    return program.variants[program.op_variant[op]].instruction.name


def _site(program: Program, op: int) -> Site:
    return program.sites[program.op_site[op]]


def _span(program: Program, op: int) -> Span | None:
    site = _site(program, op)
    return span_of(site) if site.file else None


def _made(program: Program, site: int, tensor: str) -> list[Related]:
    made = program.sites[site] if site >= 0 else None
    return [Related(f"{tensor} is allocated here", span_of(made))] if made is not None and made.file else []
