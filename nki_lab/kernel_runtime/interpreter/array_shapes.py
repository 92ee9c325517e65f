"""Arrays of launching code, known by shape and dtype: their parts, methods and arithmetic. Nothing is computed."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import NkiError
from nki_lab.isa.dtype import DType, dtype_of
from nki_lab.kernel_runtime.interpreter.values import UNKNOWN, Names, Special, Value, has_unknown
from nki_lab.kernel_runtime.issue.arguments import TensorSpec

_NARROW: Final = {
    "float64": "float32", "double": "float32", "float": "float32", "half": "float16", "int64": "int32", "long": "int32",
    "int": "int32", "short": "int16", "uint64": "uint32", "bool": "bool_", "float8_e4m3fnuz": "float8_e4m3fn",
}  # fmt: skip


def host_dtype(dtype: Value, default: str = "float32") -> DType | None:
    """Return the NKI dtype of a host array: 64-bit types count as their 32-bit relatives; None for others without."""
    if dtype is None:
        return dtype_of(default)
    if isinstance(dtype, TensorSpec):
        return dtype.dtype
    name = dtype.__name__ if isinstance(dtype, type) else getattr(dtype, "name", dtype)
    if not isinstance(name, str) and type(name).__module__ != "torch":
        return None  # a list of lists may be endless to print
    text = str(name).removeprefix("torch.")
    try:
        return dtype_of(_NARROW.get(text, text))
    except NkiError:
        return None


_MOST_DIMENSIONS: Final = 64
"""Of an array of NumPy's."""
_LARGEST_SIZE: Final = (1 << 63) - 1
"""Elements along a dimension: sizes that are multiplied again and again would grow without bounds."""


def array(shape: Value, dtype: Value, default: str = "float32") -> Value:
    """Return the spec of a host array; UNKNOWN where shape or dtype is not known."""
    sizes = (shape,) if isinstance(shape, int) else shape
    if (
        not isinstance(sizes, tuple | list)
        or not 1 <= len(sizes) <= _MOST_DIMENSIONS
        or has_unknown(sizes)
        or dtype is UNKNOWN
        or any(not isinstance(size, int | np.integer) or not 1 <= size <= _LARGEST_SIZE for size in sizes)
    ):
        return UNKNOWN
    kind = host_dtype(dtype, default)
    return UNKNOWN if kind is None else TensorSpec(tuple(int(size) for size in sizes), kind)


def resized(shape: Iterable[int], dtype: DType) -> Value:
    """Return the array of that shape, UNKNOWN for a single number, without elements, and for sizes no array has."""
    sizes = tuple(int(size) for size in shape)
    return TensorSpec(sizes, dtype) if sizes and all(1 <= size <= _LARGEST_SIZE for size in sizes) else UNKNOWN


def rearranged(view: Callable[..., np.ndarray[Any, Any]], value: TensorSpec, *args: Value) -> Value:
    """Return the array that a function of NumPy's makes which only changes the view.

    NumPy applies it to an array of that shape without memory behind it, all strides of which are zero.
    """
    if has_unknown(args):
        return UNKNOWN
    try:
        return resized(view(np.broadcast_to(np.int8(0), value.shape), *args).shape, value.dtype)
    except (IndexError, TypeError, ValueError, OverflowError, MemoryError):
        return UNKNOWN


def item(value: TensorSpec, key: Value) -> Value:
    """Return a part of a host array; UNKNOWN where its shape depends on values, for a single element too."""
    parts = key if type(key) is tuple else (key,)
    if any(isinstance(part, TensorSpec | list | np.ndarray) for part in parts):
        return UNKNOWN
    return rearranged(lambda array: array[key], value) if not has_unknown(key) else UNKNOWN


def matmul(left: Value, right: Value) -> Value:
    """Return `left @ right`."""
    if (
        not isinstance(left, TensorSpec)
        or not isinstance(right, TensorSpec)
        or left.dtype is not right.dtype
        or min(left.ndim, right.ndim) < 2
        or left.shape[-1] != right.shape[-2]
    ):
        return UNKNOWN
    outer = _broadcast(left.shape[:-2], right.shape[:-2])
    return UNKNOWN if outer is None else resized((*outer, left.shape[-2], right.shape[-1]), left.dtype)


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None


def real(value: TensorSpec) -> TensorSpec:
    """Return the array that a function of real numbers makes of one."""
    whole = value.dtype.kind in ("int", "uint", "bool")
    return TensorSpec(value.shape, dtype_of("float32") if whole else value.dtype)


def arithmetic(*values: Value, divides: bool = False) -> Value:
    """Return the result of an operator on host arrays: shapes broadcast, the dtype is the array's, or the wider one."""
    kinds = [value for value in values if isinstance(value, TensorSpec)]
    if any(not isinstance(value, TensorSpec | int | float | np.generic) for value in values):
        return UNKNOWN
    shape = _broadcast(*(kind.shape for kind in kinds))
    dtype = kinds[0].dtype if len({kind.dtype for kind in kinds}) == 1 else _wider(kinds)
    if shape is None or dtype is None:
        return UNKNOWN
    found = TensorSpec(shape, dtype)
    return real(found) if divides or any(isinstance(value, float | np.floating) for value in values) else found


def _wider(kinds: list[TensorSpec]) -> DType | None:
    try:
        return host_dtype(str(np.result_type(*(kind.dtype.host for kind in kinds))))
    except TypeError:
        return None


def operate(kind: type[ast.operator], left: Value, right: Value) -> Value:
    """Return the result of a binary operator."""
    return matmul(left, right) if kind is ast.MatMult else arithmetic(left, right, divides=kind is ast.Div)


_SAME: Final = frozenset({"copy", "clone", "detach", "contiguous", "cuda", "cpu", "numpy", "requires_grad_"})
_CASTS: Final = frozenset({"astype", "to", "type", "bfloat16", "half", "float", "int"})
_VIEWS: Final = frozenset({"reshape", "view", "transpose", "permute"})


def attribute(value: TensorSpec, name: str) -> Value:
    """Return an attribute of a host array."""
    match name:
        case "shape" | "ndim":
            return getattr(value, name)
        case "dtype":
            return value.dtype.host
        case "size":
            return math.prod(value.shape)
        case "T":
            return rearranged(np.transpose, value)
        case _ if name in _SAME | _CASTS | _VIEWS:
            return Special(name, lambda site, args, kwargs: _method(value, name, args, kwargs))
        case _:
            return UNKNOWN


def cast(value: TensorSpec, dtype: Value) -> Value:
    """Return an array with elements of another dtype; UNKNOWN where that is not known."""
    kind = None if dtype is UNKNOWN else host_dtype(dtype)
    return UNKNOWN if kind is None else TensorSpec(value.shape, kind)


def _method(value: TensorSpec, name: str, args: list[Value], kwargs: Names) -> Value:
    first = args[0] if args else None
    sizes = first if isinstance(first, tuple | list) else tuple(args)
    if name in _SAME:
        return value
    if name in _CASTS:
        wanted = kwargs.get("dtype", first) if name in ("astype", "to", "type") else name
        kind = None if wanted is UNKNOWN else host_dtype(wanted)
        if kind is None:  # .to(device)
            return value if name == "to" else UNKNOWN
        return TensorSpec(value.shape, kind)
    if name == "view" and ("dtype" in kwargs or (len(args) == 1 and not isinstance(first, int | tuple | list))):
        return _viewed(value, kwargs.get("dtype", first))
    if name in ("reshape", "view"):
        return rearranged(np.reshape, value, sizes)
    if name == "transpose" and len(args) == 2:
        return rearranged(np.swapaxes, value, *args)
    return rearranged(np.transpose, value, sizes or None)


def _viewed(value: TensorSpec, dtype: Value) -> Value:
    """Return the same bytes as another dtype: the last dimension is rescaled, as from an MX format to its elements'.

    UNKNOWN where a width is not sure: arrays of 64 bits count as those of 32.
    """
    kind = None if dtype is UNKNOWN else host_dtype(dtype)
    if kind is None or value.dtype.name in ("float32", "int32") or str(getattr(dtype, "__name__", dtype)) in _NARROW:
        return UNKNOWN
    last, odd = divmod(value.shape[-1] * value.dtype.nbytes, kind.nbytes)
    return UNKNOWN if odd or not last else TensorSpec((*value.shape[:-1], last), kind)
