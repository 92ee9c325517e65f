"""`nki.collectives` whose counts are known at run time only: flat buffers, and a tensor with counts and displacements.

Ranks exchange them with the data, so that a run copies what arrives to its place. For arguments without values each
part is taken to fill its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from nki_lab.isa.dtype import UINT32
from nki_lab.kernel_runtime.collectives.rank_group import Group
from nki_lab.kernel_runtime.collectives.replica_groups import (
    Array,
    Pair,
    ReplicaGroup,
    Tensors,
    advise_time,
    arrival,
    arrived,
    bring,
    check_priority,
    exchanged,
    group_of,
    shared_by_cores,
    writers,
    wrong,
)
from nki_lab.kernel_runtime.ir import FROM_ALL, FROM_NONE, Exchange
from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.issue.context import current
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor

_CHIP: Final = 4
"""Ranks of one chip, each of two physical cores."""


def all_gather_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: object,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: object = None,
    name: str | None = None,
) -> None:
    """Part r of each dst begins with the elements of src that rank r's metadata name; the buffers are flat, in HBM.

    The rows of the uint32 metadata have a column for each rank: number of elements sent and their place in src, of
    which the first column counts, and the numbers received, which are written unless `recv_counts_known`. NKI243 where
    numbers and tensors do not fit.
    """
    what = "all_gather_v"
    _check(what, srcs, dsts, metadata_tensor, has_rdispls, priority)
    if has_rdispls:
        raise wrong(
            what,
            "has_rdispls is True",
            "has_rdispls",
            "displacements of results are not supported",
            help_text="leave has_rdispls out: each rank's part begins at its place",
        )
    grid = current(f"nki.collectives.{what}").grid
    if grid != (2,):
        raise wrong(
            what,
            f"the launch grid is {grid or 1}",
            "replica_group",
            "a rank is a logical core of two physical ones",
            "NKI016",
            "launch the kernel as kernel[2]",
        )
    group_of(what, replica_group)  # that it is one
    sizes = {len(group) for group in replica_group.replica_groups}
    if sizes != {_CHIP}:
        raise wrong(
            what,
            f"{replica_group!r} has groups of {', '.join(map(str, sorted(sizes)))} ranks",
            "replica_group",
            f"the groups are the {_CHIP} ranks of a chip",
            help_text="give groups of four ranks, or use all_gather",
        )
    _run(what, srcs[0], dsts[0], replica_group, _Counts(metadata_tensor, not recv_counts_known, one=True), name)


def all_to_all_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: object,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: object = None,
    name: str | None = None,
) -> None:
    """Part r of each dst begins with the elements that rank r's metadata name for this rank; flat buffers, in HBM.

    The rows of the uint32 metadata have a column for each rank: number of elements sent to it, and their place in src;
    the numbers received, which are written unless `recv_counts_known`; with `has_rdispls` the places in dst of what is
    received. NKI243 where numbers and tensors do not fit.
    """
    what = "all_to_all_v"
    _check(what, srcs, dsts, metadata_tensor, has_rdispls, priority)
    arch = current(f"nki.collectives.{what}").arch
    if has_rdispls and arch.generation < 4:
        raise wrong(
            what,
            f"has_rdispls is True on {arch.name}",
            "has_rdispls",
            "displacements of results need NeuronCore-v4",
            "NKI221",
            "leave has_rdispls out",
        )
    counts = _Counts(metadata_tensor, not recv_counts_known, placed=has_rdispls)
    _run(what, srcs[0], dsts[0], replica_group, counts, name)


def _check(what: str, srcs: object, dsts: object, metadata: object, displaced: bool, priority: object) -> None:
    """Check the tensors of either collective."""
    for operand, given in (("srcs", srcs), ("dsts", dsts)):
        tensors = given if isinstance(given, (list, tuple)) else ()
        listed = tensors is given and all(isinstance(item, NkiTensor) for item in tensors)
        if not listed or len(tensors) != 1:
            raise wrong(
                what,
                f"{operand} is not a list of one tensor",
                operand,
                f"{operand} is a list of one tensor",
                "NKI012" if listed else "NKI013",
                f"write {operand}=[tensor]",
            )
        if tensors[0]._buffer.on_chip:
            raise wrong(
                what,
                f"{operand} is in {tensors[0]._buffer.space.value}",
                operand,
                f"{operand} is in HBM",
                "NKI201",
                "copy the tile to HBM first",
            )
    _check_metadata(what, metadata, 4 if displaced else 3)
    check_priority(what, current(f"nki.collectives.{what}"), priority)


def _check_metadata(what: str, metadata: object, rows: int) -> None:
    operand = "metadata_tensor"
    if not isinstance(metadata, NkiTensor):
        raise wrong(
            what,
            f"{operand} is a {type(metadata).__name__}",
            operand,
            f"{operand} is a tensor",
            "NKI013",
            "write the counts into a uint32 tensor",
        )
    if metadata._dtype is not UINT32:
        raise wrong(
            what,
            f"{operand} is {metadata._dtype.name}",
            operand,
            f"{operand} is uint32",
            "NKI202",
            "allocate it as uint32",
        )
    if metadata._buffer.space is MemoryRegion.psum or not metadata.is_contiguous():
        raise wrong(
            what,
            f"{operand} is strided, or in PSUM",
            operand,
            f"{operand} lies contiguous in HBM or SBUF",
            "NKI201",
            "copy it to a tensor of its own in HBM first",
        )
    wanted = (1, rows) if metadata._buffer.on_chip else (rows,)
    shape = tuple(metadata._shape)
    if shape[:-1] != wanted:
        raise wrong(
            what,
            f"{operand} is {shape}",
            operand,
            f"{operand} is ({', '.join(map(str, wanted))}, ranks)",
            "NKI203",
            "allocate it in that shape",
        )


class _Counts(NamedTuple):
    """The metadata of a call: `one` part for all ranks or one for each, received at places that are `placed` by it.

    The numbers of elements received are `written` to its third row.
    """

    tensor: Any
    written: bool
    one: bool = False
    placed: bool = False

    def sent(self, rows: Array, to: int) -> tuple[int, int]:
        """Return number and place of the elements for the rank at place `to` of the group."""
        column = 0 if self.one else to
        return int(rows[0, column]), int(rows[1, column])


class _Part(NamedTuple):
    """Elements that arrive: their number, their place in dst, and their values where these are known."""

    length: int
    place: int
    values: Array | None


def _run(
    what: str, src: NkiTensor, dst: NkiTensor, replica_group: ReplicaGroup, counts: _Counts, name: str | None
) -> None:
    """Exchange a flat buffer, and copy what each rank sends to its place."""
    builder, group = current(f"nki.collectives.{what}"), group_of(what, replica_group)
    _check_buffers(what, src, dst, counts.tensor, group)
    slot = dst.size // len(group)
    if shared_by_cores(builder, dst, src) and builder.program_ids[0] == 1 and builder.reader is not None:
        _require_no_part(what, builder, (src, counts.tensor))
        bring(builder, dst, (), src)  # the first core has exchanged, and copies
        return
    if builder.reader is None:
        unknown = ", nor is what the metadata say without values: each part fills its place"
        parts = [_Part(slot, slot * number, None) for number in range(len(group))]
    else:
        unknown = ""
        given, mine = exchanged(what, builder, group, (src, counts.tensor))
        parts = _parts(what, given, mine, dst.size, counts)
    advise_time(what, builder, unknown)
    sent = [] if len(group) == 1 else writers(builder, (src, counts.tensor))
    size = sum(part.length for part in parts) * dst._dtype.nbytes
    flat, moves = dst.reshape((dst.size,)), list[Pair]()
    for part in parts:
        if part.length:
            into = flat[part.place : part.place + part.length]
            source = arrived(builder, into, part.values)
            if len(group) > 1:
                builder.program.arrivals[source._buffer.id] = arrival(group, 1 if counts.one else 0, size)
            moves.append((into, source))
    if counts.written:
        row = counts.tensor[(slice(None),) * (len(counts.tensor._shape) - 2) + (slice(2, 3),)]
        received = np.array([part.length for part in parts], np.uint32).reshape(row._shape)
        moves.append((row, arrived(builder, row, received)))
    first = len(builder.program)
    bring(builder, dst, moves, src, name)
    builder.program.flows += [(op, other) for op in range(first, len(builder.program)) for other in sent]
    if len(group) > 1:
        arriving = tuple(source._buffer.id for _, source in moves)
        size = src.size * src._dtype.nbytes
        sender = FROM_ALL if arriving else FROM_NONE
        builder.program.exchanges.append(Exchange(what, group, sender, tuple(sent), arriving, size))


def _require_no_part(what: str, builder: Builder, tensors: Tensors) -> None:
    """Check that the second core has not written to what the first one has sent before it."""
    if writers(builder, tensors):
        raise wrong(
            what,
            "the second core has written to src or metadata_tensor",
            "srcs",
            "the cores are specialised one after the other: only what the first one writes is there to be sent",
            "NKI017",
            "write both on the first core, or use nki_lab.profile, which needs no values",
        )


def _parts(what: str, given: Sequence[Sequence[Array]], mine: int, size: int, counts: _Counts) -> list[_Part]:
    """Return what arrives at the rank at place `mine`, from what all hand in: the flat data and the metadata."""
    rows = [metadata.reshape(-1, len(given)) for _, metadata in given]
    slot, found = size // len(given), list[_Part]()
    for sender, (data, _) in enumerate(given):
        count, start = counts.sent(rows[sender], mine)
        flat = data.reshape(-1)
        _require(what, f"rank {sender} of the group sends elements {start} to {start + count} of src", start + count,
                 flat.size, f"src has {flat.size}", "srcs")  # fmt: skip
        if not counts.placed:
            _require(what, f"rank {sender} of the group sends {count} elements", count, slot,
                     f"dst has {size}, of which {slot} for each rank", "dsts")  # fmt: skip
        place = int(rows[mine][3, sender]) if counts.placed else slot * sender
        _require(what, f"{count} elements of rank {sender} of the group go to place {place} of dst", place + count,
                 size, f"dst has {size}", "dsts")  # fmt: skip
        found.append(_Part(count, place, flat[start : start + count]))
    taken = sorted((part.place, part.length) for part in found if part.length)
    for (place, count), (after, _) in pairwise(taken):
        _require(what, f"parts at places {place} and {after} of dst overlap", place + count, after,
                 f"the first has {count} elements", "metadata_tensor")  # fmt: skip
    return found


def _require(what: str, message: str, end: int, most: int, limit: str, operand: str) -> None:
    if end > most:
        remedy = "correct what computes the metadata, or allocate more"
        raise wrong(what, message, operand, limit, "NKI243", remedy)


def _check_buffers(what: str, src: NkiTensor, dst: NkiTensor, metadata: NkiTensor, group: Group) -> None:
    """Check that the buffers are flat and of one dtype, and that dst and metadata have a part for each rank."""
    for operand, tensor in (("srcs", src), ("dsts", dst)):
        if not tensor.is_contiguous():
            raise wrong(
                what,
                f"{operand} is strided",
                operand,
                f"{operand} is a flat buffer: contiguous",
                "NKI201",
                "copy it to a tensor of its own first",
            )
    if src._dtype is not dst._dtype:
        names = f"src is {src._dtype.name} and dst is {dst._dtype.name}"
        raise wrong(what, names, "dsts", "dst has src's dtype", "NKI207", "cast before or after")
    if metadata._shape[-1] != len(group):
        columns = f"metadata_tensor has {metadata._shape[-1]} columns for a group of {len(group)} ranks"
        each = "a column for each rank of the group"
        raise wrong(what, columns, "metadata_tensor", each, "NKI203", f"allocate {len(group)} columns")
    if dst.size < len(group):
        each = f"a part for each of {len(group)} ranks"
        raise wrong(what, f"dst has {dst.size} elements", "dsts", each, "NKI203", "allocate a larger dst")


FUNCTIONS: Final[tuple[Callable[..., None], ...]] = (all_gather_v, all_to_all_v)
