"""Registers by their documentation: 32 bits that are moved, loaded and stored as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.reference.grid import Operand, Result, Stored


def register_move(_ins: Mapping[str, Operand], _attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    return {}


def register_load(_ins: Mapping[str, Operand], _attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    return {}


def register_store(ins: Mapping[str, Operand], attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    """The low bytes of the register, little end first."""
    dst = ins["dst"]
    bits = (attrs["src"] % 2**32).to_bytes(4, "little")
    kind = np.dtype(dst.dtype)
    return {"dst": Stored(np.frombuffer(bits[: kind.itemsize], kind).reshape(dst.array.shape))}
