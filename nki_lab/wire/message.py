"""The form of a message: a JSON header and columns of numbers, each as narrow as its values allow.

A message is the bytes `NKIW`, the version, the header's length (both uint32, little endian), the header as ASCII JSON
filled up with spaces to a multiple of eight bytes, then the columns, each filled up to a multiple of eight as well.
The header's `tables` say of every column what it is: {"dtype": "u1" … "i4", "f4" or "f8", "offset": bytes from the end
of the header, "length": values}; with "delta" the values are the differences from one to the next, the first from zero.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.recording.columns import Array

MAGIC: Final = b"NKIW"
VERSION: Final = 1
"""Raised by a change that older pages cannot read."""

MOST_MESSAGE: Final = 1 << 30
"""Bytes of the largest message that a page takes; a run of a million rows has some 80 MB."""

_WIDTHS: Final = ("u1", "i1", "u2", "i2", "u4", "i4")
_ALIGN: Final = 8
_AT_ONCE: Final = 2**22  # bytes that zlib gets in one call: a tenth of a second
_LEVEL: Final = 4  # of zlib: 6 takes almost three times as long for less than five percent

JsonObject = dict[str, object]


@dataclass(slots=True)
class Delta:
    """A column that is sent as differences: of values that grow slowly, most are small."""

    values: Array


def message(header: Mapping[str, object], tables: Mapping[str, Mapping[str, Array | Delta]]) -> bytes:
    """The message of a header and its tables; all columns of a table have one length."""
    parts: list[bytes] = []
    offset = 0
    layout: dict[str, dict[str, JsonObject]] = {}
    for table, columns in tables.items():
        layout[table] = {}
        for name, column in columns.items():
            is_delta = isinstance(column, Delta)
            values = narrow(
                np.diff(column.values.astype(np.int64, copy=False), prepend=np.int64(0))
                if isinstance(column, Delta)
                else column
            )
            entry: JsonObject = {"dtype": values.dtype.str[1:], "offset": offset, "length": len(values)}
            layout[table][name] = {**entry, "delta": True} if is_delta else entry
            parts += [values.tobytes(), bytes(-values.nbytes % _ALIGN)]
            offset += values.nbytes + -values.nbytes % _ALIGN
    head = _json({**header, "tables": layout})
    head += b" " * (-len(head) % _ALIGN)
    # The header begins after twelve bytes; four more keep the columns aligned.
    start = MAGIC + VERSION.to_bytes(4, "little") + len(head).to_bytes(4, "little") + bytes(4)
    return b"".join((start, head, *parts))


def compact(given: bytes) -> bytes:
    """A message in the zlib format, for pages and notebooks; browsers read it by themselves."""
    packer = zlib.compressobj(_LEVEL)
    view = memoryview(given)
    # An interrupt takes effect between two parts.
    parts = [packer.compress(view[at : at + _AT_ONCE]) for at in range(0, len(view), _AT_ONCE)]
    return b"".join((*parts, packer.flush()))


def narrow(values: Array) -> Array:
    """The same numbers in the narrowest type that holds them: little-endian integers of up to 32 bits, float32 for
    itself, else float64.

    Whole numbers up to 2**53 stay exact.
    """
    if values.dtype == np.float32:
        return values.astype("<f4", copy=False)
    if values.dtype.kind == "f" or not len(values):
        return values.astype("<f8" if len(values) else "u1", copy=False)
    low, high = int(values.min()), int(values.max())
    for width in _WIDTHS:
        limits = np.iinfo(width)
        if limits.min <= low and high <= limits.max:
            return values.astype(np.dtype(width).newbyteorder("<"), copy=False)
    return values.astype("<f8")


def _json(value: object) -> bytes:
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(finite(value), separators=(",", ":"))
    return text.encode("ascii")


def finite(value: object) -> object:
    """The same value with null for what JSON cannot say: NaN and infinities."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value
