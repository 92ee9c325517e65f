"""The rows of a program while steps of the compiler model change them, as columns."""

from __future__ import annotations

from array import array
from copy import copy
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.spec import Use
from nki_lab.kernel_runtime.footprint import Column, Mask, spread
from nki_lab.kernel_runtime.ir import Program, Variant, View, ViewColumns, registers_of, synchronization
from nki_lab.kernel_runtime.tensor import Buffer, ViewType

DEAD: Final = -1
"""The stand-in of a row whose result nothing needs any more."""


class Listing:
    """Rows to be executed, in order, and what became of the rows of `program`.

    `source[row]` is the row of `program` that a row executes, -1 of an inserted one, whose first reader or writer in
    `program` is `near[row]`. `moved[row]` is true where a row runs on another engine or in another place than the
    program says. `stand_in` maps a row of `program` that is not executed to the row of `program` whose result is used
    instead, or to `DEAD`. `notes` say in words what steps did, with counts.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        count = len(program)
        self.variant = program.variant_column()
        self.view = np.frombuffer(program.access_view, np.uint32).astype(np.int64)
        self.source = np.arange(count, dtype=np.int64)
        self.near = self.source.copy()
        self.moved = np.zeros(count, bool)
        self.stand_in: dict[int, int] = {}
        self.variants = list(program.variants)
        self.views = list(program.views)
        self.buffers = list(program.buffers)
        self.notes: dict[str, int] = {}
        self._on_engine: dict[tuple[int, str], int] = {}
        self._retyped: dict[tuple[int, int, ViewType], int] = {}
        self._moved_views: dict[tuple[int, int], int] = {}
        self.changed = False

    def __len__(self) -> int:
        return len(self.variant)

    # -- accesses ----------------------------------------------------------------------------------------------------

    @property
    def width(self) -> Column:
        """The accesses of each row."""
        widths = np.fromiter((len(item.names) for item in self.variants), np.int64, len(self.variants))
        found: Column = widths[self.variant]
        return found

    @property
    def first(self) -> Column:
        """The first access of each row."""
        width = self.width
        found: Column = np.cumsum(width) - width
        return found

    @property
    def access_row(self) -> Column:
        """The row of each access."""
        return np.repeat(np.arange(len(self)), self.width)

    @property
    def is_out(self) -> Mask:
        """Whether each access writes."""
        outs = np.concatenate([np.array(item.outs, bool) for item in self.variants] or [np.zeros(0, bool)])
        widths = np.fromiter((len(item.names) for item in self.variants), np.int64, len(self.variants))
        begin = np.cumsum(widths) - widths
        found: Mask = outs[spread(begin[self.variant], widths[self.variant])]
        return found

    @property
    def buffer_of_view(self) -> Column:
        """The buffer of each view."""
        return np.fromiter((view.buffer.id for view in self.views), np.int64, len(self.views))

    def count(self, what: str, number: int) -> None:
        """Add to the account of what steps did."""
        if number:
            self.notes[what] = self.notes.get(what, 0) + number

    # -- changes -----------------------------------------------------------------------------------------------------

    def on_engine(self, variant: int, engine: str) -> int:
        """Return the variant that is another one on `engine`."""
        key = (variant, engine)
        if key not in self._on_engine:
            old = self.variants[variant].use
            use = Use(old.instruction, old.arch, old.types, old.attrs, old.dims, engine)
            self._on_engine[key] = len(self.variants)
            self.variants.append(Variant(len(self.variants), use))
        return self._on_engine[key]

    def retyped(self, variant: int, place: int, kind: ViewType) -> int:
        """Return the variant that is another one with an operand of another type."""
        key = (variant, place, kind)
        if key not in self._retyped:
            old = self.variants[variant].use
            types = {**old.types, self.variants[variant].names[place]: kind}
            self._retyped[key] = len(self.variants)
            use = Use(old.instruction, old.arch, types, old.attrs, old.dims, old.engine)
            self.variants.append(Variant(len(self.variants), use))
        return self._retyped[key]

    def drop(self, rows: Mask) -> None:
        """Take rows out."""
        if rows.any():
            self.changed = True
            kept = ~rows
            self.view = self.view[np.repeat(kept, self.width)]
            for name in ("variant", "source", "near", "moved"):
                setattr(self, name, getattr(self, name)[kept])

    def placed_in(self, view: int, buffer: Buffer) -> int:
        """Return the view of another buffer of the same shape that lies where `view` lies in its own."""
        key = (view, buffer.id)
        known = self._moved_views.get(key)
        if known is None:
            old = self.views[view]
            known = self._moved_views[key] = self.new_view(buffer, old.offset, old.type)
        return known

    def new_view(self, buffer: Buffer, offset: int, kind: ViewType) -> int:
        """Return a view that is new."""
        full = kind.contiguous and kind.partitions * kind.free_size == buffer.partitions * buffer.row_elements
        self.views.append(View(len(self.views), buffer, offset, kind, None, full))
        return len(self.views) - 1

    def new_buffer(self, like: Buffer, name: str) -> Buffer:
        """Return a buffer of the shape and dtype of another one."""
        made = like.twin(len(self.buffers), name, "temp", like.site)
        self.buffers.append(made)
        return made

    def insert(self, before: Column, variant: Column, views: list[list[int]], near: Column) -> None:
        """Insert rows, each before a row, those of one place in the given order; `near` are rows of the program."""
        if not len(before):
            return
        self.changed = True
        count = len(self)
        place = np.concatenate((np.arange(count) * 2 + 1, before * 2))
        order = np.argsort(place, kind="stable")
        width = np.concatenate((self.width, np.array([len(item) for item in views], np.int64)))
        flat = np.concatenate((self.view, np.array([number for item in views for number in item], np.int64)))
        begin = np.cumsum(width) - width
        self.view = flat[spread(begin[order], width[order])]
        more = len(before)
        self.variant = np.concatenate((self.variant, variant))[order]
        self.source = np.concatenate((self.source, np.full(more, -1, np.int64)))[order]
        self.near = np.concatenate((self.near, near))[order]
        self.moved = np.concatenate((self.moved, np.zeros(more, bool)))[order]

    def permute(self, order: Column, moved: Mask) -> None:
        """Put the rows in another order; `moved` are those, by new place, of which it is said."""
        self.changed = True
        width = self.width
        self.view = self.view[spread(self.first[order], width[order])]
        for name in ("variant", "source", "near", "moved"):
            setattr(self, name, getattr(self, name)[order])
        self.moved |= moved

    # -- the end -----------------------------------------------------------------------------------------------------

    def built(self) -> Program:
        """Return the rows as a program, with the order that the user asked for on those that are left."""
        old = self.program
        new = copy(old)
        new.op_variant = _column("I", self.variant)
        new.op_access = _column("I", self.first)
        new.access_view = _column("I", self.view)
        new.op_site = _column("I", np.frombuffer(old.op_site, np.uint32)[self.near])
        new.op_iteration = _column("i", np.frombuffer(old.op_iteration, np.int32)[self.near])
        new.variants, new.views, new.buffers = self.variants, self.views, self.buffers
        new.view_columns = ViewColumns.empty()
        if not self.changed:
            return new
        row_of = np.full(len(old), -1, np.int64)
        here = self.source >= 0
        row_of[self.source[here]] = np.flatnonzero(here)
        new.op_names = {int(row_of[op]): name for op, name in old.op_names.items() if row_of[op] >= 0}
        new.user_edges = _kept(row_of, old.user_edges)
        new.fences = [pair for pair in (self._fence(*fence) for fence in old.fences) if pair is not None]
        return new

    def _fence(self, first: int, end: int) -> tuple[int, int] | None:
        """Return the rows of a block whose ops keep their order; inserted rows within it keep it too."""
        inside = np.flatnonzero((self.source >= first) & (self.source < end))
        return (int(inside[0]), int(inside[-1]) + 1) if len(inside) else None


def _kept(row_of: Column, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found = [(int(row_of[a]), int(row_of[b])) for a, b in pairs]
    return [(a, b) for a, b in found if a >= 0 and b >= 0]


def _column(kind: str, values: NDArray[np.integer[Any]]) -> array[int]:
    return array(kind, values.astype(kind).tobytes())


def may_stay(buffer: Buffer) -> bool:
    """Return whether the compiler places a tile, so that it may put another one in its place."""
    return buffer.on_chip and buffer.address is None and buffer.kind == "temp"


def is_pure(variant: Variant) -> bool:
    """Return whether equal inputs give equal results, and nothing else is changed."""
    instruction, use = variant.instruction, variant.use
    return (
        not instruction.writes_register
        and not instruction.only_orders
        and not registers_of(variant)
        and synchronization(variant) is None
        and (instruction.keeps_state is None or not instruction.keeps_state(use))
    )
