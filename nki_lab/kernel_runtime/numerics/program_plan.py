"""Plan of a complete program: loads to elide, slabs, tensors at true width, tiles to release after each op."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from nki_lab.isa.dtype import BF16, DType
from nki_lab.kernel_runtime.coverage import Added
from nki_lab.kernel_runtime.footprint import Column, Mask
from nki_lab.kernel_runtime.ir import Program, Variant, View, access_columns, columns_of_views
from nki_lab.kernel_runtime.number_sets import occurring, ranked
from nki_lab.kernel_runtime.numerics.buffer_usage import NEVER, BufferUsage
from nki_lab.kernel_runtime.numerics.copy_propagation import Propagation, propagate_copies
from nki_lab.kernel_runtime.numerics.evacuation import Evacuation, copies_as_it_is, evacuate
from nki_lab.kernel_runtime.numerics.joined_products import Joins, join_products
from nki_lab.kernel_runtime.numerics.slab import Elided, Slab, Submatrix, find_slabs
from nki_lab.kernel_runtime.numerics.slab_product import JOINED_ROWS
from nki_lab.kernel_runtime.numerics.variant_plan import Place
from nki_lab.kernel_runtime.tensor import Buffer, reshape_strides

_FEW: Final = 2
_WIDE: Final = 4  # bytes of a float32


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPlan:
    """The plan of a program whose ops are all there.

    `written` tells of each buffer whether an op writes it, `bound` whether anything needs it in memory. `rows` are the
    ops that remain, among them the first op of each slab, which stands for all of it; `slabs` are by that op. `elided`
    are the sources of elided loads that other ops than slabs read, by their tile; `elided_count` counts all elided
    loads. `narrow` are the arguments that only slabs read: they stay at true width. `stored` are the results, and the
    arguments that copies read, that are held at true width. `propagated` are the operands, by op and position, that
    products read elsewhere than they say, `joined` the rows of the contraction of those that stand for products behind
    them as well. `released` are, for each op, the tiles that nobody accesses or asks for afterwards.
    """

    written: Mask
    bound: Mask
    slabs: Mapping[int, Slab]
    rows: Column
    elided: Mapping[int, Submatrix]
    elided_count: int
    narrow: frozenset[int]
    stored: frozenset[int]
    evacuation: Evacuation
    propagated: Mapping[int, Mapping[int, Place]]
    joined: Mapping[int, int]
    released: Mapping[int, list[int]]


_known: WeakKeyDictionary[Program, ProgramPlan] = WeakKeyDictionary()


def plan_program(program: Program, add: Mapping[int, Added], shadowed: Callable[[], Mask]) -> ProgramPlan:
    """Return the plan of a complete program without device loops; worked out once for each program.

    `add` resolves each matmul's accumulation, `shadowed()` tells which buffers are held in float32.
    """
    found = _known.get(program)
    if found is None:
        found = _known[program] = _planned(program, add, shadowed())
    return found


def _planned(program: Program, add: Mapping[int, Added], shadowed: Mask) -> ProgramPlan:
    usage = BufferUsage(program)
    elided = _elided(program, usage, shadowed)
    tiles = np.flatnonzero(elided.pitch)
    found = find_slabs(program, usage, add, elided, shadowed) if program.options.matmul_order != "tile" else []
    stored = _stored(program, usage)
    evacuation = evacuate(program, usage, found, shadowed, stored) if found else Evacuation()
    found = [item for item in found if _pays(item, evacuation)]
    remain = np.ones(len(program), bool)
    remain[usage.first_write[tiles]] = False
    remain[[op for item in found for op in item.ops]] = False
    remain[evacuation.ops] = False
    propagation, joins = Propagation(), Joins()
    if program.options.matmul_order != "tile":
        fixed = elided.pitch > 0
        fixed[[*_cells(found), *(tile for tiles in evacuation.carriers.values() for tile in tiles)]] = True
        propagation = propagate_copies(program, usage, shadowed, remain, fixed)
        remain[propagation.moves] = False
        most = None if program.options.matmul_order == "free" else JOINED_ROWS
        joins = join_products(program, add, propagation.operands, remain, elided, fixed, most)
        propagation.operands.update(joins.operands)
        remain[list(joins.stands_for)] = False
    accessed = usage.accessed_by(remain)
    remain[[item.first for item in found]] = True
    needed = {tile: elided.of(tile) for tile in tiles[accessed[tiles]].tolist()}
    wide = {source.root for source in needed.values()} | propagation.sources
    readers: dict[int, int] = {}
    for root in (root for item in found for root in item.roots):
        readers[root] = readers.get(root, 0) + 1
    copied = arguments_at_true_width(program, usage, shadowed & accessed, remain) - wide - readers.keys()
    accessed[list(wide)] = True
    bound = usage.accessed_by(remain & ~program.ops_where(_only_orders)) | usage.is_output | usage.is_index
    bound[[*wide, *readers, *(place.root for place in evacuation.in_place.values())]] = True
    return ProgramPlan(
        written=usage.writes > 0,
        bound=bound,
        slabs={item.first: item for item in found},
        rows=np.flatnonzero(remain),
        elided=needed,
        elided_count=len(tiles),
        narrow=frozenset(  # few slabs read these: each widens what it reads
            root
            for root, count in readers.items()
            if count <= _FEW and not accessed[root] and program.buffers[root].dtype.storage.itemsize < _WIDE
        ),
        stored=stored | copied,
        evacuation=evacuation,
        propagated=propagation.operands,
        joined=joins.rows,
        released=released_after(program, usage, bound, propagation.last_read, joins.stands_for),
    )


def _pays(slab: Slab, evacuation: Evacuation) -> bool:
    """Whether a slab takes less time than its products one by one.

    With a single contraction step it does not, and its sums are no longer in the cache when somebody reads them (the
    scores of attention: 64 MiB at a time); it does where they are results that nobody has to copy.
    """
    return len(slab.levels) > 1 or any(cell in evacuation.carriers for cell in slab.cells)


def _cells(slabs: Iterable[Slab]) -> Iterator[int]:
    """Yield the PSUM tiles of slabs."""
    for slab in slabs:
        yield from slab.cells


def released_after(
    program: Program,
    usage: BufferUsage,
    bound: Mask,
    last_read: Mapping[int, int] = MappingProxyType({}),
    stands_for: Mapping[int, int] = MappingProxyType({}),
) -> dict[int, list[int]]:
    """Return for each op, of a device loop the last one, the tiles that nobody accesses or asks for afterwards.

    Only tiles that are `bound` have memory to give back. `last_read` are later reads of tiles by ops that do not name
    them, `stands_for` the ops with which others are done.
    """
    out: dict[int, list[int]] = {}
    last_access = usage.last_access.copy()
    for buffer, op in last_read.items():
        last_access[buffer] = max(last_access[buffer], op)
    for region in program.regions:
        if region.parent < 0:
            last_access[(last_access >= region.first) & (last_access < region.end)] = region.end - 1
    for number in np.flatnonzero(bound & ~usage.is_output & ~usage.is_index).tolist():
        item, last = program.buffers[number], int(last_access[number])
        if item.on_chip and item.kind not in ("input", "const"):
            out.setdefault(stands_for.get(last, last), []).append(number)
    return out


def _stored(program: Program, usage: BufferUsage) -> frozenset[int]:
    """Return the bfloat16 results that plain copies write and nothing reads: converted by tiles, while in the cache."""
    views = program.views
    seen_otherwise = any(view.type.dtype is not view.buffer.dtype for view in views if not view.type.on_chip)
    if not program.options.precise or seen_otherwise:
        return frozenset()
    plain = program.ops_where(copies_as_it_is)
    return frozenset(
        buffer.id
        for buffer in {tensor._buffer for tensor in program.outputs}
        if not buffer.on_chip
        and buffer.dtype is BF16
        and buffer.kind == "output"
        and usage.first_read[buffer.id] == NEVER
        and usage.writes[buffer.id]
        and plain[usage.writers(buffer.id)].all()
    )


def arguments_at_true_width(
    program: Program, usage: BufferUsage, shadowed: Mask, ops: Mask | None = None
) -> frozenset[int]:
    """Return the arguments of narrow floats that copies alone read, of a program or of some `ops`: each copy widens
    what it reads. The whole argument would be read once more, and take two or four times its bytes. How often device
    loops read is not known: bfloat16 stays, the others do not.
    """
    names = [
        buffer.id
        for buffer in program.inputs
        if not buffer.on_chip and shadowed[buffer.id] and usage.writes[buffer.id] == 0 and _reads_of(buffer.dtype)
    ]
    if not names:
        return frozenset()
    accesses = access_columns(program)
    rows = np.flatnonzero(np.isin(accesses.buffer, names) & (True if ops is None else ops[accesses.op]))
    mere = program.ops_where(_only_copies)[accesses.op[rows]]
    buffers = accesses.buffer[rows]
    views, place = ranked(accesses.view[rows])
    sizes = np.fromiter((math.prod(program.views[view].type.shape) for view in views.tolist()), np.int64, len(views))
    read = np.bincount(buffers, sizes[place], minlength=len(program.buffers))

    def pays(buffer: Buffer) -> bool:
        if program.regions:
            return buffer.dtype is BF16
        return bool(read[buffer.id] <= _reads_of(buffer.dtype) * math.prod(buffer.shape))

    found = set(buffers.tolist()) - set(buffers[~mere].tolist())
    return frozenset(number for number in found if pays(program.buffers[number]))


def _reads_of(dtype: DType) -> float:
    """Return how often all of an argument may be read, in copies that widen it, for that to take less time than to
    widen it once; 0 where it stays as it is. (NumPy, tiles of 128 x 512: bfloat16 18 us a tile, where float32 takes 9
    and the argument as a whole 28; a look-up in the table of a float8 takes as long either way.)
    """
    if dtype.kind != "float" or dtype.storage.itemsize >= _WIDE:
        return 0
    return 3 if dtype is BF16 else 0.5


def _only_orders(variant: Variant) -> bool:
    return variant.instruction.only_orders


def _only_copies(variant: Variant) -> bool:
    """Whether a variant is a copy that widens in one step, or follows indices, which takes several in any case."""
    return copies_as_it_is(variant) or (variant.instruction.role == "copy" and variant.use.types["src"].indirect)


def _elided(program: Program, usage: BufferUsage, shadowed: Mask) -> Elided:
    """Return the loads whose tile can be a part of its source: written once, whole, read by matmuls only."""
    count = len(program.buffers)
    elided = Elided(*(np.zeros(count, np.int64) for _ in range(3)))
    ops = np.flatnonzero(program.ops_where(copies_as_it_is))
    if not len(ops):
        return elided
    tiles = (usage.writes == 1) & (usage.foreign_reads == 0) & ~usage.is_output & shadowed
    sources = (usage.writes == 0) & shadowed
    views = columns_of_views(program)
    accesses = np.frombuffer(program.access_view, np.uint32)
    at = np.frombuffer(program.op_access, np.uint32)[ops]
    into, out_of = accesses[at], accesses[at + 1]
    tile, root = views.buffer[into], views.buffer[out_of]
    given = np.zeros(count, bool)
    given[[number for number in occurring(root).tolist() if program.buffers[number].kind in ("input", "const")]] = True
    fits = tiles[tile] & (sources & given)[root] & views.full[into] & (usage.first_read[tile] >= ops)
    ops, into, out_of, tile, root = ops[fits], into[fits], out_of[fits], tile[fits], root[fits]
    # Rows lie apart as the types of both views have it, which are those of the variant.
    variant = program.variant_column()[ops]
    sample = np.full(len(program.variants), -1, np.int64)
    sample[variant] = np.arange(len(variant))
    pitches = np.zeros(len(sample), np.int64)
    for number in np.flatnonzero(sample >= 0).tolist():
        place = sample[number]
        pitches[number] = _row_pitch(program.views[into[place]], program.views[out_of[place]])
    pitch = pitches[variant]
    found = pitch > 0
    for column, values in zip(elided, (root, views.offset[out_of], pitch), strict=True):
        column[tile[found]] = values[found]
    return elided


def _row_pitch(dst: View, src: View) -> int:
    """Return elements from row to row when `src`, in HBM, is read as the partitions x dense row of the tile that `dst`
    is all of; 0 where it cannot be.
    """
    tile = dst.buffer
    if src.type.on_chip or not tile.on_chip:
        return 0
    strides = reshape_strides(src.type.shape, src.type.strides, (tile.partitions, tile.row_elements))
    if strides is None or (strides[1] != 1 and tile.row_elements > 1) or strides[0] < tile.row_elements:
        return 0
    return strides[0]
