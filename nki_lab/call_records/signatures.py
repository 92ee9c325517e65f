"""Records of calls as signatures that functions are evaluated with."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from nki_lab.call_records.store import CallRecord
from nki_lab.isa import enums
from nki_lab.isa.dtype import DTYPES
from nki_lab.kernel_runtime.interpreter import UNKNOWN, EnumMember, Instance, Signature, TileSpec, UserClass
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.tensor import DynamicSlice, MemoryRegion
from nki_lab.source.trees import FunctionNode

DEPTH: Final = 8
"""Containers inside of containers that are read."""
MOST_PARTS: Final = 1024
"""Items of one container."""

_TENSOR: Final = re.compile(r"(\w{1,32})\[(\d{1,9}(?:,\d{1,9}){0,7})\]")
_MEMBER: Final = re.compile(r"(\w{1,200})\.(\w{1,200})")
_MEMORIES: Final = {"sbuf": MemoryRegion.sbuf, "psum": MemoryRegion.psum}


class StaleCallError(Exception):
    """Reports that a call does not fit its function, or that its data is none; says why."""


def signature_of(call: CallRecord, function: FunctionNode) -> Signature:
    """Return the signature of a call of the function that the source has now; StaleCallError where it does not fit."""
    values = {name: decoded(data) for name, data in call.arguments.items()}
    arguments, name = function.args, getattr(function, "name", "the function")
    positional = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args)]
    keywords = [arg.arg for arg in arguments.kwonlyargs]
    rest = _taken(values, arguments.vararg, tuple, ())
    more = _taken(values, arguments.kwarg, dict, {})
    for key in values:
        if key not in positional and key not in keywords:
            raise StaleCallError(f"{name} has no parameter {key}")
    required = positional[: len(positional) - len(arguments.defaults)]
    required += [key for key, default in zip(keywords, arguments.kw_defaults, strict=True) if default is None]
    for key in required:
        if key not in values:
            raise StaleCallError(f"the call has no value for {key}")
    count = len(positional) if rest else len(arguments.posonlyargs)
    first = []
    for key in positional[:count]:
        if key not in values:
            break
        first.append(values.pop(key))
    if rest and len(first) < count:
        raise StaleCallError(f"the call has no value for {positional[len(first)]}")
    return Signature(args=(*first, *rest), kwargs={**values, **more}, grid=call.grid)


def _taken(values: dict[str, Any], parameter: ast.arg | None, kind: type, default: Any) -> Any:
    """Return what `*args` or `**kwargs` took, and take it out of the values."""
    if parameter is None or parameter.arg not in values:
        return default
    value = values.pop(parameter.arg)
    if not isinstance(value, kind):
        raise StaleCallError(f"what {parameter.arg} took is not known")
    return value


def decoded(data: object, depth: int = DEPTH) -> Any:
    """Return the value that data stands for; StaleCallError for data that is none."""
    match data:
        case None | bool() | int() | float() | str():
            return data
        case list() | dict() if not depth or len(data) > MOST_PARTS:
            raise StaleCallError("a value is too large")
        case list():
            return [decoded(item, depth - 1) for item in data]
        case {"unknown": str()}:
            return UNKNOWN
        case {"tensor": str(text), "memory": str(memory)}:
            return _tensor(text, memory)
        case {"tensor": str(text)}:
            return _tensor(text, None)
        case {"dtype": str(name)} if name in DTYPES:
            return DTYPES[name].host
        case {"tuple": list(items)} if len(items) <= MOST_PARTS:
            return tuple(decoded(item, depth - 1) for item in items)
        case {"dict": dict(items)} if len(items) <= MOST_PARTS:
            return {key: decoded(item, depth - 1) for key, item in items.items()}
        case {"range": [int(start), int(stop), int(step)]} if step:
            return range(start, stop, step)
        case {"ds": [int(start), int(size)]}:
            return DynamicSlice(start, size)
        case {"slice": [start, stop, step]} if all(end is None or type(end) is int for end in (start, stop, step)):
            return slice(start, stop, step)
        case {"member": str(text)} if found := _MEMBER.fullmatch(text):
            return EnumMember(UserClass(found[1], (), "enum", {}), found[2], UNKNOWN)
        case {"nki": str(text)} if found := _MEMBER.fullmatch(text):
            return _own_member(found[1], found[2])
        case {"object": str(name), "fields": dict(fields)} if len(fields) <= MOST_PARTS:
            cls = UserClass(name, (), "object", {})
            return Instance(cls, {key: decoded(item, depth - 1) for key, item in fields.items()})
        case _:
            raise StaleCallError("a value is no data of a call")


def _tensor(text: str, memory: str | None) -> TensorSpec | TileSpec:
    found = _TENSOR.fullmatch(text)
    if found is None or found[1] not in DTYPES or (memory is not None and memory not in _MEMORIES):
        raise StaleCallError(f"{text!r:.60} is no tensor")
    shape = tuple(int(size) for size in found[2].split(","))
    if not all(shape):
        raise StaleCallError(f"{text!r:.60} is no tensor")
    spec = TensorSpec(shape, DTYPES[found[1]])
    return spec if memory is None else TileSpec(spec, _MEMORIES[memory])


def _own_member(cls: str, name: str) -> object:
    """Return the member of an enumeration of NKI's."""
    owners: Mapping[str, object] = {"MemoryRegion": MemoryRegion, **vars(enums)}
    kind = owners.get(cls)
    if isinstance(kind, type) and issubclass(kind, Enum) and name in kind.__members__:
        return kind[name]
    raise StaleCallError(f"NKI has no {cls}.{name}")
