"""Methods and attributes of Python's values, tensors and arrays, by type: others are not reached."""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Callable
from typing import Final

import numpy as np

from nki_lab.diagnostic import error_of
from nki_lab.isa.dtype import NamedDType
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.interpreter.calls import CallSite, Run, adapted, call_nki, caller
from nki_lab.kernel_runtime.interpreter.interpreter import Frame, Function, Launch
from nki_lab.kernel_runtime.interpreter.operators import bound_numpy
from nki_lab.kernel_runtime.interpreter.values import UNKNOWN, Names, NativeMethod, Value
from nki_lab.kernel_runtime.issue import call_errors
from nki_lab.kernel_runtime.issue.builder import NkiInstruction
from nki_lab.kernel_runtime.issue.target import tile_size
from nki_lab.kernel_runtime.language.scheduling import pairs_of
from nki_lab.kernel_runtime.tensor import DynamicSlice, NkiTensor, Shape, VirtualRegister


def _public(kind: type, *without: str) -> frozenset[str]:
    return frozenset(name for name in dir(kind) if not name.startswith("_")) - set(without)


_RANGE: Final = frozenset({"start", "stop", "step"})
_NUMBER: Final = frozenset({"real", "imag", "numerator", "denominator"})
DATA: Final[dict[type, frozenset[str]]] = {
    int: _NUMBER,
    bool: _NUMBER,
    float: _NUMBER,
    range: _RANGE,
    slice: _RANGE,
    DynamicSlice: frozenset({"start", "size"}),
    NamedDType: frozenset({"name", "itemsize"}),
    VirtualRegister: frozenset({"name", "frozen"}),
}
"""Attributes that are plain data, by exact type."""

_SEQUENCE: Final = frozenset({"index", "count"})
_OF_TENSORS: Final = _public(NkiTensor)
PLAIN: Final[dict[type, frozenset[str]]] = {
    int: frozenset({"bit_length", "bit_count", "conjugate", "is_integer"}),
    float: frozenset({"is_integer", "as_integer_ratio", "hex"}),
    tuple: _SEQUENCE,
    Shape: _SEQUENCE,
    range: _SEQUENCE,
    type(None): frozenset(),
    NkiInstruction: frozenset({"depends_on"}),
    list: _public(list, "extend", "sort"),
    dict: _public(dict, "fromkeys", "update"),
    set: frozenset(
        [
            "add",
            "discard",
            "remove",
            "copy",
            "clear",
        ]
    ),
    str: _public(
        str,
        *[
            "center",
            "encode",
            "expandtabs",
            "format",
            "format_map",
            "join",
            "ljust",
            "maketrans",
            "replace",
            "rjust",
            "translate",
            "zfill",
        ],
    ),
}
"""Methods whose cost and result are bounded by their arguments, by exact type."""

# Methods that store their arguments: those may be unknown.
_STORES: Final = frozenset({"append", "insert", "setdefault", "add", "get", "pop"})
_COMPARES: Final = frozenset({"index", "count", "remove", "discard", "get", "pop", "setdefault", "add"})
_COPIES: Final = frozenset({"copy", "split", "rsplit", "splitlines"})

GUARDED: Final[dict[tuple[type, str], Run]] = {}
"""Methods with an implementation of their own, by exact type and name."""


def _guarded(kind: type, *names: str) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Enter the implementation `run(site, value, *arguments)` of methods that need a bound of their own."""

    def enter(run: Callable[..., Value]) -> Callable[..., Value]:
        for name in names:
            GUARDED[kind, name] = adapted(run, getattr(kind, name, None))
        return run

    return enter


@caller(NativeMethod)
def _call_native_method(site: CallSite, method: NativeMethod, args: list[Value], kwargs: Names) -> Value:
    return call_method(site.frame, site.node, method.value, method.name, args, kwargs)


def call_method(frame: Frame, node: ast.AST, value: Value, name: str, args: list[Value], kwargs: Names) -> Value:
    """Return `value.name(*args, **kwargs)` of a value of Python's or a tensor."""
    kind, interpreter = type(value), frame.interpreter
    if isinstance(value, NkiTensor) or is_public(value):
        return call_nki(frame, node, getattr(value, name), args, kwargs)
    values = [*args, *kwargs.values()]
    if interpreter.is_doubtful(value):
        return interpreter.doubt(values)
    guarded = GUARDED.get((kind, name))
    try:
        if guarded is not None:
            return guarded(CallSite(frame, node), [value, *args], kwargs)
        if isinstance(value, np.ndarray | np.generic):
            if interpreter.holds_unknown(*values) or "out" in kwargs:
                return UNKNOWN
            bound_numpy(frame.meter, value, *values)
        if any(item is UNKNOWN for item in values[:1]) and kind is not list:
            return interpreter.doubt([value], contents=name in _STORES)
        if name not in _STORES and interpreter.holds_unknown(*values):
            return UNKNOWN
        if name in _COMPARES:
            if kind is range and any(type(item) is not int for item in args):
                return UNKNOWN
            for item in (value if kind in (list, tuple, Shape) else None, *args):
                frame.meter.walked(item)
        if kind is str:
            for item in (value, *args):
                frame.meter.walked(item)
        if name in _COPIES:
            frame.meter.sized(len(value))
        return getattr(value, name)(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - what the user's values raise is reported at the call
        return frame.fault(error, node)


def attribute(frame: Frame, node: ast.AST, value: Value, name: str) -> Value:
    """Return `value.name` for a value of Python's, a tensor, a dtype, an enumeration."""
    kind = type(value)
    if name in DATA.get(kind, ()):
        return getattr(value, name)
    if name in PLAIN.get(kind, ()) or (kind, name) in GUARDED:
        return NativeMethod(value, name)
    if name.startswith("_"):
        return UNKNOWN
    try:
        if isinstance(value, NkiTensor):
            known = name != "numpy" and not _may_be_another(frame, value, name)  # a run has values
            return _read(value, name) if known else UNKNOWN
        if is_public(value):
            return _read(value, name)
        if isinstance(value, type) and issubclass(value, enum.Enum):
            if name not in value.__members__ and call_errors.is_enumeration(value) and not hasattr(value, name):
                raise error_of(call_errors.no_member(value, name))
            return value.__members__[name] if name in value.__members__ else _absent(value, name)
        for family, (data, methods) in _FAMILIES.items():
            if isinstance(value, family):
                if name in data:
                    return getattr(value, name)
                return NativeMethod(value, name) if name in methods else _absent(value, name)
    except Exception as error:  # noqa: BLE001 - a tensor's own refusal, reported at the attribute
        return frame.fault(error, node)
    if hasattr(kind, name) or (kind not in PLAIN and kind not in DATA):
        return UNKNOWN
    return frame.fault(AttributeError(f"{kind.__name__!r} object has no attribute {name!r}"), node)


def _may_be_another(frame: Frame, value: NkiTensor, name: str) -> bool:
    """Return whether a value was taken for a tensor by the uses of a parameter, and this one is of another class."""
    is_assumed = frame.interpreter.assumptions is not None and value._buffer.kind == "input"
    return is_assumed and not hasattr(value, name) and not did_you_mean(name, _OF_TENSORS)


_FAMILIES: Final[dict[type, tuple[frozenset[str], frozenset[str]]]] = {
    enum.Enum: (frozenset({"name", "value"}), frozenset()),
    np.dtype: (frozenset({"name", "itemsize", "kind", "type"}), frozenset()),
    np.generic: (frozenset({"dtype", "shape", "ndim", "itemsize"}), frozenset({"item"})),
    np.ndarray: (
        frozenset({"shape", "dtype", "ndim", "size", "T", "itemsize"}),
        frozenset(
            [
                "sum",
                "max",
                "min",
                "mean",
                "prod",
                "any",
                "all",
                "cumsum",
                "argmax",
                "argmin",
                "tolist",
                "astype",
                "reshape",
                "item",
                "copy",
                "flatten",
                "ravel",
                "transpose",
                "round",
                "clip",
            ]
        ),
    ),
}
"""Data and methods of values by their base class; methods of arrays give nothing larger than the array."""


def is_public(value: Value) -> bool:
    """Return whether every public attribute of a value may be read: sizes of the target, and Beta 1's own objects."""
    home = value.__module__ if isinstance(value, type) else type(value).__module__
    return value is tile_size or home.startswith(_BETA1)


_BETA1: Final = "nki_lab.kernel_runtime.beta1"


def _read(value: Value, name: str) -> Value:
    found = getattr(value, name)
    return NativeMethod(value, name) if callable(found) and not isinstance(found, type) else found


def _absent(value: Value, name: str) -> Value:
    """Return UNKNOWN for an attribute that exists and is not listed; raise AttributeError, in Python's words, else."""
    if hasattr(type(value), name) or (isinstance(value, type) and name in dir(value)):
        return UNKNOWN
    owner = f"type object {value.__name__!r}" if isinstance(value, type) else f"{type(value).__name__!r} object"
    raise AttributeError(f"{owner} has no attribute {name!r}")


# -- methods that need a bound, or an answer of their own --------------------------------------------------------------


@_guarded(list, "extend")
def _extend(site: CallSite, value: list[Value], more: Value) -> Value | None:
    if more is UNKNOWN or site.interpreter.is_doubtful(more):
        return site.interpreter.doubt([value])
    items = site.meter.items(more)
    site.meter.sized(len(value) + len(items))
    value.extend(items)
    return None


@_guarded(dict, "update")
@_guarded(set, "update")
def _update(site: CallSite, value: Value, *others: Value, **named: Value) -> Value:
    if any(item is UNKNOWN or site.interpreter.is_doubtful(item) for item in others):
        return site.interpreter.doubt([value])
    parts = [item if isinstance(item, dict) else site.meter.walked(site.meter.items(item)) for item in others]
    site.meter.sized(len(value) + sum(len(part) for part in parts))
    return value.update(*parts, **named)


def _enter_combination(name: str) -> None:
    @_guarded(set, name)
    def combine(site: CallSite, value: set[Value], *others: Value) -> Value:
        if site.interpreter.holds_unknown(*others) or any(map(site.interpreter.is_doubtful, others)):
            return UNKNOWN
        parts = [site.meter.walked(site.meter.items(item)) for item in others]
        site.meter.sized(len(value) + sum(map(len, parts)))
        return getattr(value, name)(*parts)


for _name in ("union", "intersection", "difference", "issubset", "issuperset", "isdisjoint"):
    _enter_combination(_name)


@_guarded(list, "sort")
def _sort(site: CallSite, value: list[Value], *, key: Value = None, reverse: Value = False) -> Value:
    if site.interpreter.holds_unknown(value) or key is UNKNOWN or reverse is UNKNOWN:
        return site.interpreter.doubt([value])
    site.meter.sized(len(site.meter.walked(value)))
    found = sorted_values(site, value, key, reverse=reverse)
    if found is UNKNOWN:
        site.interpreter.doubt([value])
    else:
        value[:] = found
    return None


def sorted_values(site: CallSite, values: list[Value], key: Value, *, reverse: Value) -> Value:
    """Return the values in order, UNKNOWN where a key is; TypeError where they have none."""
    if key is None:
        return sorted(values, reverse=bool(reverse))
    keys = [site.call(key, item) for item in values]
    if site.interpreter.holds_unknown(keys):
        return UNKNOWN
    order = sorted(range(len(values)), key=keys.__getitem__, reverse=bool(reverse))
    return [values[i] for i in order]


@_guarded(str, "join")
def _join(site: CallSite, value: str, items: Value) -> Value:
    if items is UNKNOWN:
        return UNKNOWN
    parts = site.meter.items(items)
    if site.interpreter.holds_unknown(parts):
        return UNKNOWN
    site.meter.text(sum(len(part) + len(value) for part in parts if isinstance(part, str)))
    return value.join(parts)


@_guarded(str, "replace")
def _replace(site: CallSite, value: str, old: Value, new: Value, count: Value = -1) -> Value:
    if site.interpreter.holds_unknown(old, new, count):
        return UNKNOWN
    if isinstance(old, str) and isinstance(new, str):
        site.meter.text(len(value) + (value.count(old) * len(new)))
    return value.replace(old, new, count)


@_guarded(str, "format")
def _format(site: CallSite, value: str, *args: Value, **kwargs: Value) -> Value:
    """Return `"{}".format(...)` of plain values, without attributes and items inside the braces."""
    values = [*args, *kwargs.values()]
    if any(type(item) not in _TEXTUAL for item in values) or _REACHING.search(value):
        return UNKNOWN
    site.meter.text(len(value) + sum(len(str(item)) for item in values) * (1 + value.count("{")))
    return value.format(*args, **kwargs)


_TEXTUAL: Final = frozenset((int, float, bool, str, type(None)))
_REACHING: Final = re.compile(r"\{[^}:]*[.\[]|:[^}]*(?:\{|\d{4,})")
"""A format that reads attributes or items, takes its widths from values, or is a memory bomb."""


def _enter_padding(name: str) -> None:
    @_guarded(str, name)
    def pad(site: CallSite, value: str, width: Value, *fill: Value) -> Value:
        if site.interpreter.holds_unknown(width, *fill):
            return UNKNOWN
        if isinstance(width, int):
            site.meter.text(max(width, 0))
        return getattr(value, name)(width, *fill)


for _name in ("center", "ljust", "rjust", "zfill"):
    _enter_padding(_name)


@_guarded(Function, "with_schedule")
@_guarded(Launch, "with_schedule")
def _with_schedule(site: CallSite, value: Function | Launch, edges: Value = UNKNOWN) -> Value:
    """Return the kernel with edges; without them where they are not known."""
    kernel = value if isinstance(value, Launch) else Launch(value)
    if site.interpreter.holds_unknown(edges) or site.interpreter.is_doubtful(edges):
        return kernel
    pairs = tuple(site.meter.walked(site.meter.items(edges)))
    pairs_of(pairs)
    return Launch(kernel.function, kernel.grid, (*kernel.schedule, *pairs))
