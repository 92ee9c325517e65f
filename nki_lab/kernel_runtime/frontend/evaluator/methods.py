"""Methods and attributes of values, by type: what is not listed is not reached."""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import error_of
from nki_lab.isa.dtype import NamedDType
from nki_lab.kernel_runtime.frontend.evaluator import calls
from nki_lab.kernel_runtime.frontend.evaluator.machine import Machine
from nki_lab.kernel_runtime.frontend.evaluator.values import UNKNOWN, Frame, Function, Launch, NativeMethod, has_unknown
from nki_lab.kernel_runtime.issue import call_errors
from nki_lab.kernel_runtime.issue.builder import NkiInstruction
from nki_lab.kernel_runtime.issue.target import tile_size
from nki_lab.kernel_runtime.language.scheduling import pairs_of
from nki_lab.kernel_runtime.tensor import DynamicSlice, NkiTensor, Shape, VirtualRegister

Method = Callable[[Machine, Frame, ast.AST, Any, list[Any], dict[str, Any]], Any]

_NUMBER: Final = frozenset({"real", "imag", "numerator", "denominator"})
DATA: Final[dict[type, frozenset[str]]] = {
    int: _NUMBER,
    bool: _NUMBER,
    float: frozenset({"real", "imag"}),
    range: frozenset({"start", "stop", "step"}),
    slice: frozenset({"start", "stop", "step"}),
    DynamicSlice: frozenset({"start", "size"}),
    NamedDType: frozenset({"name", "itemsize"}),
    VirtualRegister: frozenset({"name", "frozen"}),
}
"""Attributes that are plain data, by exact type."""

_SEQUENCE: Final = frozenset({"index", "count"})
PLAIN: Final[dict[type, frozenset[str]]] = {
    int: frozenset({"bit_length", "bit_count", "conjugate", "is_integer"}),
    float: frozenset({"is_integer", "as_integer_ratio", "hex"}),
    tuple: _SEQUENCE,
    Shape: _SEQUENCE,
    range: _SEQUENCE,
    type(None): frozenset(),
    NkiInstruction: frozenset({"depends_on"}),
    list: frozenset({"append", "insert", "pop", "remove", "index", "count", "reverse", "clear", "copy"}),
    dict: frozenset({"keys", "values", "items", "get", "pop", "popitem", "setdefault", "copy", "clear"}),
    set: frozenset({"add", "discard", "remove", "copy", "clear", "union", "intersection", "difference", "issubset",
                    "issuperset", "isdisjoint"}),
    str: frozenset({"lower", "upper", "strip", "lstrip", "rstrip", "startswith", "endswith", "split", "rsplit", "find",
                    "rfind", "index", "count", "isdigit", "isalpha", "isalnum", "isidentifier", "islower", "isupper",
                    "isspace", "title", "capitalize", "casefold", "swapcase", "partition", "rpartition", "removeprefix",
                    "removesuffix", "splitlines"}),
}  # fmt: skip
"""Methods whose cost and result are bounded by their arguments, by exact type."""

# Methods that store their arguments: those may be unknown.
_STORES: Final = frozenset({"append", "insert", "setdefault", "add", "get", "pop"})


def call_method(
    m: Machine, frame: Frame, node: ast.AST, value: Any, name: str, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """`value.name(*args, **kwargs)` of a value of Python's or a tensor."""
    kind = type(value)
    if isinstance(value, NkiTensor) or public(value):
        return calls.call_door(m, frame, node, getattr(value, name), args, kwargs)
    if m.is_doubtful(value):
        m.doubt([*args, *kwargs.values()])
        return UNKNOWN
    guarded = _item if name == "item" and isinstance(value, np.generic) else GUARDED.get((kind, name))
    try:
        if guarded is not None:
            return guarded(m, frame, node, value, args, kwargs)
        values = [*args, *kwargs.values()]
        if kind is np.ndarray and (m.lacks(*values) or "out" in kwargs):
            return UNKNOWN
        if any(item is UNKNOWN for item in values[:1]) and kind is not list:
            m.doubt([value], contents=name in _STORES)
            return UNKNOWN
        if name not in _STORES and m.lacks(*values):
            return UNKNOWN
        if name in ("index", "count", "remove", "discard", "get", "pop", "setdefault", "add"):
            if kind is range and any(type(item) is not int for item in args):
                return UNKNOWN
            m.meter.walked(value if kind in (list, tuple, Shape) else None)
            for item in args:
                m.meter.walked(item)
        if name in ("copy", "split", "rsplit", "splitlines", "union"):
            m.meter.sized(len(value))
        return getattr(value, name)(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - what the user's values raise is reported at the call
        return m.fault(error, node, frame)


def attribute(m: Machine, frame: Frame, node: ast.AST, value: Any, name: str) -> Any:
    """`value.name` for a value of Python's, a tensor, a dtype, an enumeration."""
    kind = type(value)
    if name in DATA.get(kind, ()):
        return getattr(value, name)
    if name in PLAIN.get(kind, ()) or (kind, name) in GUARDED:
        return NativeMethod(value, name)
    if name.startswith("_"):
        return UNKNOWN
    try:
        if isinstance(value, NkiTensor):
            return _of_tensor(value, name)
        if public(value):
            found = getattr(value, name)
            return NativeMethod(value, name) if callable(found) else found
        if isinstance(value, type) and issubclass(value, enum.Enum):
            if name not in value.__members__ and call_errors.is_enumeration(value) and not hasattr(value, name):
                raise error_of(call_errors.no_member(value, name))
            return value.__members__[name] if name in value.__members__ else _absent(value, name)
        if isinstance(value, enum.Enum):
            return getattr(value, name) if name in ("name", "value") else _absent(value, name)
        if isinstance(value, np.dtype):
            return getattr(value, name) if name in ("name", "itemsize", "kind", "type") else _absent(value, name)
        if isinstance(value, np.generic):
            return _of_scalar(value, name)
        if kind is np.ndarray:
            if name in ("shape", "dtype", "ndim", "size", "T", "itemsize"):
                return getattr(value, name)
            return NativeMethod(value, name) if name in _ARRAY_METHODS else _absent(value, name)
        if kind.__name__ == "finfo" and name in ("min", "max", "eps", "tiny", "smallest_normal", "bits"):
            return getattr(value, name)
    except Exception as error:  # noqa: BLE001 - a tensor's own refusal, reported at the attribute
        return m.fault(error, node, frame)
    if hasattr(kind, name) or (kind not in PLAIN and kind not in DATA):
        return UNKNOWN
    return m.fault(AttributeError(f"{kind.__name__!r} object has no attribute {name!r}"), node, frame)


def public(value: Any) -> bool:
    """Whether every public attribute of a value may be read: sizes of the target, and Beta 1's own objects."""
    home = value.__module__ if isinstance(value, type) else type(value).__module__
    return value is tile_size or home.startswith(_LEGACY)


_LEGACY: Final = "nki_lab.kernel_runtime.beta1"


def _of_tensor(value: NkiTensor, name: str) -> Any:
    if name == "numpy":
        return UNKNOWN  # a run has values
    found = getattr(value, name)
    return NativeMethod(value, name) if callable(found) and not isinstance(found, type) else found


def _of_scalar(value: np.generic, name: str) -> Any:
    if name == "item":
        return NativeMethod(value, name)
    if name in ("dtype", "shape", "ndim", "itemsize"):
        return getattr(value, name)
    return _absent(value, name)


def _absent(value: Any, name: str) -> Any:
    """UNKNOWN for an attribute that exists and is not listed; AttributeError, in Python's words, for another."""
    if hasattr(type(value), name) or (isinstance(value, type) and name in dir(value)):
        return UNKNOWN
    if isinstance(value, type):
        raise AttributeError(f"type object {value.__name__!r} has no attribute {name!r}")
    raise AttributeError(f"{type(value).__name__!r} object has no attribute {name!r}")


# -- methods that need a bound, or an answer of their own ---------------------------------------------------------


def _extend(m: Machine, frame: Frame, node: ast.AST, value: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or kwargs:
        return value.extend(*args, **kwargs)
    if args[0] is UNKNOWN or m.is_doubtful(args[0]):
        m.doubt([value])
        return UNKNOWN
    more = m.meter.items(args[0])
    m.meter.sized(len(value) + len(more))
    return value.extend(more)


def _update(m: Machine, frame: Frame, node: ast.AST, value: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if any(item is UNKNOWN or m.is_doubtful(item) for item in args):
        m.doubt([value])
        return UNKNOWN
    parts = [item if isinstance(item, dict) else m.meter.walked(m.meter.items(item)) for item in args]
    m.meter.sized(len(value) + sum(len(part) for part in parts))
    return value.update(*parts, **kwargs)


def _sort(m: Machine, frame: Frame, node: ast.AST, value: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if has_unknown(value) or any(item is UNKNOWN for item in kwargs.values()):
        m.doubt([value])
        return UNKNOWN
    m.meter.sized(len(m.meter.walked(value)))
    found = sorted_values(m, frame, node, value, kwargs.get("key"), reverse=kwargs.get("reverse", False))
    if found is UNKNOWN:
        m.doubt([value])
    else:
        value[:] = found
    return None


def sorted_values(m: Machine, frame: Frame, node: ast.AST, values: list[Any], key: Any, *, reverse: Any) -> Any:
    """The values in order, UNKNOWN where a key is; TypeError where they have none."""
    if key is None:
        return sorted(values, reverse=bool(reverse))
    keys = [calls.call(m, frame, node, key, [item], {}) for item in values]
    if has_unknown(keys):
        return UNKNOWN
    order = sorted(range(len(values)), key=keys.__getitem__, reverse=bool(reverse))
    return [values[i] for i in order]


def _join(m: Machine, frame: Frame, node: ast.AST, value: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or args[0] is UNKNOWN:
        return UNKNOWN
    parts = m.meter.items(args[0])
    if has_unknown(parts):
        return UNKNOWN
    m.meter.text(sum(len(part) + len(value) for part in parts if isinstance(part, str)))
    return value.join(parts)


def _replace(m: Machine, frame: Frame, node: ast.AST, value: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if has_unknown(args):
        return UNKNOWN
    if len(args) >= 2 and isinstance(args[0], str) and isinstance(args[1], str):
        m.meter.text(len(value) + (value.count(args[0]) * len(args[1])))
    return value.replace(*args, **kwargs)


def _format(m: Machine, frame: Frame, node: ast.AST, value: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`"{}".format(...)` of plain values, without attributes and items inside the braces."""
    values = [*args, *kwargs.values()]
    if m.lacks(*values) or any(type(item) not in _TEXTUAL for item in values) or _REACHING.search(value):
        return UNKNOWN
    m.meter.text(len(value) + sum(len(str(item)) for item in values) * (1 + value.count("{")))
    return value.format(*args, **kwargs)


_TEXTUAL: Final = frozenset((int, float, bool, str, type(None)))
_REACHING: Final = re.compile(r"\{[^}:]*[.\[]|:[^}]*(?:\{|\d{4,})")
"""A format that reads attributes or items, takes its widths from values, or is a memory bomb."""


def _padded(name: str) -> Method:
    def pad(m: Machine, frame: Frame, node: ast.AST, value: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if has_unknown(args):
            return UNKNOWN
        if args and isinstance(args[0], int):
            m.meter.text(max(args[0], 0))
        return getattr(value, name)(*args, **kwargs)

    return pad


def _with_schedule(m: Machine, frame: Frame, node: ast.AST, value: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The kernel with edges; without them where they are not known."""
    kernel = value if isinstance(value, Launch) else Launch(value)
    given = args[0] if args else kwargs.get("edges", UNKNOWN)
    if m.lacks(given) or m.is_doubtful(given):
        return kernel
    edges = tuple(m.meter.walked(m.meter.items(given)))
    pairs_of(edges)
    return Launch(kernel.function, kernel.grid, (*kernel.schedule, *edges))


_ARRAY_METHODS: Final = frozenset({
    "sum", "max", "min", "mean", "prod", "any", "all", "cumsum", "argmax", "argmin", "tolist", "astype", "reshape",
    "item", "copy", "flatten", "ravel", "transpose", "round", "clip",
})  # fmt: skip
"""Methods of arrays whose results are not larger than the array."""


def _item(m: Machine, frame: Frame, node: ast.AST, value: np.generic, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return value.item()


GUARDED: Final[dict[tuple[type, str], Method]] = {
    (list, "extend"): _extend,
    (list, "sort"): _sort,
    (dict, "update"): _update,
    (set, "update"): _update,
    (Function, "with_schedule"): _with_schedule,
    (Launch, "with_schedule"): _with_schedule,
    (str, "join"): _join,
    (str, "format"): _format,
    (str, "replace"): _replace,
    **{(str, name): _padded(name) for name in ("center", "ljust", "rjust", "zfill")},
}
"""Methods with an implementation of their own, by exact type and name."""
