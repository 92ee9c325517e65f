"""Loops of tiny instructions that become few long ones.

The documentation of `nl.affine_range` (SDK 2.26) says that it allows the compiler "loop-level optimizations, such as
loop vectorization". The published versions of Autocomp's conv1d on trn1, 65,536 `tensor_tensor` and `tensor_reduce` of
three columns, show when it does so: with the 2,048 outputs of a tile in one loop every `tensor_tensor` is executed
(3.84 ms); with the same loop as 32 iterations of 64, or as 64 of 32, 512 of 384 columns are left (0.2 ms).

inferred: a loop becomes one iteration where its instructions then have at most 512 columns; of the loop around it as
many iterations as fit go together. A loop that does not fit stays as it is, and so does every loop around it. Not
modelled: in the one loop of 2,048, the compiler put four `tensor_reduce` together and no `tensor_tensor`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from nki_lab.isa.spec import Use
from nki_lab.kernel_runtime.backend.listing import Listing, is_pure, may_stay
from nki_lab.kernel_runtime.footprint import Column, Mask, distinct
from nki_lab.kernel_runtime.ir import Variant
from nki_lab.kernel_runtime.issue.legality import is_legal
from nki_lab.kernel_runtime.tensor import Buffer, ViewType, make_view, view_type
from nki_lab.source_files import range_of_loop

_LONGEST: Final = 512
"""Columns of the longest instruction that is made."""


def merge_iterations(listing: Listing) -> None:
    """Put instructions of iterations together, from the innermost loops outwards."""
    if listing.program.iterations:
        loops = _Loops(listing)
        while loops.merge_innermost():
            pass


@dataclass(frozen=True, slots=True, eq=False)
class _Body:
    """`count` iterations of a loop, of `length` rows each from row `first` on, `together` of which become one.

    `view[i, j]` is the j-th access of iteration i; `step[j]` the elements by which it moves with each iteration, -1
    where each iteration has a tile of its own.
    """

    first: int
    count: int
    length: int
    together: int
    view: Column
    step: Column


class _Loops:
    """The loops of a listing. `iteration[row]` is the innermost iteration that a row is in."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        program = listing.program
        table = np.array([(item.parent, item.site) for item in program.iterations], np.int64)
        self.parent, site = table.T
        self.iteration = np.frombuffer(program.op_iteration, np.int32).astype(np.int64)[listing.near]
        affine = np.zeros(len(program.sites), bool)
        for number in distinct(site).tolist():
            place = program.sites[number]
            affine[number] = range_of_loop(place.file, place.line) == "affine_range"
        _, self.loop, count = np.unique(
            self.parent * len(program.sites) + site, return_inverse=True, return_counts=True
        )
        self.count = count[self.loop]
        self.closed = ~affine[site] & (self.count > 1)
        self.made = np.zeros(len(listing), bool)
        self.columns: list[int] = []
        self.kind: list[int] = []
        self.kinds: dict[object, int] = {}
        self.variants: dict[tuple[int, tuple[ViewType, ...]], int] = {}
        self.fixed = np.zeros(len(program), bool)
        for begin, end in program.fences:
            self.fixed[begin:end] = True
        self.fixed[[op for pair in program.user_edges for op in pair]] = True

    def merge_innermost(self) -> bool:
        """Put iterations of the innermost loops together; return whether the loops around them are worth a look."""
        listing = self.listing
        for variant in listing.variants[len(self.columns) :]:
            self.columns.append(_columns(variant))
            self.kind.append(self.kinds.setdefault(_kind_of(variant), len(self.kinds)) if self.columns[-1] else -1)
        columns = np.array(self.columns, np.int64)[listing.variant]
        small = (columns > 0) & (2 * columns <= _LONGEST) & ~self.fixed[listing.near] & (self.iteration >= 0)
        if not small.any():
            return False
        number, first, length = np.unique(self.iteration, return_index=True, return_counts=True)
        chosen = (number >= 0) & self._innermost(small)[number]
        order = np.argsort(first[chosen], kind="stable")
        number, first, length = (item[chosen][order] for item in (number, first, length))
        if not len(number):
            return False
        new = np.ones(len(number), bool)
        new[1:] = (self.loop[number][1:] != self.loop[number][:-1]) | (first[1:] != (first + length)[:-1])
        starts = np.flatnonzero(new)
        dropped = np.zeros(len(listing), bool)
        accesses = _Accesses(listing)
        for begin, end in zip(starts.tolist(), [*starts[1:].tolist(), len(number)], strict=True):
            count, here = end - begin, number[begin:end]
            self.closed[here] = True
            if count != self.count[here[0]] or (length[begin:end] != length[begin]).any():
                continue
            rows = slice(int(first[begin]), int(first[begin]) + count * int(length[begin]))
            if (self.iteration[rows] != np.repeat(here, length[begin])).any():
                continue
            together = 1 if count == 1 else self._merge(accesses, rows, count, columns, dropped)
            if together == count:
                self.iteration[rows] = self.parent[here[0]]
        listing.count("instructions that became one with others", int(dropped.sum()))
        self.iteration, self.made = self.iteration[~dropped], self.made[~dropped]
        listing.drop(dropped)
        return True

    def _innermost(self, small: Mask) -> Mask:
        """Mark the iterations of loops that may be merged, have no loops in them, and whose rows are all small."""
        used = np.zeros(len(self.parent) + 1, bool)  # the last one stands for rows outside of all loops
        used[self.iteration] = True
        level = self.parent[np.flatnonzero(used[:-1])]
        used[self.iteration[~small]] = False
        while len(level := distinct(level[level >= 0])):
            used[level] = False
            level = self.parent[level]
        found: Mask = used[:-1] & ~self.closed
        return found

    def _merge(self, accesses: _Accesses, rows: slice, count: int, columns: Column, dropped: Mask) -> int:
        """Put iterations together; return how many become one, 0 where they may not."""
        listing = self.listing
        kind = np.array(self.kind, np.int64)[listing.variant[rows]].reshape(count, -1)
        if (kind != kind[0]).any():
            return 0
        most = _LONGEST // int(columns[rows].max())
        # Outer loops go together in parts, as far as everything in them comes from loops that went together.
        sizes = range(most, 1, -1) if self.made[rows].all() else (count,)
        together = next((size for size in sizes if size <= most and not count % size), 0)
        length = kind.shape[1]
        names = [item for row in range(rows.start, rows.start + length) for item in self._operands(row)]
        view = accesses.of(rows).reshape(count, -1)
        step = accesses.steps(view, names) if together else None
        if step is None:
            return 0
        body = _Body(rows.start, count, length, together, view, step)
        made = self._made(body)
        if made is None:
            return 0
        for group, (variants, views) in enumerate(made):
            row = body.first + group * together * length
            listing.variant[row : row + length] = variants
            at = int(accesses.first[row])
            listing.view[at : at + len(views)] = views
            self.made[row : row + length] = True
            for place in range(length):
                others = range(row + place + length, row + together * length, length)
                dropped[list(others)] = True
                for other in others:
                    listing.stand_in[int(listing.source[other])] = int(listing.source[row + place])
        return together

    def _operands(self, row: int) -> list[tuple[bool, bool]]:
        """Return (is a result, is one column that all elements of a partition share) of each access of a row."""
        variant = self.listing.variants[self.listing.variant[row]]
        dims = [variant.instruction.operands[name].dims for name in variant.names]
        return [(out, letters[1:] == ("1",)) for out, letters in zip(variant.outs, dims, strict=True)]

    def _made(self, body: _Body) -> list[tuple[list[int], list[int]]] | None:
        """Return (variants, views) of the rows that are made, None where an instruction would not be legal."""
        listing, together = self.listing, body.together
        own: dict[int, Buffer] = {}
        found = []
        for begin in range(0, body.count, together):
            views: list[int] = []
            types: list[ViewType] = []
            for number, step in zip(body.view[begin].tolist(), body.step.tolist(), strict=True):
                view = listing.views[number]
                buffer, offset, kind = view.buffer, view.offset, view.type
                shape, strides = (kind.shape[0], together, *kind.shape[1:]), (kind.strides[0], step, *kind.strides[1:])
                if step == _OWN:
                    if buffer.id not in own:
                        own[buffer.id] = _joined(listing, buffer, together)
                    row, buffer = buffer.row_elements, own[buffer.id]
                    offset += offset // row * row * (together - 1)
                    strides = (kind.strides[0] * together, row, *kind.strides[1:])
                elif step == _COLUMN:
                    shape, strides = kind.shape, kind.strides
                types.append(view_type(make_view(buffer, shape, strides, offset, kind.dtype)))
                views.append(listing.new_view(buffer, offset, types[-1]))
            variants, at = [], 0
            for old in listing.variant[body.first : body.first + body.length].tolist():
                width = len(listing.variants[old].names)
                new = self._variant(old, tuple(types[at : at + width]))
                if new < 0:
                    return None
                variants.append(new)
                at += width
            found.append((variants, views))
        return found

    def _variant(self, old: int, types: tuple[ViewType, ...]) -> int:
        """Return the variant that does the same with more columns, -1 where it is not legal."""
        key = old, types
        if key not in self.variants:
            variant = self.listing.variants[old]
            use, instruction = variant.use, variant.instruction
            changed = instruction.stacked(use) if instruction.stacked else {}
            named = {**use.types, **dict(zip(variant.names, types, strict=True))}
            made = Use(instruction, use.arch, named, {**use.attrs, **changed}, {})
            legal = is_legal(made) and made.engine == use.engine
            self.variants[key] = len(self.listing.variants) if legal else -1
            if legal:
                self.listing.variants.append(Variant(len(self.listing.variants), made))
        return self.variants[key]


class _Accesses:
    """The accesses of a listing as columns."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self.first = np.append(listing.first, len(listing.view))
        self._buffer = listing.buffer_of_view
        self._offset = np.fromiter((view.offset for view in listing.views), np.int64, len(listing.views))
        self._count = np.bincount(self._buffer[listing.view], minlength=len(listing.buffers))
        self._private = np.array([may_stay(buffer) for buffer in listing.buffers], bool)
        self._private[[tensor._buffer.id for tensor in listing.program.outputs]] = False

    def of(self, rows: slice) -> Column:
        """Return the views of all accesses of some rows."""
        found: Column = self.listing.view[self.first[rows.start] : self.first[rows.stop]]
        return found

    def steps(self, view: Column, operands: list[tuple[bool, bool]]) -> Column | None:
        """Return by how many elements each access moves from one iteration to the next, None without such a step.

        `view[i, j]` is access j of iteration i; `operands[j]` says whether it writes, and whether it is one column.
        Tiles that only one iteration uses are `_OWN`. Where an iteration writes to a tile, no other may touch that
        part of it.
        """
        buffer, offset = self._buffer[view], self._offset[view]
        step = np.zeros(view.shape[1], np.int64)
        for place, (_, is_column) in enumerate(operands):
            mine, start = buffer[:, place], offset[:, place]
            if (mine == mine[0]).all():
                moves = np.diff(start)
                if (moves != moves[0]).any() or (is_column and moves[0]):
                    return None
                step[place] = _COLUMN if is_column else moves[0]
            elif is_column or (start != start[0]).any() or not self._is_own(buffer, place):
                return None
            else:
                step[place] = _OWN
        written = {int(buffer[0, place]) for place, (out, _) in enumerate(operands) if out and step[place] != _OWN}
        return None if any(self._overlaps(view, buffer, number) for number in written) else step

    def _is_own(self, buffer: Column, place: int) -> bool:
        """Return whether each iteration has a tile of its own there, which nothing else uses."""
        tiles, same = buffer[:, place], buffer[0] == buffer[0, place]
        kinds = {(item.shape, item.dtype, item.space) for item in map(self.listing.buffers.__getitem__, tiles.tolist())}
        return bool(
            len(kinds) == 1
            and len(distinct(tiles)) == len(tiles)
            and (buffer[:, same] == tiles[:, None]).all()
            and (self._count[tiles] == same.sum()).all()
            and self._private[tiles].all()
        )

    def _overlaps(self, view: Column, buffer: Column, number: int) -> bool:
        """Return whether two iterations touch the same column of a tile; views of another dtype count as if."""
        places = np.flatnonzero(buffer[0] == number)
        tile = self.listing.buffers[number]
        if any(self.listing.views[item].type.dtype is not tile.dtype for item in view[0, places].tolist()):
            return True
        turn, column = [], []
        for place in places.tolist():
            kind = self.listing.views[view[0, place]].type
            inside = np.zeros(1, np.int64)
            for size, stride in zip(kind.shape[1:], kind.strides[1:], strict=True):
                inside = (inside[:, None] + np.arange(size) * stride).ravel()
            found = self._offset[view[:, place], None] % tile.row_elements + inside
            column.append(found.ravel())
            turn.append(np.repeat(np.arange(len(view)), len(inside)))
        pairs = distinct(np.concatenate(column) * len(view) + np.concatenate(turn))
        return len(distinct(pairs // len(view))) != len(pairs)


_OWN: Final = -1 << 62
_COLUMN: Final = _OWN + 1


def _columns(variant: Variant) -> int:
    """Return the elements of a partition of the largest operand, 0 of an instruction that does not take any number."""
    use, instruction = variant.use, variant.instruction
    types = [use.types[name] for name in variant.names]
    able = instruction.elementwise or instruction.stacked is not None
    if not able or not is_pure(variant) or not all(kind.on_chip and kind.indirect is None for kind in types):
        return 0
    letters = [instruction.operands[name].dims for name, out in zip(variant.names, variant.outs, strict=True) if out]
    return 0 if ("P", "1") in letters else max((kind.free_size for kind in types), default=0)


def _kind_of(variant: Variant) -> object:
    """Return what instructions that go together have in common: all but where in their tiles the operands begin."""
    use = variant.use
    types = [use.types[name] for name in variant.names]
    operands = [
        (kind.space, kind.dtype, kind.shape, kind.strides, kind.start_partition, kind.partition_step) for kind in types
    ]
    return use.instruction.name, use.engine, variant.names, tuple(operands), repr(dict(use.attrs))


def _joined(listing: Listing, tile: Buffer, count: int) -> Buffer:
    """Return a new tile that holds `count` tiles side by side in each partition."""
    made = listing.new_buffer(tile, tile.name)
    made.shape = (tile.partitions, count, tile.row_elements)
    made.row_elements *= count
    made.partition_bytes *= count
    made.nbytes *= count
    return made
