"""Copy propagation: products read their operands where these were computed, not where they were moved to.

Attention transposes its weights by the Tensor Engine into PSUM and copies them to SBUF, to have them as a stationary
operand. BLAS takes a matrix either way round: here products read the weights as they were, and the tiles on the way,
the *relays*, are neither filled nor held. Nor are tiles with several blocks of rows of an argument side by side, as of
all values of a head: products read each block in the argument, where its rows lie close together.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from nki_lab.kernel_runtime.footprint import Column, Mask, distinct
from nki_lab.kernel_runtime.ir import Program, Variant, View, access_columns
from nki_lab.kernel_runtime.number_sets import occurring
from nki_lab.kernel_runtime.numerics.buffer_usage import BufferUsage
from nki_lab.kernel_runtime.numerics.slab import plain_operands
from nki_lab.kernel_runtime.numerics.storage import SHADOW
from nki_lab.kernel_runtime.numerics.variant_plan import Place, VariantPlan
from nki_lab.kernel_runtime.tensor import ViewType, normalise, reshape_strides

_ROUNDS: Final = 4  # of leaving out relays that do not fit; then there are none
_MOST_PARTS: Final = 256  # of a relay, which are compared with each other
_TWO: Final = 2  # tensors of a move, dimensions of a matrix
_PARTLY: Final = 2  # an argument of which less than the half is loaded is not converted as a whole for that


@dataclass(frozen=True, slots=True)
class Propagation:
    """Operands that are read at another place, by op and by their position among its operands.

    `moves` are the ops that are done with. `last_read` are the last ops that read a tile so, by the tile.
    """

    operands: dict[int, dict[int, Place]] = field(default_factory=dict)
    moves: list[int] = field(default_factory=list)
    last_read: dict[int, int] = field(default_factory=dict)

    @property
    def sources(self) -> set[int]:
        """The buffers that are read instead."""
        return {place.buffer for places in self.operands.values() for place in places.values()}


class _Piece(NamedTuple):
    """Columns of a move's source, from the `first` on, that lie `skip` elements behind its first element."""

    first: int
    width: int
    skip: int


class _Move(NamedTuple):
    """How a variant fills dst, `rows` x `columns`, from a source in `pieces`, most often one.

    Elements of a piece are `step` apart in a row, and its rows `down`.
    """

    transposed: bool
    rows: int
    columns: int
    down: int
    step: int
    pieces: tuple[_Piece, ...]

    @property
    def is_plain(self) -> bool:
        return not self.transposed and self.step == 1 and len(self.pieces) == 1

    def segments(self, source: int, offset: int) -> list[_Segment]:
        """Return the places of the pieces of a view that begins at an offset of its buffer."""
        down, step = self.down, self.step
        return [_Segment(first, width, Place(source, offset + skip, down, step)) for first, width, skip in self.pieces]


class _Part(NamedTuple):
    """A part of a relay: rows from `top` to before `bottom`, columns from `left` to before `right`."""

    top: int
    bottom: int
    left: int
    right: int
    place: Place

    @property
    def size(self) -> int:
        return (self.bottom - self.top) * (self.right - self.left)

    def overlaps(self, other: _Part) -> bool:
        lower, upper = self.top < other.bottom, other.top < self.bottom
        return lower and upper and self.left < other.right and other.left < self.right


class _Segment(NamedTuple):
    """A part of the columns of a view, from the `first` on, and its place."""

    first: int
    width: int
    place: Place


def propagate_copies(program: Program, usage: BufferUsage, shadowed: Mask, remain: Mask, fixed: Mask) -> Propagation:
    """Return what products of a complete program may read elsewhere.

    `shadowed` tells which buffers are held in float32, `remain` which ops are executed, and `fixed` which buffers lie
    in a memory that is not their own. Tiles are written before they are moved, and never again; every element of a
    relay is written once, and only moves and products read it.
    """
    moves = {variant.id: move for variant in program.variants if (move := _move(variant))}
    if not any(move.transposed or len(move.pieces) > 1 for move in moves.values()):
        return Propagation()
    variants, precise = program.variants, program.options.precise
    moves = {number: move for number, move in moves.items() if _is_exact(variants[number], precise)}
    products = {variant.id: places[1:] for variant in program.variants if (places := plain_operands(variant))}
    search = _Search(program, usage, moves, products, remain, shadowed)
    sources = shadowed & ~fixed
    relays = sources & (usage.writes > 0) & ~usage.is_output & ~usage.is_index
    for _ in range(_ROUNDS):
        relays = search.closed(relays)
        found, unfit = search.followed(relays, sources)
        if not unfit:
            return found
        relays[list(unfit)] = False
    return Propagation()


def _move(variant: Variant) -> _Move | None:
    """Return the move that a variant is, into a tile on the chip; None for all others."""
    arrangement = variant.instruction.moves(variant.use)
    if not arrangement or len(variant.names) != _TWO or variant.outs != (True, False):
        return None
    dst, src = (variant.use.types[name] for name in variant.names)
    if not dst.on_chip or dst.indirect or src.indirect or not dst.dtype.is_float:
        return None
    if dst.free_strides not in ((), (1,)) or dst.partition_step != 1 or variant.instruction.updates(variant.use):
        return None
    return _on_chip(dst, src, arrangement == "transposed") if src.on_chip else _load(dst, src, arrangement)


def _is_exact(variant: Variant, precise: bool) -> bool:
    """Whether a move between shadows rounds nothing."""
    plan = VariantPlan(variant, (SHADOW, SHADOW), precise)
    return plan.direct and not any(plan.rounds)


def _on_chip(dst: ViewType, src: ViewType, transposed: bool) -> _Move | None:
    """Return the move of a tile whose rows have even steps; None for all others."""
    if len(src.free_strides) > 1 or src.innermost_stride < 1:
        return None
    sizes = (src.free_size, src.partitions) if transposed else (src.partitions, src.free_size)
    if (dst.partitions, dst.free_size) != sizes:
        return None
    return _Move(transposed, *sizes, src.strides[0], src.innermost_stride, (_Piece(0, src.free_size, 0),))


def _load(dst: ViewType, src: ViewType, arrangement: str) -> _Move | None:
    """Return the move from HBM of a matrix, or of some side by side; None for all others.

    BLAS reads a matrix whose rows, or whose columns, are dense and do not overlap.
    """
    rows, columns = dst.partitions, dst.free_size
    if arrangement != "in order" or math.prod(src.shape) != rows * columns:
        return None
    whole = reshape_strides(src.shape, src.strides, (rows, columns))
    if whole is not None:
        down, step = whole
        count, width, apart = 1, columns, 0
    else:
        sizes, steps = normalise(src.shape[1:], src.strides[1:])
        if src.shape[0] != rows or len(sizes) != _TWO or sizes[0] > _MOST_PARTS:
            return None
        (count, width), (apart, step), down = sizes, steps, src.strides[0]
    if not ((step == 1 and down >= width) or (down == 1 and step >= rows)):
        return None
    pieces = tuple(_Piece(width * at, width, apart * at) for at in range(count))
    return _Move(False, rows, columns, down, step, pieces)


class _Search:
    """Finds the relays of a program, and the places that its products read instead."""

    def __init__(
        self,
        program: Program,
        usage: BufferUsage,
        moves: Mapping[int, _Move],
        products: Mapping[int, tuple[int, ...]],
        remain: Mask,
        shadowed: Mask,
    ) -> None:
        self._program, self._usage, self._moves, self._products = program, usage, moves, products
        accesses = access_columns(program)
        self._op, self._buffer, self._is_out = accesses.op, accesses.buffer, accesses.is_out
        variant = program.variant_column()
        self._moving, self._multiplying = (
            remain & np.isin(variant, np.fromiter(numbers, np.int64, len(numbers))) for numbers in (moves, products)
        )
        elsewhere = np.zeros(len(program), bool)
        elsewhere[self._op[~shadowed[self._buffer]]] = True
        self._multiplying &= ~elsewhere
        writes = self._is_out & ~self._moving[self._op]
        reads = ~self._is_out & ~(self._moving | self._multiplying)[self._op]
        self._used_otherwise = np.zeros(len(program.buffers), bool)
        self._used_otherwise[self._buffer[writes | reads]] = True
        moved = self._moving[self._op]
        self._filled, self._taken = self._buffer[moved & self._is_out], self._buffer[moved & ~self._is_out]
        size = np.zeros(len(program.variants), np.int64)
        size[list(moves)] = [move.rows * move.columns for move in moves.values()]
        takers = variant[self._op[moved & ~self._is_out]]
        self._elements = np.bincount(self._taken, size[takers], minlength=len(program.buffers))

    def closed(self, relays: Mask) -> Mask:
        """Return the relays whose elements go nowhere but into others of them, and into products."""
        relays = relays & ~self._used_otherwise
        while True:
            leaving = self._taken[~relays[self._filled]]
            if not relays[leaving].any():
                return relays
            relays[leaving] = False

    def followed(self, relays: Mask, sources: Mask) -> tuple[Propagation, set[int]]:
        """Return the places that products read instead of relays, and the relays of which some do not say."""
        found, unfit = Propagation(), set[int]()
        is_relay, last_write = relays.tolist(), self._usage.last_write.tolist()
        is_source = (sources & self._can_be_read(sources)).tolist()
        program, views = self._program, self._program.views
        first, variants, accesses = program.op_access, program.op_variant, program.access_view
        parts: dict[int, list[_Part]] = defaultdict(list)
        known: dict[int, Place] = {}  # by view: parts stay where they are
        for op in self._ops(relays).tolist():
            at, number = first[op], variants[op]
            move = self._moves.get(number)
            if move is None:
                for position in self._products[number]:
                    place = known.get(accesses[at + position])
                    if place is None:
                        view = views[accesses[at + position]]
                        relay = view.buffer.id
                        if not is_relay[relay]:
                            continue
                        place = _place_in(parts[relay], view)
                        if place is None:
                            unfit.add(relay)
                            continue
                        known[accesses[at + position]] = place
                    found.operands.setdefault(op, {})[position] = place
                    found.last_read[place.buffer] = op
                continue
            dst, src = views[accesses[at]], views[accesses[at + 1]]
            relay, source = dst.buffer.id, src.buffer.id
            if not is_relay[relay]:
                continue
            if is_relay[source]:
                filled = _moved_on(dst, src, move, parts[source])
            elif is_source[source] and last_write[source] < op:
                filled = _parts(dst, move, move.segments(source, src.offset))
            else:
                filled = []
            if filled and _join(parts[relay], filled):
                found.moves.append(op)
            else:
                unfit.add(relay)
        return found, unfit

    def _can_be_read(self, sources: Mask) -> Mask:
        """Return which sources of moves are tiles, or arguments of which enough is loaded."""
        out = np.zeros(len(sources), bool)
        for number in distinct(self._taken[sources[self._taken]]).tolist():
            buffer = self._program.buffers[number]
            given = buffer.kind in ("input", "const") and not self._usage.writes[number]
            out[number] = buffer.on_chip or (given and self._elements[number] * _PARTLY >= math.prod(buffer.shape))
        return out

    def _ops(self, relays: Mask) -> Column:
        """Return the ops that access a relay, in order."""
        return occurring(self._op[relays[self._buffer]])


def _moved_on(dst: View, src: View, move: _Move, parts: list[_Part]) -> list[_Part]:
    """Return the parts of a relay that a move fills from those of another; none where the other's do not say."""
    if move.is_plain and src.full and dst.full and src.buffer.row_elements == dst.buffer.row_elements:
        return list(parts) if sum(part.size for part in parts) == move.rows * move.columns else []
    return _parts(dst, move, _segments(parts, src, move.step))


def _segments(parts: Iterable[_Part], view: View, step: int) -> list[_Segment]:
    """Return the places of a view of a relay whose elements are `step` apart in a row; none where some have none."""
    row, left = divmod(view.offset, view.buffer.row_elements)
    size, bottom = view.type.free_size, row + view.type.partitions
    right = left + (size - 1) * step + 1
    found: list[_Segment] = []
    if view.type.partition_step != 1:
        return found
    for part in parts:
        if part.left >= right or part.right <= left or part.top >= bottom or part.bottom <= row:
            continue
        first, end = max(left, part.left), min(right, part.right)
        if part.top > row or part.bottom < bottom or (step > 1 and (first, end) != (left, right)):
            return []
        buffer, offset, down, across = part.place
        start = offset + (row - part.top) * down + (first - part.left) * across
        count = end - first if step == 1 else size
        found.append(_Segment(first - left, count, Place(buffer, start, down, across * step)))
    return found if sum(segment.width for segment in found) == size else []


def _place_in(parts: Iterable[_Part], view: View) -> Place | None:
    """Return the place of a dense view of a relay; None where it is in no one part."""
    if view.type.partition_step != 1:
        return None
    row, column = divmod(view.offset, view.buffer.row_elements)
    bottom, end = row + view.type.partitions, column + view.type.free_size
    for top, lowest, left, right, (buffer, offset, down, across) in parts:
        if left <= column and end <= right and top <= row and bottom <= lowest:
            return Place(buffer, offset + (row - top) * down + (column - left) * across, down, across)
    return None


def _parts(dst: View, move: _Move, segments: Iterable[_Segment]) -> list[_Part]:
    """Return the parts that a move fills from the segments of its source's columns."""
    row, column = divmod(dst.offset, dst.buffer.row_elements)
    if not move.transposed:
        return [
            _Part(row, row + move.rows, column + first, column + first + count, place)
            for first, count, place in segments
        ]
    return [
        _Part(row + first, row + first + count, column, column + move.columns, Place(buffer, offset, across, down))
        for first, count, (buffer, offset, down, across) in segments
    ]


def _join(parts: list[_Part], more: list[_Part]) -> bool:
    """Add parts to others, where none of them overlap, and tell whether they do not."""
    if len(parts) + len(more) > _MOST_PARTS or any(part.overlaps(other) for part in more for other in parts):
        return False
    parts += more
    return True
