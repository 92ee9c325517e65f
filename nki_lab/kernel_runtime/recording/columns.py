"""Columns in memory, and what all columns share with those that stay on disk until somebody looks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from nki_lab.kernel_runtime.recording import schema

Array = NDArray[Any]
Json = Any
"""A value that JSON can hold."""
Key = int | slice | Array
"""A place, a stretch of places, or an array of places or truth values."""
Side = Literal["left", "right"]

PIECE: Final = 1 << 18
"""Values that a pass over a whole column holds at a time."""


class Column(Protocol):
    """Numbers by place: `column[3]`, `column[a:b]`, `column[array of places]`. An array is one."""

    @property
    def dtype(self) -> np.dtype[np.generic]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, key: Key, /) -> Any: ...


class Columns:
    """One table: its columns by name, all of one length."""

    __slots__ = ("_columns", "_length", "spec")

    def __init__(self, spec: schema.Table, columns: Mapping[str, Column], length: int) -> None:
        self.spec = spec
        self._columns = dict(columns)
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, name: str) -> Column:
        """The column `name`; text columns have no numbers and are read by `texts`."""
        return self._columns[name]

    def texts(self, name: str) -> Sequence[str]:
        """The text column `name`."""
        raise KeyError(name)

    def prefetch(self, names: Sequence[str], low: int, high: int) -> None:
        """Say that these places of these columns are wanted next."""

    def limits(self, name: str) -> tuple[int, int]:
        """The least and the greatest value of a column that is not empty."""
        column = whole(self[name])
        return int(column.min()), int(column.max())

    @property
    def nbytes(self) -> int:
        """Bytes of the table with every column in memory."""
        texts = (text for column in self.spec.columns if column.is_text for text in self.texts(column.name))
        return self.spec.row_bytes * len(self) + sum(len(text.encode()) for text in texts)


class MemoryColumns(Columns):
    """A table held in memory."""

    __slots__ = ("_texts",)

    def __init__(
        self, spec: schema.Table, columns: Mapping[str, Column], texts: Mapping[str, Sequence[str]], length: int
    ) -> None:
        super().__init__(spec, columns, length)
        self._texts = dict(texts)

    def texts(self, name: str) -> Sequence[str]:
        return self._texts[name]


@dataclass(slots=True, eq=False, repr=False)
class Gathered:
    """`column[places]` without making it: what an index shows of another table."""

    _column: Array
    _places: Array

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return self._column.dtype

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, key: Key) -> Any:
        return self._column[self._places[key]]

    def search(self, value: int, low: int, high: int, side: Side) -> int:
        return (bisect_left if side == "left" else bisect_right)(
            range(len(self)), value, low, high, key=self.__getitem__
        )


def search(column: Column, value: int, low: int, high: int, side: Side = "left") -> int:
    """Return where `value` would go in the places `low` to `high` of a column that is sorted there."""
    if isinstance(column, np.ndarray):
        return low + place_in(column[low:high], value, side)
    return column.search(value, low, high, side)  # type: ignore[attr-defined, no-any-return]  # all others have it


def place_in(values: Array, value: int, side: Side) -> int:
    """Return where `value` would go in sorted values."""
    limits = np.iinfo(values.dtype)
    if value > limits.max or value < limits.min:
        return len(values) if value > 0 else 0
    # In the values' own dtype: NumPy would otherwise convert them all.
    return int(np.searchsorted(values, values.dtype.type(value), side))


def pieces(length: int, size: int = PIECE) -> Iterator[tuple[int, int]]:
    """Stretches of at most `size` places that cover `length`."""
    return ((low, min(low + size, length)) for low in range(0, length, size))


def whole(column: Column) -> Array:
    """The column as one array."""
    return column if isinstance(column, np.ndarray) else np.asarray(column[:])
