"""Arguments as data: shapes, dtypes and compile-time values in the types of JSON; other objects become unknown.

| value | data |
|-|-|
| None, bool, int, float, str, list | as they are |
| tensor | `{"tensor": "bfloat16[128,512]"}`, on the chip with `"memory": "sbuf"` |
| dtype | `{"dtype": "bfloat16"}` |
| tuple, range | `{"tuple": [...]}`, `{"range": [0, 8, 2]}` |
| slice, `nl.ds` | `{"slice": [0, 8, null]}`, `{"ds": [0, 128]}` |
| dict with names as keys | `{"dict": {...}}` |
| member of an enumeration | `{"member": "Layout.rows"}`, of NKI's own `{"nki": "engine.vector"}` |
| dataclass, `nl.NKIObject` | `{"object": "Config", "fields": {...}}` |
| anything else | `{"unknown": "Allocator"}` |
"""

from __future__ import annotations

import dataclasses
import math
from enum import Enum
from typing import Any, Final

import numpy as np

from nki_lab.isa import enums
from nki_lab.isa.dtype import DTYPES, DType
from nki_lab.kernel_runtime.language.objects import NKIObject
from nki_lab.kernel_runtime.tensor import DynamicSlice, MemoryRegion, NkiTensor

Data = Any
"""A value as JSON has it."""

MOST_PARTS: Final = 256
"""Values in the containers of one argument; a larger one is unknown."""
LONGEST: Final = 200
"""Characters of a text that is kept."""
LARGEST: Final = 1 << 62
DEPTH: Final = 6
"""Containers inside of containers that are looked at."""


def encoded(value: object) -> Data:
    """Return an argument as data. No method of a user's class is called."""
    return _Encoder().data(value, DEPTH)


def is_mutable(value: object) -> bool:
    """Return whether a value is a container or an object that code may change, or a tuple of such."""
    if type(value) is tuple:
        return any(map(is_mutable, value))
    return isinstance(value, list | dict) or _has_fields(value)


def is_known(data: Data) -> bool:
    """Return whether nothing in an argument's data is unknown."""
    if isinstance(data, dict):
        return "unknown" not in data and all(map(is_known, data.values()))
    return all(map(is_known, data)) if isinstance(data, list) else True


def has_tensor(data: Data) -> bool:
    """Return whether an argument's data has a tensor in it."""
    if isinstance(data, dict):
        return "tensor" in data or any(map(has_tensor, data.values()))
    return any(map(has_tensor, data)) if isinstance(data, list) else False


def unchanged(first: Data, later: Data) -> Data:
    """Return what is the same in the data of one argument at two times; the rest is unknown, fields by themselves."""
    match first, later:
        case {"object": name, "fields": dict(old)}, {"object": other, "fields": dict(new)} if name == other:
            return {
                "object": name,
                "fields": {key: unchanged(item, new.get(key, CHANGED)) for key, item in old.items()},
            }
        case {"tuple": list(old)}, {"tuple": list(new)} if len(old) == len(new):
            return {"tuple": [unchanged(*pair) for pair in zip(old, new, strict=True)]}
        case _:
            return first if first == later else CHANGED


CHANGED: Final[Data] = {"unknown": "changed"}
"""Stands for a value that may have changed since the call."""


class _Encoder:
    """Encodes one argument within its limits."""

    def __init__(self) -> None:
        self._left = MOST_PARTS

    def data(self, value: Any, depth: int) -> Data:
        self._left -= 1
        kind = type(value)
        if value is None or kind is bool or (kind is int and abs(value) < LARGEST):
            return value
        if kind is float and math.isfinite(value):
            return value
        if kind is str and len(value) <= LONGEST and value.isprintable():
            return value
        if isinstance(value, NkiTensor):
            return _tensor(value)
        if isinstance(value, Enum):
            return _member(value)
        if isinstance(value, np.bool_ | np.integer | np.floating):
            plain = value.item()
            return self.data(plain, depth) if type(plain) in (bool, int, float) else _unknown(value)
        if (name := _dtype(value)) is not None:
            return {"dtype": name}
        if not depth or self._left < 0:
            return _unknown(value)
        return self._container(value, kind, depth - 1)

    def _container(self, value: Any, kind: type, depth: int) -> Data:
        if kind is range or kind is slice:
            ends = [value.start, value.stop, value.step]
            plain = all(end is None or (type(end) is int and abs(end) < LARGEST) for end in ends)
            return {kind.__name__: ends} if plain else _unknown(value)
        if kind is DynamicSlice:
            plain = type(value.start) is int and type(value.size) is int and abs(value.start) + value.size < LARGEST
            return {"ds": [value.start, value.size]} if plain else _unknown(value)
        if (kind is list or isinstance(value, tuple)) and len(value) > self._left:
            return _unknown(value)
        if kind is list:
            return [self.data(item, depth) for item in value]
        if kind is tuple:
            return {"tuple": [self.data(item, depth) for item in value]}
        if kind is dict and all(type(key) is str and len(key) <= LONGEST for key in value) and len(value) <= self._left:
            return {"dict": {key: self.data(item, depth) for key, item in value.items()}}
        if _has_fields(value):
            fields = _fields(value)
            if len(fields) <= self._left:
                return {
                    "object": kind.__name__,
                    "fields": {key: self.data(item, depth) for key, item in fields.items()},
                }
        return _unknown(value)


def _unknown(value: object) -> Data:
    return {"unknown": type(value).__name__[:LONGEST]}


def _tensor(value: NkiTensor) -> Data:
    if value._indirect is not None or not all(type(size) is int for size in value._shape):
        return _unknown(value)
    text = f"{value._dtype.name}[{','.join(map(str, value._shape))}]"
    space = value._buffer.space
    if space in (MemoryRegion.sbuf, MemoryRegion.psum):
        return {"tensor": text, "memory": space.value}
    return {"tensor": text}


def _member(value: Enum) -> Data:
    home = type(value)
    if isinstance(value, MemoryRegion):
        return {"nki": f"MemoryRegion.{value.name}"}
    if home.__module__ == enums.__name__:
        return {"nki": f"{home.__name__}.{value.name}"}
    return {"member": f"{home.__name__}.{value.name}"} if value.name else _unknown(value)


def _dtype(value: object) -> str | None:
    if isinstance(value, DType):
        return value.name
    if isinstance(value, type):
        return None
    for name, kind in DTYPES.items() if isinstance(value, np.dtype) or type(value).__name__ == "NamedDType" else ():
        if type(kind.host) is type(value) and kind.host == value:
            return name
    return None


def _has_fields(value: object) -> bool:
    return not isinstance(value, type) and (isinstance(value, NKIObject) or dataclasses.is_dataclass(value))


def _fields(value: Any) -> dict[str, object]:
    """Return the fields of a dataclass or NKIObject that are set, without calling a property or `__getattr__`."""
    names = [item.name for item in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    own = getattr(value, "__dict__", {})
    found = {}
    for name in dict.fromkeys([*names, *own]):
        if name in own:
            found[name] = own[name]
        else:
            held = getattr(type(value), name, None)
            if type(held).__name__ == "member_descriptor":  # a slot
                try:
                    found[name] = held.__get__(value)  # type: ignore[union-attr]
                except AttributeError:
                    continue
    return found
