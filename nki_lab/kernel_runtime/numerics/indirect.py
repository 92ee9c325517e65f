"""Reading and writing views, also those whose addresses are known only while the program runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from nki_lab.diagnostic import Diagnostic, diagnose, error_of
from nki_lab.isa import enums
from nki_lab.isa.ops.register import integer_of
from nki_lab.isa.spec import Register, Use
from nki_lab.kernel_runtime.ir import Program, View
from nki_lab.kernel_runtime.issue.gathers import repeated_row
from nki_lab.kernel_runtime.issue.source_location import placed
from nki_lab.kernel_runtime.numerics.pool import Bound
from nki_lab.kernel_runtime.numerics.rounding import Array
from nki_lab.kernel_runtime.numerics.storage import POISON_INTEGER, strided, view_array
from nki_lab.kernel_runtime.tensor import Buffer, Indirect, VirtualRegister


@dataclass(frozen=True, slots=True)
class Inspection:
    """A look at an indirect view from outside of the program, with what run-time addresses need of a `Use`.

    `types` are view types by operand, `name` is for messages. The groups of partitions of `engine` share a list of
    indices. `attrs` may have an `oob_mode`. The elements of an index tensor count in `index_order`: rows or columns.
    """

    types: Mapping[str, Any]
    name: str = "read"
    engine: str = "vector"
    attrs: Mapping[str, Any] = field(default_factory=dict)
    index_order: str = "rows"


Accessor = Use | Inspection


class Repeat(NamedTuple):
    """A scatter that names a row of its destination twice: `first` and `again` of its own rows both go to `place`."""

    view: View
    use: Use
    first: int
    again: int
    place: int

    def diagnostic(self) -> Diagnostic:
        """Return NKI412."""
        return repeated_row(self.use.name, self.first, self.again, self.place, _indirect(self.view).dim)


class Stray(NamedTuple):
    """A run-time index outside its tensor: `row` of the view asks for `value`."""

    view: View
    use: Accessor
    row: int
    value: int

    def diagnostic(self, code: str = "NKI419") -> Diagnostic:
        """Return the finding `code`."""
        indirect = _indirect(self.view)
        skips = ", or pass oob_mode=nisa.oob_mode.skip to drop such rows" if "oob_mode" in self.use.attrs else ""
        return diagnose(
            code,
            f"{self.use.name}: run-time index {self.value} (row {self.row}) {_going(self.value, indirect)} dimension "
            f"{indirect.dim} of extent {indirect.extent}",
            operand=next((name for name, kind in self.use.types.items() if kind is self.view.type), ""),
            limit=f"{indirect.lowest} <= index <= {indirect.highest}",
            help=f"clamp the index on the chip{skips}",
            measured=(self.value * indirect.stride, indirect.extent * indirect.stride),
        )


@dataclass(slots=True, eq=False)
class Resolver:
    """Turns a view and its buffer's binding into elements.

    `bound_of` finds the binding of index tensors, `values` are the contents of registers by number. `notes` are the
    scatters so far with arbitrary results, and the indices outside of their tensors, which are refused unless
    `tolerant`.
    """

    bound_of: Callable[[Buffer], Bound]
    values: Mapping[int, int | float]
    tolerant: bool = False
    notes: list[Repeat | Stray] = field(default_factory=list)

    def read(self, view: View, bound: Bound, use: Accessor) -> tuple[Array, Array | None]:
        """Return the view's elements in its shape, and which rows are in bounds (None: all)."""
        if view.indirect is None:
            return view_array(bound, view), None
        values, valid = self._indexed(view, bound, use)
        if valid is None or _skips(use):
            return values, valid
        values = values.copy()
        values[~valid] = POISON_INTEGER if values.dtype.kind in "iu" else np.nan
        return values, None

    def _indexed(self, view: View, bound: Bound, use: Accessor) -> tuple[Array, Array | None]:
        """Do the same for a view with run-time addresses; elements are arbitrary where an index is out of bounds."""
        kind, indirect = view.type, _indirect(view)
        if indirect.kind == "scalar":
            offset = self._moved(view, use)
            if offset is not None:
                return strided(bound, kind.dtype, offset, kind.shape, kind.strides), None
            ones = (1,) * len(kind.shape)
            return np.broadcast_to(strided(bound, kind.dtype, 0, ones, ones), kind.shape), np.zeros(kind.shape[0], bool)
        if indirect.kind != "vector":
            places, valid = self._places(view, use)
            elements, picked = _elements(bound, view, places)
            return elements[picked], valid
        # The rows that an index tensor picks, each copied as a whole.
        index, valid = self._row_numbers(view, use)
        if valid is not None:
            index = np.where(valid, index, indirect.lowest)
        first, last = int(index.min()), int(index.max())
        shape, strides = (last - first + 1, *kind.shape[1:]), (indirect.stride, *kind.strides[1:])
        table = strided(bound, kind.dtype, view.offset + first * indirect.stride, shape, strides)
        return table[index - first], valid

    def write(self, view: View, bound: Bound, values: Array, use: Use, valid: Array | None) -> None:
        """Store elements, leaving out the rows that are out of bounds."""
        kind = view.type
        if view.indirect is None or view.indirect.kind == "scalar":
            offset = view.offset if view.indirect is None else self._moved(view, use)
            if offset is None:
                return
            target = strided(bound, kind.dtype, offset, kind.shape, kind.strides)
            if valid is None:
                np.copyto(target, values, casting="unsafe")
            else:
                target[valid] = values[valid]
            return
        places, inside = self._places(view, use)
        keep = inside if valid is None else valid if inside is None else inside & valid
        if view.indirect.kind == "vector":
            self._note_repeats(view, use, places.reshape(len(places), -1)[:, 0], values, keep)
        rows = slice(None) if keep is None else keep
        elements, picked = _elements(bound, view, places[rows])
        elements[picked] = values[rows]

    def _note_repeats(self, view: View, use: Use, rows: Array, values: Array, keep: Array | None) -> None:
        """Note two rows that go to one place: with different values, or where each adds to what is there."""
        written = np.arange(len(rows)) if keep is None else np.flatnonzero(keep)
        places, first, which = np.unique(rows[written], return_index=True, return_inverse=True)
        if len(places) == len(written):
            return
        flat = values.reshape(len(rows), -1)
        others = written[first[which]]
        adds = "unique_indices" in use.instruction.operands
        differs = (written != others) & (adds | (flat[written] != flat[others]).any(axis=1))
        at = int(differs.argmax())
        if differs[at]:
            place = (int(rows[written[at]]) - view.offset) // _indirect(view).stride
            self.notes.append(Repeat(view, use, int(others[at]), int(written[at]), place))

    def _moved(self, view: View, use: Accessor) -> int | None:
        """Return the offset of a view that a run-time scalar moves; None where that is outside and skipped."""
        index = self._index(view).reshape(-1)[:1]
        return view.offset + int(index[0]) * _indirect(view).stride if self._inside(view, index, use) is None else None

    def _places(self, view: View, use: Accessor) -> tuple[Array, Array | None]:
        """Return element numbers of the view in its buffer, and the rows that lie inside it."""
        kind, indirect = view.type, _indirect(view)
        if indirect.kind == "gather":
            columns = _lists(self._index(view), kind.shape, 32 if use.engine == "tensor" else 16)
            inside = self._inside(view, columns, use)
            if inside is not None:
                columns = columns.clip(indirect.lowest, indirect.highest)
            lanes = view.offset + np.arange(kind.shape[0], dtype=np.int64) * kind.strides[0]
            return lanes[:, None] + columns * indirect.stride, inside
        index, inside = self._row_numbers(view, use)
        places = view.offset + index * indirect.stride
        for size, step in zip(kind.shape[1:], kind.strides[1:], strict=True):
            places = places[..., None] + step * np.arange(size, dtype=np.int64)
        return places, inside

    def _row_numbers(self, view: View, use: Accessor) -> tuple[Array, Array | None]:
        """Return the index of each row, and which are in bounds (None: all)."""
        index = self._index(view).reshape(-1, order="F" if use.index_order == "columns" else "C")[: view.type.shape[0]]
        return index, self._inside(view, index, use)

    def _inside(self, view: View, index: Array, use: Accessor) -> Array | None:
        """Return which indices lie in the tensor (None: all); others are refused, unless skipped or tolerated."""
        indirect = _indirect(view)
        inside: Array = (index >= indirect.lowest) & (index <= indirect.highest)
        if inside.all():
            return None
        if not _skips(use):
            row = int(np.flatnonzero(~inside.reshape(-1))[0])
            stray = Stray(view, use, row, int(index.reshape(-1)[row]))
            if not self.tolerant:
                raise error_of(stray.diagnostic("NKI310"))
            self.notes.append(stray)
        return inside

    def _index(self, view: View) -> Array:
        source = _indirect(view).index
        if isinstance(source, VirtualRegister):
            return np.array([[integer_of(self.values, Register(source.id), "a run-time address")]], np.int64)
        part = strided(self.bound_of(source._buffer), source._dtype, source._offset, source._shape, source._strides)
        return part.astype(np.int64).reshape(source._shape[0], -1)


def _indirect(view: View) -> Indirect:
    assert view.indirect is not None
    return view.indirect


def _going(value: int, indirect: Indirect) -> str:
    """Say how an index leaves its dimension: by itself, or with the elements that the view takes around it."""
    if not 0 <= value < indirect.extent:
        return "is outside"
    first, last = value - indirect.lowest, value + indirect.extent - 1 - indirect.highest
    return f"takes element{f's {first} to' if first != last else ''} {last}, outside"


def _elements(bound: Bound, view: View, places: Array) -> tuple[Array, tuple[Array, ...]]:
    """Return a view's buffer as elements of its dtype, and the index there of those with some numbers."""
    dtype, buffer = view.type.dtype, view.buffer
    if bound.pitch == bound.row:
        return strided(bound, dtype, 0, (buffer.nbytes // dtype.nbytes,), (1,)), (places,)
    row = buffer.partition_bytes // dtype.nbytes
    return strided(bound, dtype, 0, (buffer.partitions, row), (row, 1)), np.divmod(places, row)


def _lists(index: Array, shape: tuple[int, ...], group: int) -> Array:
    """Return for each element of a gathered view its entry of the list that its group of partitions shares."""
    out = np.empty(shape, np.int64)
    steps = np.arange(shape[1])
    for start in range(0, shape[0], group):
        size = min(group, shape[0] - start)
        out[start : start + size] = index[start + steps % size, steps // size]
    return out


def _skips(use: Accessor) -> bool:
    return use.attrs.get("oob_mode") is enums.oob_mode.skip


def address_findings(program: Program, notes: Iterable[Repeat | Stray]) -> Iterator[Diagnostic]:
    """Yield NKI412 for scatters that name a row twice and NKI419 for strays, once for each place in the source."""
    seen: set[tuple[type, int]] = set()
    for note in notes:
        op = next((op for op in program.ops() if op.variant.use is note.use and note.view in op.views), None)
        if op is not None and (type(note), program.op_site[op.index]) not in seen:
            seen.add((type(note), program.op_site[op.index]))
            yield placed(note.diagnostic(), op.site)
