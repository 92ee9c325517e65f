"""The values of a tile as a message: cells for a heat map, the numbers of an excerpt, counts, and a histogram.

The message has the form of `nki_lab.wire.message` and the header `ValuesHeader`. Tables, by columns:

- `cells`, row by row: `value`, of several elements the one of the largest magnitude; `marks`, flags of `MARKS` that
  hold for any of them. With a reference also `reference`, its value there, and `error`, the largest relative error.
- `excerpt`, numbers of a part of a tile whose cells stand for several elements each: the same, and `bits`.
- `bits`: the bits of floats of 8 and 16 bits where a cell is one element. Those of others are those of `value`.
- `histogram`: `count` of the finite elements in equal steps from `low` to `high`, and `reference`, the same of it.
- `scales`: `power`, the exponents of two of MX blocks, row by row of blocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.dtype import DType
from nki_lab.isa.element_values import PACKED, element_bits, element_values
from nki_lab.kernel_runtime.protocols import IndexUse, TileContent
from nki_lab.wire.header_types import ErrorFigures, IndexUseHeader, ValueCounts, ValuesHeader
from nki_lab.wire.message import message

Array = NDArray[Any]
Flags = NDArray[np.uint8]

MARKS: Final = {"nan": 1, "inf": 2, "saturated": 4, "subnormal": 8, "unwritten": 16}
"""The flags of a cell."""
TIMES: Final = ("before", "after", "change")
"""When values are asked for: before the instruction of a step, after it, or what it changed."""
WHOLE_CELLS: Final = 1 << 18
"""Elements up to which each is a cell of its own."""
FEW_CELLS: Final = 1 << 14
"""The same for pictures that a notebook keeps."""
HISTOGRAM: Final = 48
"""Steps of the histogram."""
_EXCERPT: Final = (32, 32)  # elements of an excerpt, at most
_FLOOR: Final = 1e-2  # relative errors are those of at least this share of the largest reference of their row


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesAsked:
    """A question for the values of a tile. `excerpt` is the row and the column where the numbers begin."""

    request: int
    step: int
    buffer: int
    when: str = "after"
    against: str = ""
    excerpt: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tile:
    """A tile as a table: values, their bits, which of them were written, and those of the reference."""

    values: Array
    bits: Array | None
    written: NDArray[np.bool_] | None
    reference: Array | None
    error: Array | None


def encode_values(
    asked: ValuesAsked,
    content: TileContent,
    *,
    before: TileContent | None = None,
    reference: Array | None = None,
    references: tuple[str, ...] = (),
    indices: Sequence[IndexUse] = (),
    most_cells: int = WHOLE_CELLS,
) -> bytes:
    """Return the message of a tile's values.

    With `before` the values are what changed since then. `reference` has the shape of the tile. `references` are the
    names of what it could be compared with, `indices` what instructions take of the content as run-time indices.
    """
    with np.errstate(all="ignore"):
        tile = _table(content, before, reference)
        marks = _marks(tile, content.dtype, is_change=before is not None)
        rows, columns = tile.values.shape
        row_bin, column_bin = _bins(rows, columns, most_cells)
        is_whole = row_bin == column_bin == 1
        tables: dict[str, Mapping[str, Array]] = {"cells": _cells(tile, marks, row_bin, column_bin)}
        excerpt = _excerpt(tile, marks, asked.excerpt)
        if not is_whole:
            tables["excerpt"] = excerpt[1]
        elif tile.bits is not None and tile.bits.dtype.itemsize < tile.values.dtype.itemsize:
            tables["bits"] = {"bits": tile.bits.ravel()}
        if content.scales is not None:
            tables["scales"] = {"power": content.scales.astype(np.float32).ravel()}
        header = _header(asked, content, tile, marks, is_change=before is not None)
        histogram = _add_figures(header, tile)
        if histogram:
            tables["histogram"] = histogram
        header["references"] = list(references)
        if indices:
            header["indices"] = [_index_use(use) for use in indices]
        header["row_bin"], header["column_bin"] = row_bin, column_bin
        header["excerpt"] = [] if is_whole else excerpt[0]
        if tile.error is not None and tile.error.size:
            header["error"] = _error_figures(tile.error)
    return message({"kind": "values", **header}, tables)


def _table(content: TileContent, before: TileContent | None, reference: Array | None) -> _Tile:
    """Return the tile as a table of partitions, or rows in HBM, and the elements of each."""
    lead = content.rows
    values = _flat(element_values(content.values, content.dtype), lead)
    bits: Array | None = _flat(element_bits(content.values, content.dtype), lead)
    written = content.written
    if before is not None:
        # Integers of 32 bits and floats keep their digits.
        wide = values.astype(np.float64) - _flat(element_values(before.values, before.dtype), lead).astype(np.float64)
        same = bits == _flat(element_bits(before.values, before.dtype), lead)
        values, bits = np.where(same, 0.0, wide).astype(np.float32), None
        if before.written is not None:
            written = before.written if written is None else before.written & written
    mask = None if written is None else _flat(_per_number(written, content.dtype), lead)
    wanted = None if reference is None else _flat(_reference_values(reference, content.dtype), lead)
    if wanted is None or wanted.shape != values.shape:
        return _Tile(values=values, bits=bits, written=mask, reference=None, error=None)
    error = relative_error(values, wanted)
    return _Tile(
        values=values,
        bits=bits,
        written=mask,
        reference=wanted.astype(np.float32),
        error=error if mask is None else np.where(mask, error, np.float32(0)),
    )


def _flat(values: Array, lead: int) -> Array:
    """Return an array as a table: the first `lead` dimensions, and all others flattened."""
    if values.ndim < 2:
        return values.reshape(1, -1)
    return values.reshape(math.prod(values.shape[:lead]), math.prod(values.shape[lead:]))


def _per_number(written: NDArray[np.bool_], dtype: DType) -> NDArray[np.bool_]:
    return np.repeat(written, PACKED, axis=-1) if dtype.kind == "packed" else written


def _reference_values(reference: Array, dtype: DType) -> Array:
    is_plain = reference.dtype.names is None and not (dtype.kind == "packed" and reference.dtype.kind in "ui")
    return reference.astype(np.float64) if is_plain else element_values(reference, dtype)


@np.errstate(all="ignore")
def relative_error(values: Array, reference: Array) -> Array:
    """Return the difference of each element to its reference, as a share of the reference, or of a hundredth of the
    largest of its row where it is smaller than that.

    Equal infinities, and NaN where the reference has it, are no error; otherwise the error of NaN and infinities is
    infinite.
    """
    have, want = values.astype(np.float64), reference.astype(np.float64)
    sizes = np.where(np.isfinite(want), np.abs(want), 0)
    least = _FLOOR * sizes.max(axis=-1, keepdims=True, initial=0)
    difference = np.abs(have - want)
    error = np.where(difference == 0, 0, difference / np.maximum(sizes, least))
    same = (have == want) | (np.isnan(have) & np.isnan(want))
    error = np.where(same, 0, np.where(np.isfinite(have) & np.isfinite(want), error, np.inf))
    return error.astype(np.float32)


def _limits(dtype: DType) -> tuple[float, float]:
    """Return the magnitude from which elements are saturated, and the one below which they are subnormal; 0: none."""
    if dtype.kind not in {"float", "packed"}:
        return 0.0, 0.0
    smallest = 2.0 ** (dtype.smallest_exponent + dtype.mantissa_bits) if dtype.mantissa_bits else 0.0
    return float(dtype.max_finite), smallest


def _marks(tile: _Tile, dtype: DType, *, is_change: bool) -> Flags:
    """Return the flags of each element; of one that was not written only that."""
    values = tile.values
    marks: Flags = np.zeros(values.shape, np.uint8)
    if values.dtype.kind == "f":
        size = np.abs(values)
        marks |= np.isnan(values) * np.uint8(MARKS["nan"]) | np.isinf(values) * np.uint8(MARKS["inf"])
        largest, smallest = _limits(dtype)
        if largest and not is_change:
            marks |= ((size >= np.float32(largest)) & np.isfinite(values)) * np.uint8(MARKS["saturated"])
            marks |= ((size < np.float32(smallest)) & (values != 0)) * np.uint8(MARKS["subnormal"])
    elif dtype.is_integer:
        ends = (values == dtype.max_finite) | ((values == dtype.lowest) & (dtype.lowest != 0))
        marks |= ends * np.uint8(MARKS["saturated"])
    return marks if tile.written is None else np.where(tile.written, marks, np.uint8(MARKS["unwritten"]))


def _bins(rows: int, columns: int, most: int) -> tuple[int, int]:
    """Return how many rows and columns of elements a cell stands for, so that there are at most `most` cells."""
    row_bin = column_bin = 1
    while math.ceil(rows / row_bin) * math.ceil(columns / column_bin) > most:
        if math.ceil(columns / column_bin) >= 2 * math.ceil(rows / row_bin):
            column_bin *= 2
        else:
            row_bin *= 2
    return row_bin, column_bin


def _cells(tile: _Tile, marks: Flags, row_bin: int, column_bin: int) -> dict[str, Array]:
    """Return the columns of the cells: of several elements the one of the largest magnitude."""
    if row_bin == column_bin == 1:
        columns = {"value": tile.values, "marks": marks}
        columns |= {} if tile.reference is None else {"reference": tile.reference}
        columns |= {} if tile.error is None else {"error": tile.error}
        return {name: np.ascontiguousarray(column).ravel() for name, column in columns.items()}
    known = _binned(np.where(marks & MARKS["unwritten"], 0, tile.values), row_bin, column_bin)
    size = np.abs(known.astype(np.float64, copy=False))
    size[~np.isfinite(size)] = -1  # marks say of these, the color is that of the others
    largest = np.expand_dims(size.argmax(axis=-1), -1)
    cells = {"value": np.take_along_axis(known, largest, -1).ravel()}
    cells["marks"] = np.bitwise_or.reduce(_binned(marks, row_bin, column_bin), axis=-1).ravel()
    if tile.reference is not None:
        binned = _binned(tile.reference, row_bin, column_bin)
        cells["reference"] = np.take_along_axis(binned, largest, -1).ravel()
    if tile.error is not None:
        cells["error"] = _binned(tile.error, row_bin, column_bin).max(axis=-1).ravel()
    return cells


def _binned(values: Array, row_bin: int, column_bin: int) -> Array:
    """Return the elements of each cell in the last dimension, filled up with zeros at the ends."""
    rows, columns = values.shape
    high, wide = math.ceil(rows / row_bin), math.ceil(columns / column_bin)
    full = values
    if (high * row_bin, wide * column_bin) != (rows, columns):
        full = np.zeros((high * row_bin, wide * column_bin), values.dtype)
        full[:rows, :columns] = values
    blocks = full.reshape(high, row_bin, wide, column_bin).swapaxes(1, 2)
    return blocks.reshape(high, wide, row_bin * column_bin)


def _excerpt(tile: _Tile, marks: Flags, start: tuple[int, int]) -> tuple[list[int], dict[str, Array]]:
    """Return where the excerpt lies and its size, cut to the tile, and its columns."""
    rows, columns = tile.values.shape
    row = max(0, min(start[0], rows - _EXCERPT[0]))
    column = max(0, min(start[1], columns - _EXCERPT[1]))
    part = np.s_[row : row + _EXCERPT[0], column : column + _EXCERPT[1]]
    shown: dict[str, Array] = {"value": tile.values[part].ravel(), "marks": marks[part].ravel()}
    for name, column_values in (("bits", tile.bits), ("reference", tile.reference), ("error", tile.error)):
        if column_values is not None:
            shown[name] = column_values[part].ravel()
    size = tile.values[part].shape
    return [row, column, *size], shown


def _add_figures(header: ValuesHeader, tile: _Tile) -> dict[str, Array]:
    """Enter the range, the mean and the standard deviation of the finite elements; return their histogram."""
    values = tile.values if tile.written is None else tile.values[tile.written]
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values.ravel()
    if not finite.size:
        return {}
    low, high = float(finite.min()), float(finite.max())
    header["low"], header["high"] = low, high
    header["mean"] = float(finite.mean(dtype=np.float64))
    header["std"] = float(finite.std(dtype=np.float64))
    histogram: dict[str, Array] = {"count": _histogram(finite, low, high)}
    if tile.reference is not None:
        wanted = tile.reference if tile.written is None else tile.reference[tile.written]
        histogram["reference"] = _histogram(wanted[np.isfinite(wanted)], low, high)
    return histogram


def _histogram(values: Array, low: float, high: float) -> Array:
    """Return how many of the values lie in each step; those outside count at the ends."""
    if high <= low:
        counts = np.zeros(HISTOGRAM, np.int64)
        counts[HISTOGRAM // 2] = values.size
        return counts
    place = (values.astype(np.float64) - low) * (HISTOGRAM / (high - low))
    return np.bincount(place.clip(0, HISTOGRAM - 1).astype(np.int64).ravel(), minlength=HISTOGRAM)


def _error_figures(error: Array) -> ErrorFigures:
    finite = np.where(np.isfinite(error), error, 0)
    row, column = np.unravel_index(int(finite.argmax()), finite.shape)
    largest, mean = float(finite[row, column]), float(finite.mean(dtype=np.float64))
    return ErrorFigures(largest=largest, row=int(row), column=int(column), mean=mean)


def _index_use(use: IndexUse) -> IndexUseHeader:
    return IndexUseHeader(
        view=use.view,
        steps=use.steps,
        values=use.values,
        written=use.written,
        stride=use.stride,
        lowest=use.lowest,
        highest=use.highest,
    )


def _header(asked: ValuesAsked, content: TileContent, tile: _Tile, marks: Flags, *, is_change: bool) -> ValuesHeader:
    dtype = content.dtype
    largest, smallest = _limits(dtype)
    mantissa = 23 if is_change else dtype.mantissa_bits
    count = {name: int(np.count_nonzero(marks & flag)) for name, flag in MARKS.items()}
    zero = int(np.count_nonzero((tile.values == 0) & ((marks & MARKS["unwritten"]) == 0)))
    rows, columns = tile.values.shape
    return ValuesHeader(
        request=asked.request,
        step=asked.step,
        buffer=asked.buffer,
        when=asked.when,
        against=asked.against if tile.reference is not None else "",
        references=[],
        dtype=dtype.name,
        kind="float" if is_change else dtype.kind,
        shape=[int(size) for size in content.values.shape],
        lead=content.rows,
        rows=rows,
        columns=columns,
        row_bin=1,
        column_bin=1,
        width=8 * dtype.nbytes // (PACKED if dtype.kind == "packed" else 1),
        digits=math.ceil(1 + (mantissa + 1) * math.log10(2)),
        mantissa=mantissa,
        largest=0.0 if is_change else largest,
        smallest=0.0 if is_change else smallest,
        counts=ValueCounts(
            nan=count["nan"],
            inf=count["inf"],
            saturated=count["saturated"],
            subnormal=count["subnormal"],
            zero=zero,
            unwritten=count["unwritten"],
        ),
        block=[] if content.scales is None else [8, PACKED],
        excerpt=[],
        written_known=content.is_written_known,
    )


__all__ = ["FEW_CELLS", "HISTOGRAM", "MARKS", "TIMES", "WHOLE_CELLS", "ValuesAsked", "encode_values", "relative_error"]
