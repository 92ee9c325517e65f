"""Reads messages of nki_lab.wire by what its documentation says, with nothing of its code."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

Tables = dict[str, dict[str, np.ndarray[Any, Any]]]


def read(message: bytes) -> tuple[dict[str, Any], Tables]:
    """The header without its directory, and the columns as they are meant."""
    magic, version, size, rest = struct.unpack("<4sIII", message[:16])
    assert (magic, version, rest) == (b"NKIW", 1, 0)
    start = 16 + size
    assert start % 8 == 0
    header = json.loads(message[16:start].decode("ascii"), parse_constant=_refuse)
    tables: Tables = {}
    for table, columns in header.pop("tables").items():
        for name, entry in columns.items():
            dtype = np.dtype(f"<{entry['dtype']}")
            low = start + entry["offset"]
            assert low % 8 == 0
            values = np.frombuffer(message[low : low + entry["length"] * dtype.itemsize], dtype)
            assert len(values) == entry["length"]
            tables.setdefault(table, {})[name] = np.cumsum(values.astype(np.int64)) if entry.get("delta") else values
    return header, tables


def _refuse(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")
