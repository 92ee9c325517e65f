"""`tensor[key]` of Beta 1: index grids, integers, slices and index tiles give lazy strided views.

The shape of `t[i, j, k]` is the broadcast shape of the indices, whatever the rank of t. A view remembers the axes that
its dimensions walk, for masks, and the ranges of its indices: one that leaves the tensor is an error only when an
instruction uses it unmasked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.beta1.index import Axes, Grid, Index, Mask, position_of
from nki_lab.kernel_runtime.tensor import Indirect, NkiTensor, make_view, sbuf
from nki_lab.kernel_runtime.tensor.buffer import integer_of
from nki_lab.kernel_runtime.tensor.indexing import DynamicSlice, resolve
from nki_lab.kernel_runtime.tensor.indirect import dynamic_select, moved, vector_select
from nki_lab.kernel_runtime.tensor.refusal import refuse


@dataclass(slots=True, eq=False, repr=False)
class MovedIndex:
    """The values of `index`, all moved by the one element of `by`."""

    index: Index
    by: NkiTensor
    __array_ufunc__ = None

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Index) or integer_of(other) is not None:
            return MovedIndex(self.index + other, self.by)
        return NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, Index) or integer_of(other) is not None:
            return MovedIndex(self.index - other, self.by)
        return NotImplemented

    def __repr__(self) -> str:
        return f"{self.index!r} + {self.by!r}"


def moved_by_tile(left: Any, right: Any) -> MovedIndex | None:
    """The sum of an index and a whole number in SBUF; None for other sides."""
    for tile, index in ((left, right), (right, left)):
        if isinstance(tile, NkiTensor) and isinstance(index, Index):
            whole = tile._dtype.is_integer and tile._buffer.space is sbuf
            return MovedIndex(index, tile) if tile.size == 1 and whole else None
    return None


def record_of(tensor: NkiTensor, dim: int, moved: MovedIndex) -> Indirect:
    """The run-time part of a subscript whose dimension `dim` is moved; inside the dimension or refused when it runs."""
    low, high = moved.index.span()
    record = dynamic_select(tensor, dim, moved.by)
    return replace(record, lowest=-low, highest=record.extent - 1 - high)


@dataclass(slots=True, eq=False, repr=False)
class Subscript:
    """The key of a view: the static `indices`, each of which stays within the dimension of its `sizes`.

    `axes` says for each of the view's `rank` dimensions which ranges it walks; it is worked out when a mask asks.
    """

    indices: tuple[Index, ...]
    sizes: tuple[int, ...]
    rank: int
    _axes: tuple[Axes, ...] | None = None

    @property
    def axes(self) -> tuple[Axes, ...]:
        if self._axes is None:
            found: list[Axes] = [frozenset()] * self.rank
            for index in self.indices:
                first = self.rank - index.ndim
                for k, axes in enumerate(index.axes):
                    found[first + k] |= axes
            self._axes = tuple(found)
        return self._axes

    def within(self, box: tuple[tuple[int, int], ...]) -> Subscript:
        """The part of the view from `low` to `high`, both included, of each dimension."""
        parts = []
        for part in self.indices:
            first = self.rank - part.ndim
            for k, size in enumerate(part.shape):
                part = part.restricted(k, *box[first + k]) if size != 1 else part  # noqa: PLW2901
            parts.append(part)
        return Subscript(tuple(parts), self.sizes, self.rank, self.axes)

    def require_inside(self, tensor: NkiTensor) -> None:
        """NKI303 where an index leaves its dimension."""
        for dim, (index, size) in enumerate(zip(self.indices, self.sizes, strict=True)):
            low, high = index.span()
            if low < 0 or high >= size:
                raise _outside(tensor, dim, size, low, high)


class OutsideView(NkiTensor):
    """A view whose index leaves the tensor: a mask may bring it back inside, nothing else may use it."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> NkiTensor:
        return checked(self)[key]


def axes_of(tensor: NkiTensor) -> tuple[Axes, ...] | None:
    """Return the axes that each dimension walks, where the view was made by index expressions."""
    extra = tensor._extra
    return extra.axes if type(extra) is Subscript else None


def checked(tensor: NkiTensor) -> NkiTensor:
    """The tensor itself; NKI303 where its index leaves the tensor it was taken from."""
    if tensor.__class__ is not OutsideView:
        return tensor
    tensor._extra.require_inside(tensor)
    view = make_view(tensor._buffer, tensor._shape, tensor._strides, tensor._offset, tensor._dtype, tensor._indirect)
    view._extra = tensor._extra
    return view


def _outside(tensor: NkiTensor, dim: int, size: int, low: int, high: int) -> NkiError:
    return refuse(
        "NKI303",
        f"indices {low} to {high} of dimension {dim}, which has {size} elements",
        tensor,
        limit=f"0 <= index < {size}, unless a mask leaves out what is beyond",
        help="mask the instruction, as in mask=i_p < n, or end the index range earlier",
    )


def restricted(tensor: NkiTensor, box: tuple[tuple[int, int], ...]) -> NkiTensor:
    """The part of a view from `low` to `high`, both included, of each dimension; checked to lie inside its tensor."""
    offset = tensor._offset + sum(low * step for (low, _), step in zip(box, tensor._strides, strict=True))
    shape = tuple([high - low + 1 for low, high in box])
    view = make_view(
        tensor._buffer, shape, tensor._strides, offset, tensor._dtype, _restricted_record(tensor, tensor._indirect, box)
    )
    if type(tensor._extra) is Subscript:
        view._extra = tensor._extra.within(box)
        view._extra.require_inside(tensor)
    return view


def _restricted_record(tensor: NkiTensor, record: Indirect | None, box: tuple[tuple[int, int], ...]) -> Indirect | None:
    """The run-time part for fewer rows: a vector of row numbers shrinks with the rows."""
    if record is None or record.kind != "vector" or not isinstance(record.index, NkiTensor):
        return record
    low, high = box[0]
    whole = (low, high) == (0, tensor._shape[0] - 1)
    return record if whole else replace(record, index=resolve_basic(record.index, (slice(low, high + 1),)))


def subscript(tensor: NkiTensor, key: Any) -> NkiTensor:
    """The view `tensor[key]`; see the module."""
    if key.__class__ is tuple and len(key) == len(tensor._shape) and _is_static(key):
        return _strided(checked(tensor), key)
    keys = _flattened(key)
    plain = True
    for item in keys:
        if isinstance(item, Mask):
            raise refuse(
                "NKI010",
                "a mask inside a subscript",
                tensor,
                limit="masks are passed as mask=",
                help="index with the range that is left, or pass mask= to the instruction",
            )
        if item is None:
            raise refuse(
                "NKI304",
                f"dimension {keys.index(None)} of a subscript is None",
                tensor,
                limit="a subscript of a tensor has no new dimensions",
                help="give them to the indices, as in nl.arange(n)[:, None, None], or use nl.expand_dims(tensor, axis)",
            )
        plain = plain and not isinstance(item, (Index, NkiTensor, MovedIndex))
    return (resolve_basic if plain else _advanced)(checked(tensor), keys)


def _is_static(keys: tuple[Any, ...]) -> bool:
    """Check for index expressions and integers, and nothing else: what kernels write most."""
    walks = False
    for item in keys:
        if item.__class__ is Index:
            walks = True
        elif item.__class__ is not int:
            return False
    return walks


def resolve_basic(tensor: NkiTensor, keys: tuple[Any, ...]) -> NkiTensor:
    """A view by integers, slices, `nl.ds` and `...`."""
    sizes, steps, offset, record = resolve(tensor, keys)
    return make_view(tensor._buffer, sizes, steps, offset, tensor._dtype, record)


def _flattened(key: Any) -> tuple[Any, ...]:
    """The key's items, with a grid in the place of its indices."""
    keys = key if isinstance(key, tuple) else (key,)
    if any(isinstance(item, Grid) for item in keys):
        return tuple(part for item in keys for part in (item.indices if isinstance(item, Grid) else (item,)))
    return keys


def _advanced(tensor: NkiTensor, keys: tuple[Any, ...]) -> NkiTensor:
    rank = len(tensor._shape)
    for dim, item in enumerate(keys):
        if isinstance(item, (slice, DynamicSlice)) or item is Ellipsis:
            raise refuse(
                "NKI304",
                f"dimension {dim} is {'...' if item is Ellipsis else 'sliced'} and others are indexed by nl.arange, "
                "nl.mgrid or a tile",
                tensor,
                limit="one subscript uses slices or index expressions; integers go with both",
                help="index every dimension with nl.arange or nl.mgrid",
            )
    if len(keys) != rank:
        raise refuse(
            "NKI304",
            f"{len(keys)} {'index' if len(keys) == 1 else 'indices'} for the {rank} dimensions of {tensor._shape}",
            tensor,
            limit="index expressions name every dimension of the tensor",
            help="index each dimension with nl.arange, nl.mgrid or an integer",
        )
    tiles = [dim for dim, item in enumerate(keys) if isinstance(item, NkiTensor)]
    if tiles and tensor._buffer.on_chip and tiles[0] > 0:  # one number beside walked partitions
        keys = tuple(moved_by_tile(item, Index((), (), 0, ())) or item for item in keys)
    if any(isinstance(item, MovedIndex) for item in keys):
        return _moved(tensor, keys)
    return _gathered(tensor, keys, tiles) if tiles else _strided(tensor, keys)


def _moved(tensor: NkiTensor, keys: tuple[Any, ...]) -> NkiTensor:
    """A view that one number in SBUF moves along one dimension."""
    moving = [(dim, item) for dim, item in enumerate(keys) if isinstance(item, (MovedIndex, NkiTensor))]
    (dim, item), *more = moving
    if more or not isinstance(item, MovedIndex):
        raise refuse(
            "NKI309",
            f"{len(moving)} run-time numbers in one subscript",
            tensor,
            limit="one run-time number a subscript",
            help="copy in two steps, through a tile",
        )
    item.by = checked(item.by)
    view = _strided(tensor, (*keys[:dim], item.index, *keys[dim + 1 :]), record_of(tensor, dim, item))
    key = view._extra
    # Where the moved dimension ends up is checked when the kernel runs.
    plain = make_view(view._buffer, view._shape, view._strides, view._offset, view._dtype, view._indirect)
    indices, sizes = (tuple(part[:dim] + part[dim + 1 :]) for part in (key.indices, key.sizes))
    plain._extra = Subscript(indices, sizes, key.rank, key.axes)
    return checked(plain)


def _strided(tensor: NkiTensor, keys: tuple[Any, ...], record: Indirect | None = None) -> NkiTensor:
    """The view of static indices."""
    indices = tuple([item if type(item) is Index else _constant(tensor, dim, item) for dim, item in enumerate(keys)])
    form = (tuple([(index.shape, index.steps) for index in indices]), tensor._strides, tensor._buffer.on_chip)
    layout = _layouts.get(form)
    if layout is None:
        layout = _layouts[form] = _layout(tensor, indices)
    shape, strides, reach = layout
    offset = tensor._offset
    inside = True
    for index, size, unit, (below, above) in zip(indices, tensor._shape, tensor._strides, reach, strict=True):
        start = index.offset
        offset += start * unit
        if start < below or start + above >= size:
            inside = False
    view = make_view(tensor._buffer, shape, strides, offset, tensor._dtype, record)
    view._extra = Subscript(indices, tensor._shape, len(shape))
    if not inside:
        view.__class__ = OutsideView
    return view


_Layout = tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...]]
_layouts: dict[Any, _Layout] = {}


def _layout(tensor: NkiTensor, indices: tuple[Index, ...]) -> _Layout:
    """Shape and strides of a view by static indices, and how far each index reaches (below, above) its offset."""
    rank = max(index.ndim for index in indices)
    indices = tuple([index.padded(rank) for index in indices])
    shape = tuple([max(index.shape[k] for index in indices) for k in range(rank)])
    for dim, index in enumerate(indices):
        if any(size not in (1, full) for size, full in zip(index.shape, shape, strict=True)):
            raise refuse(
                "NKI203",
                f"the index of dimension {dim} has shape {index.shape}, the others broadcast to {shape}",
                tensor,
                limit="the indices of one subscript broadcast against each other",
                help="give every index its own dimension: nl.arange(n)[:, None] and nl.arange(m)[None, :]",
            )
    strides = [
        sum(index.steps[k] * unit for index, unit in zip(indices, tensor._strides, strict=True)) for k in range(rank)
    ]
    if tensor._buffer.on_chip:
        _keep_partitions(tensor, indices[0], indices[1:], shape, strides)
    spans = [(index.offset, *index.span()) for index in indices]
    return shape, tuple(strides), tuple([(offset - low, high - offset) for offset, low, high in spans])


def _constant(tensor: NkiTensor, dim: int, item: Any) -> Index:
    value = integer_of(item)
    if value is None:
        resolve(tensor, (*(slice(None),) * dim, item, Ellipsis))  # raises the error of this kind of key
        raise AssertionError(f"{item!r} is no key and was not refused")
    return Index((), (), value, ())


def _keep_partitions(
    tensor: NkiTensor, partition: Index, free: tuple[Index, ...], shape: tuple[int, ...], strides: list[int]
) -> None:
    """Check that dimension 0 of an on-chip view, and no other, walks partitions; it keeps its stride at size 1."""
    if len(shape) < 2:
        raise refuse(
            "NKI304",
            f"an on-chip tensor is indexed by a flat index of {shape[0] if shape else 1} element(s)",
            tensor,
            limit="views of SBUF and PSUM have a partition dimension and at least one free dimension",
            help="write nl.arange(n)[:, None] for partitions and nl.arange(n)[None, :] for the free dimension",
        )
    across = [k for k in range(1, len(shape)) if partition.steps[k]]
    if across or any(index.steps[0] for index in free):
        raise refuse(
            "NKI312",
            f"dimension {across[0]} of the view walks partitions"
            if across
            else "dimension 0 of the view walks the free dimension",
            tensor,
            limit="dimension 0 of an on-chip view walks partitions, the others do not",
            help="put the partition index in dimension 0, or transpose the tile with nisa.nc_transpose",
        )
    if shape[0] == 1:
        strides[0] = tensor._strides[0]


def _gathered(tensor: NkiTensor, keys: tuple[Any, ...], tiles: list[int]) -> NkiTensor:
    """A view of rows that an index tile picks: one row number for each partition, or one for the whole view."""
    place = tiles[0]
    rows = checked(keys[place])
    if len(tiles) > 1:
        raise refuse(
            "NKI309",
            f"{len(tiles)} index tiles in one subscript",
            tensor,
            limit="one index tile a subscript",
            help="load in two steps, through a tile",
        )
    for dim in range(place):
        position = position_of(keys[dim])
        if position is None:
            raise refuse(
                "NKI309",
                f"an index tile picks dimension {place} behind dimension {dim}, which is walked",
                tensor,
                limit="before an index tile there are integers only",
                help="reshape the HBM tensor so that the picked rows come first",
            )
        tensor = _without_first(tensor, dim, position)
    rest = keys[place + 1 :]
    walks = [item for item in rest if isinstance(item, Index)]
    rank = max((item.ndim for item in walks), default=0)
    if rows.size == 1 and any(item.ndim == rank and item.shape[0] > 1 for item in walks):
        picked = tensor.select(0, rows)
        return _strided(picked, rest, picked._indirect)
    _, record = vector_select(tensor, 0, _column(rows))
    around = max(rank, 2) - 1  # the other dimensions of the view, over which a row number is the same
    axes = ((axes_of(rows) or (frozenset(),))[0], *[frozenset()] * around)
    walk = Index((rows._shape[0], *[1] * around), (1, *[0] * around), 0, axes)
    view = _strided(tensor, (walk, *rest), moved(record, 0))
    if view._shape[0] != rows._shape[0]:
        raise refuse(
            "NKI309",
            f"{rows._shape[0]} row numbers for {view._shape[0]} rows",
            tensor,
            limit="one row number for each row of the view",
        )
    key = view._extra
    view._extra = Subscript(key.indices[1:], key.sizes[1:], key.rank, key.axes)
    return checked(view)


def _column(rows: NkiTensor) -> NkiTensor:
    """The row number of each partition: of a view that walks more dimensions and repeats it along them, the first."""
    if any(rows._strides[1:]) and rows.size != rows._shape[0]:
        return rows
    return make_view(
        rows._buffer, (rows._shape[0], 1), (rows._strides[0], 1), rows._offset, rows._dtype, rows._indirect
    )


def _without_first(tensor: NkiTensor, dim: int, position: int) -> NkiTensor:
    size = tensor._shape[0]
    if not 0 <= position < size:
        raise _outside(tensor, dim, size, position, position)
    return make_view(
        tensor._buffer,
        tensor._shape[1:],
        tensor._strides[1:],
        tensor._offset + position * tensor._strides[0],
        tensor._dtype,
        tensor._indirect,
    )
