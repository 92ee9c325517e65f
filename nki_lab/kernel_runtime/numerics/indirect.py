"""Reading and writing views, also those whose addresses are known only while the program runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nki_lab.diagnostic import Diagnostic, diagnose, error_of
from nki_lab.isa import enums
from nki_lab.isa.ops.register import integer_of
from nki_lab.isa.spec import Register, Use
from nki_lab.kernel_runtime.ir import Program, View
from nki_lab.kernel_runtime.issue.source_location import placed
from nki_lab.kernel_runtime.numerics.storage import Bound, window
from nki_lab.kernel_runtime.tensor import VirtualRegister

Array = NDArray[Any]


class InstructionLike(Protocol):
    """The accessor of a view, as far as run-time addresses need it: an instruction's `Use`, or `Inspection`."""

    @property
    def name(self) -> str:
        """Name for messages."""

    @property
    def engine(self) -> str:
        """Engine whose groups of partitions share a list of indices."""

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Attributes, among them `oob_mode`."""

    @property
    def types(self) -> Mapping[str, Any]:
        """View types by operand."""

    @property
    def index_order(self) -> str:
        """Order in which the elements of an index tensor count: `rows` or `columns`."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """A look at an indirect view from outside of the program."""

    types: Mapping[str, Any]
    name: str = "read"
    engine: str = "vector"
    attrs: Mapping[str, Any] = field(default_factory=dict)
    index_order: str = "rows"


class Repeat(NamedTuple):
    """A scatter that names a row of its destination twice: `first` and `again` of its own rows both go to `place`."""

    view: View
    use: Use
    first: int
    again: int
    place: int


class Resolver:
    """Turns a view and its buffer's binding into elements.

    `bound_of` finds the binding of index tensors, `values` are the contents of registers by number. `repeats` are the
    scatters so far of which it is chance what they leave.
    """

    def __init__(self, bound_of: Any, values: Mapping[int, int | float]) -> None:
        self._bound_of = bound_of
        self._values = values
        self.repeats: list[Repeat] = []

    def read(self, view: View, bound: Bound, use: InstructionLike) -> tuple[Array, Array | None]:
        """The view's elements in its shape, and which rows are in bounds (None: all)."""
        kind = view.type
        if view.indirect is None:
            return window(bound, kind.dtype, view.offset, kind.shape, kind.strides), None
        if view.indirect.kind == "scalar":
            offset = self._moved(view, use)
            if offset is not None:
                return window(bound, kind.dtype, offset, kind.shape, kind.strides), None
            nothing = window(bound, kind.dtype, 0, (1,) * len(kind.shape), (1,) * len(kind.shape))
            return np.broadcast_to(nothing, kind.shape), np.zeros(kind.shape[0], bool)
        if view.indirect.kind == "vector":
            return self._rows(view, bound, use)
        places, valid = self._places(view, use)
        return _whole(bound, view)[places], valid

    def _rows(self, view: View, bound: Bound, use: InstructionLike) -> tuple[Array, Array | None]:
        """The rows that an index tensor picks, each copied as a whole; any row where the index is out of bounds."""
        indirect, kind = view.indirect, view.type
        assert indirect is not None
        index, valid = self._row_numbers(view, use)
        if valid is not None:
            index = np.where(valid, index, indirect.lowest)
        first, last = int(index.min()), int(index.max())
        shape, strides = (last - first + 1, *kind.shape[1:]), (indirect.stride, *kind.strides[1:])
        table = window(bound, kind.dtype, view.offset + first * indirect.stride, shape, strides)
        return table[index - first], valid

    def write(self, view: View, bound: Bound, values: Array, use: Use, valid: Array | None) -> None:
        """Store elements, leaving out the rows that are out of bounds."""
        kind = view.type
        if view.indirect is None or view.indirect.kind == "scalar":
            offset = view.offset if view.indirect is None else self._moved(view, use)
            if offset is None:
                return
            target = window(bound, kind.dtype, offset, kind.shape, kind.strides)
            if valid is None:
                np.copyto(target, values, casting="unsafe")
            else:
                target[valid] = values[valid]
            return
        places, inside = self._places(view, use)
        keep = inside if valid is None else valid if inside is None else inside & valid
        if view.indirect.kind == "vector":
            self._note_repeats(view, use, places.reshape(len(places), -1)[:, 0], values, keep)
        flat = _whole(bound, view)
        if keep is None:
            flat[places] = values
        else:
            flat[places[keep]] = values[keep]

    def _note_repeats(self, view: View, use: Use, rows: Array, values: Array, keep: Array | None) -> None:
        """Note two rows that go to one place: with different values, or where each adds to what is there."""
        kept = np.arange(len(rows)) if keep is None else np.flatnonzero(keep)
        places, first, which = np.unique(rows[kept], return_index=True, return_inverse=True)
        if len(places) == len(kept):
            return
        assert view.indirect is not None
        flat = values.reshape(len(rows), -1)
        others = kept[first[which]]
        adds = "unique_indices" in use.instruction.operands
        differs = (kept != others) & (adds | (flat[kept] != flat[others]).any(axis=1))
        if differs.any():
            at = int(np.flatnonzero(differs)[0])
            place = (int(rows[kept[at]]) - view.offset) // view.indirect.stride
            self.repeats.append(Repeat(view, use, int(others[at]), int(kept[at]), place))

    def _moved(self, view: View, use: InstructionLike) -> int | None:
        """Where a view begins that a run-time scalar moves; None where that is outside and skipped."""
        indirect = view.indirect
        assert indirect is not None
        index = self._index(view).reshape(-1)[:1]
        _check(view, index, use)
        value = int(index[0])
        return view.offset + value * indirect.stride if indirect.lowest <= value <= indirect.highest else None

    def _places(self, view: View, use: InstructionLike) -> tuple[Array, Array | None]:
        """Element numbers of the view in its buffer, and the rows that lie inside it."""
        indirect, kind = view.indirect, view.type
        assert indirect is not None
        if indirect.kind == "gather":
            columns = _lists(self._index(view), kind.shape, 32 if use.engine == "tensor" else 16)
            _check(view, columns, use)
            lanes = view.offset + np.arange(kind.shape[0], dtype=np.int64) * kind.strides[0]
            return lanes[:, None] + columns * indirect.stride, None
        index, inside = self._row_numbers(view, use)
        rows = view.offset + index * indirect.stride
        inner = _lattice(0, kind.shape[1:], kind.strides[1:])
        return rows.reshape((-1,) + (1,) * inner.ndim) + inner, inside

    def _row_numbers(self, view: View, use: InstructionLike) -> tuple[Array, Array | None]:
        """The index of each row, and which are in bounds (None: all)."""
        indirect = view.indirect
        assert indirect is not None
        index = self._index(view).reshape(-1, order="F" if use.index_order == "columns" else "C")[: view.type.shape[0]]
        _check(view, index, use)
        inside = (index >= indirect.lowest) & (index <= indirect.highest)
        return index, None if inside.all() else inside

    def _index(self, view: View) -> Array:
        assert view.indirect is not None
        source = view.indirect.index
        if isinstance(source, VirtualRegister):
            return np.array([[integer_of(self._values, Register(source.id), "a run-time address")]], np.int64)
        bound = self._bound_of(source._buffer)
        part = window(bound, source._dtype, source._offset, source._shape, source._strides)
        return part.astype(np.int64).reshape(source._shape[0], -1)


def _whole(bound: Bound, view: View) -> Array:
    """The buffer as one dimension of the view's elements; indexed buffers are bound densely."""
    size = view.buffer.nbytes // view.type.dtype.nbytes
    return window(bound, view.type.dtype, 0, (size,), (1,))


def _lists(index: Array, shape: tuple[int, ...], group: int) -> Array:
    """For each element of a gathered view its entry of the list that its group of partitions shares."""
    out = np.empty(shape, np.int64)
    steps = np.arange(shape[1])
    for start in range(0, shape[0], group):
        size = min(group, shape[0] - start)
        out[start : start + size] = index[start + steps % size, steps // size]
    return out


def _lattice(start: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    places = np.array(start, np.int64)
    for size, step in zip(shape, strides, strict=True):
        places = places[..., None] + step * np.arange(size, dtype=np.int64)
    return places


def _check(view: View, index: Array, use: InstructionLike) -> None:
    """Refuse an index outside the tensor unless the instruction skips it."""
    indirect = view.indirect
    assert indirect is not None
    outside = (index < indirect.lowest) | (index > indirect.highest)
    if not outside.any() or use.attrs.get("oob_mode") is enums.oob_mode.skip:
        return
    row = int(np.flatnonzero(outside.reshape(-1))[0])
    value = int(index.reshape(-1)[row])
    operand = next((name for name, kind in use.types.items() if kind is view.type), "")
    raise error_of(
        diagnose(
            "NKI310",
            f"{use.name}: run-time index {value} (row {row}) is outside dimension {indirect.dim} "
            f"of extent {indirect.extent}",
            operand=operand,
            limit=f"{indirect.lowest} <= index <= {indirect.highest}",
            help="clamp the index on the chip, or pass oob_mode=nisa.oob_mode.skip to drop such rows",
        )
    )


def repeated(program: Program, repeats: Iterable[Repeat]) -> Iterator[Diagnostic]:
    """NKI412 for scatters that name a row twice, one for each instruction of the source."""
    said: set[int] = set()
    for view, use, first, again, place in repeats:
        op = next((op for op in program.ops() if op.variant.use is use and view in op.views), None)
        if op is not None and program.op_site[op.index] not in said:
            said.add(program.op_site[op.index])
            item = diagnose(
                "NKI412",
                f"{use.instruction.name}: rows {first} and {again} both go to index {place} of dimension "
                f"{view.indirect.dim if view.indirect is not None else 0}",
                operand="dst",
                limit="the rows of a transfer are moved at the same time: the indices of a scatter differ",
                help="split the scatter, or send rows that shall not count outside with oob_mode=nisa.oob_mode.skip",
            )
            yield placed(item, op.site)
