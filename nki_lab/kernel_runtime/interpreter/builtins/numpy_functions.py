"""NumPy: functions of compile-time numbers are computed, those of launching code's arrays give shapes and dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from nki_lab.kernel_runtime.interpreter.array_shapes import arithmetic, matmul, real, rearranged, resized
from nki_lab.kernel_runtime.interpreter.calls import CallSite, native
from nki_lab.kernel_runtime.interpreter.operators import LARGEST_ARRAY, bound_numpy, extent, fits, unwrapped
from nki_lab.kernel_runtime.interpreter.values import UNKNOWN, Names, Namespace, Value, has_unknown
from nki_lab.kernel_runtime.issue.arguments import TensorSpec

OnArrays = Callable[..., Value]
OnNumbers = Callable[[CallSite, list[Value], Names], Value]

_FUNCTIONS: Final[Names] = {}
ARRAY_FUNCTIONS: Final[Names] = {"concat": np.concatenate}
"""Functions of arrays by name: those of `jax.numpy` and torch too."""


def _enter(name: str, on_arrays: OnArrays | None = None, on_numbers: OnNumbers | None = None) -> None:
    """Enter a function by what it gives on specs of arrays, and on numbers and small arrays."""
    _FUNCTIONS[name] = function = getattr(np, name)
    if on_arrays is not None:
        ARRAY_FUNCTIONS[name] = function

    @native(function, shallow=False)
    def run(site: CallSite, *args: Value, **kwargs: Value) -> Value:
        for value in (*args, *kwargs.values()):
            site.meter.walked(value)
        parts = args[0] if args and isinstance(args[0], tuple | list) else args
        if any(isinstance(part, TensorSpec) for part in parts):
            try:
                return UNKNOWN if on_arrays is None else on_arrays(*args, **kwargs)
            except (TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError):
                return UNKNOWN  # the arrays do not fit, or are used in a way that is not followed
        if on_numbers is None or site.interpreter.holds_unknown(*args, *kwargs.values()):
            return UNKNOWN
        bound_numpy(site.meter, *args, *kwargs.values())
        return on_numbers(site, [unwrapped(value) for value in args], kwargs)


def _is_number(value: Value) -> bool:
    """Return whether a value is a number of fixed width: NumPy computes with others as Python does, without bounds."""
    return isinstance(value, float | np.generic) or (isinstance(value, int) and value.bit_length() < 64)


def _is_small(value: Value) -> bool:
    """Return whether a value is a number, or an array of few numbers."""
    return _is_number(value) or (
        type(value) is np.ndarray and value.size <= LARGEST_ARRAY and value.dtype.kind in "biuf"
    )


# -- functions of each element -----------------------------------------------------------------------------------------


def _elementwise(function: np.ufunc) -> OnArrays:
    def run(*args: Value) -> Value:
        kind = function(*(np.zeros(0, np.int32) for _ in args)).dtype.kind
        found = arithmetic(*args)
        if not isinstance(found, TensorSpec) or kind == "b":
            return UNKNOWN
        return real(found) if kind == "f" else found

    return run


def _computed(function: np.ufunc) -> OnNumbers:
    def run(site: CallSite, args: list[Value], kwargs: Names) -> Value:
        if kwargs or len(args) > function.nin or not all(map(_is_small, args)) or not fits(*args):
            return UNKNOWN
        result = function(*args)
        return result if _is_small(result) else UNKNOWN

    return run


for _name, _value in vars(np).items():
    if isinstance(_value, np.ufunc) and _value.nout == 1 and _value.signature is None:
        _enter(_name, _elementwise(_value), _computed(_value))


# -- functions that put elements together ------------------------------------------------------------------------------


def _reduced(name: str) -> OnArrays:
    def run(value: TensorSpec, axis: Value = None, *, keepdims: Value = False) -> Value:
        if axis is None or has_unknown(axis):
            return UNKNOWN
        axes = {number % value.ndim for number in (axis if type(axis) is tuple else (axis,))}
        keep = keepdims is True
        shape = [1 if i in axes else n for i, n in enumerate(value.shape) if keep or i not in axes]
        return resized(shape, real(value).dtype if name in ("mean", "std", "var", "median") else value.dtype)

    return run


def _folded(function: Callable[..., Value]) -> OnNumbers:
    def run(site: CallSite, args: list[Value], kwargs: Names) -> Value:
        if len(args) == 1 and _is_small(args[0]) and not kwargs.keys() - {"dtype", "axis", "keepdims"}:
            return function(args[0], **kwargs)
        if len(args) != 1 or kwargs.keys() - {"dtype"} or not isinstance(args[0], tuple | list):
            return UNKNOWN
        site.meter.sized(len(args[0]))
        result = function(args[0], **kwargs) if all(map(_is_number, args[0])) else UNKNOWN
        return result if isinstance(result, np.generic) else UNKNOWN

    return run


for _name in ("sum", "mean", "max", "min", "amax", "amin", "prod", "std", "var", "median"):
    _enter(_name, _reduced(_name), _folded(getattr(np, _name)))
for _name in ("any", "all", "cumsum", "argmax", "argmin"):
    _enter(_name, None, _folded(getattr(np, _name)))


# -- functions of whole arrays -----------------------------------------------------------------------------------------


def _concatenated(parts: list[TensorSpec], axis: Value = 0, *, dim: Value = None) -> Value:
    first, axis = parts[0], axis if dim is None else dim
    if any(part.dtype is not first.dtype for part in parts):
        return UNKNOWN
    axis = range(first.ndim)[axis % first.ndim]
    total = sum(part.shape[axis] for part in parts)
    return resized((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)


def _stacked(parts: list[TensorSpec], axis: Value = 0, *, dim: Value = None) -> Value:
    if any(part != parts[0] for part in parts):
        return UNKNOWN
    wide = _expanded(parts[0], axis, dim=dim)
    return UNKNOWN if wide is UNKNOWN else _concatenated([wide] * len(parts), axis, dim=dim)


def _expanded(value: TensorSpec, axis: Value = None, *, dim: Value = None) -> Value:
    return rearranged(np.expand_dims, value, axis if dim is None else dim)


def _outer(left: TensorSpec, right: TensorSpec) -> Value:
    found = arithmetic(TensorSpec((1,), left.dtype), TensorSpec((1,), right.dtype))
    dtype = found.dtype if isinstance(found, TensorSpec) else left.dtype
    return resized((math.prod(left.shape), math.prod(right.shape)), dtype)


def _tiled(value: TensorSpec, times: Value) -> Value:
    counts = [times] if type(times) is int else list(times)
    if any(type(count) is not int for count in counts):
        return UNKNOWN
    rank = max(value.ndim, len(counts))
    shape = [1] * (rank - value.ndim) + list(value.shape)
    counts = [1] * (rank - len(counts)) + counts
    return resized((size * count for size, count in zip(shape, counts, strict=True)), value.dtype)


def _repeated(value: TensorSpec, times: Value, axis: Value = None) -> Value:
    if type(times) is not int or type(axis) is not int:
        return UNKNOWN
    shape = list(value.shape)
    shape[axis] *= times
    return resized(shape, value.dtype)


def _chosen(condition: Value, first: Value, second: Value) -> Value:
    """Return `np.where(condition, first, second)`: the condition has a shape only."""
    chosen = arithmetic(first, second)
    if not isinstance(condition, TensorSpec) or not isinstance(chosen, TensorSpec):
        return UNKNOWN
    return arithmetic(TensorSpec(condition.shape, chosen.dtype), chosen)


def _unchanged(value: Value, *args: Value) -> Value:
    return value if isinstance(value, TensorSpec) else UNKNOWN


def _viewing(function: Callable[..., Value], keyword: str) -> OnArrays:
    def run(value: TensorSpec, *args: Value, **kwargs: Value) -> Value:
        given = [*args, *(kwargs.pop(key) for key in (keyword,) if key in kwargs)]
        return UNKNOWN if kwargs else rearranged(function, value, *given)

    return run


_ON_ARRAYS: Final[dict[str, OnArrays]] = {
    "concatenate": _concatenated, "stack": _stacked, "outer": _outer, "expand_dims": _expanded, "tile": _tiled,
    "repeat": _repeated, "where": _chosen, "matmul": matmul, "dot": matmul,
    **dict.fromkeys(("clip", "round", "nan_to_num", "ascontiguousarray", "flip", "roll", "sort", "tril", "triu"),
                    _unchanged),
    "transpose": _viewing(np.transpose, "axes"), "reshape": _viewing(np.reshape, "shape"),
    "broadcast_to": _viewing(np.broadcast_to, "shape"), "squeeze": _viewing(np.squeeze, "axis"),
    "swapaxes": _viewing(np.swapaxes, ""), "moveaxis": _viewing(np.moveaxis, ""),
}  # fmt: skip
for _name, _on_arrays in _ON_ARRAYS.items():
    _enter(_name, _on_arrays)


# -- new arrays and numbers --------------------------------------------------------------------------------------------


def _numbers_in(object: Value, dtype: Value = None) -> float:  # noqa: A002 - the parameter of `np.array`
    """Return the elements of the array that NumPy makes of nested lists, which `bound_numpy` has walked."""
    count, stack = 0, [object]
    while stack:
        value = stack.pop()
        if isinstance(value, list | tuple):
            stack += value
        elif not isinstance(value, int | float | np.generic | np.ndarray):
            return math.inf
        else:
            count += np.size(value)
    return count


def _filled(shape: Value, fill_value: Value = 0, dtype: Value = None) -> float:
    return extent(map(float, shape)) if isinstance(shape, list | tuple | np.ndarray) else float(shape)


def _square(N: Value, M: Value = None, k: Value = 0, dtype: Value = None) -> float:
    return extent((float(N), float(N if M is None else M)))


def _range(start: Value, stop: Value = None, step: Value = 1, dtype: Value = None) -> float:
    begin, end = (0, start) if stop is None else (start, stop)
    return (float(end) - float(begin)) / float(1 if step is None else step)


def _points(
    start: Value, stop: Value, num: Value = 50, endpoint: Value = True, retstep: Value = False, dtype: Value = None
) -> float:
    return float(num)


_COUNTS: Final[dict[str, Callable[..., float]]] = {
    "array": _numbers_in, "asarray": _numbers_in, "arange": _range, "linspace": _points, "zeros": _filled,
    "ones": lambda shape, dtype=None: _filled(shape), "full": _filled, "eye": _square, "tri": _square,
    "identity": lambda n, dtype=None: _square(n),
}  # fmt: skip
"""The number of elements that a function makes an array of, with parameters of the same names."""
_GIVEN: Final = (int, float, np.generic, np.ndarray, tuple, list, type, np.dtype, type(None))


def _made(function: Callable[..., Value], count: Callable[..., float]) -> OnNumbers:
    """Return the function that makes a small array: its elements are counted first."""

    def run(site: CallSite, args: list[Value], kwargs: Names) -> Value:
        given = [*args, *(value for key, value in kwargs.items() if key != "dtype")]
        if not all(isinstance(value, _GIVEN) for value in given):
            return UNKNOWN
        try:
            elements = count(*args, **kwargs)
        except (TypeError, ValueError, ZeroDivisionError, OverflowError):
            return UNKNOWN
        if not abs(elements) <= LARGEST_ARRAY:
            return UNKNOWN
        site.meter.sized(int(abs(elements)))
        made = function(*args, **kwargs)
        return made if _is_small(made) else UNKNOWN

    return run


for _name, _count in _COUNTS.items():
    _enter(_name, None, _made(getattr(np, _name), _count))


def _converted(kind: type[np.generic]) -> OnNumbers:
    def run(site: CallSite, args: list[Value], kwargs: Names) -> Value:
        known = len(args) == 1 and not kwargs and isinstance(args[0], int | float | np.generic)
        return kind(args[0]) if known else UNKNOWN

    return run


for _name in [
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool_",
]:
    _enter(_name, None, _converted(getattr(np, _name)))


@native(np.dtype, deep=True)
def _dtype(site: CallSite, kind: Value) -> Value:
    return UNKNOWN if isinstance(kind, list | tuple | dict) else np.dtype(kind)


@native(np.finfo, np.iinfo, deep=True)
def _limits(site: CallSite, given: Value) -> Value:
    if isinstance(given, list | tuple | dict):
        return UNKNOWN
    kind: np.dtype[Any] = np.dtype(given)
    if kind.kind in "iu":
        whole: Any = np.iinfo(kind.name)
        return Namespace("numpy.iinfo", {"min": int(whole.min), "max": int(whole.max), "bits": whole.bits})
    if kind.kind != "f" or kind.type not in (np.float16, np.float32, np.float64):
        return UNKNOWN
    real = np.finfo(kind)
    names = ("min", "max", "eps", "tiny", "smallest_normal", "bits")
    return Namespace("numpy.finfo", {name: getattr(real, name) for name in names})


@native(np.issubdtype, deep=True)
def _is_subtype(site: CallSite, kind: Value, other: Value) -> Value:
    known = all(isinstance(item, type | np.dtype | str) for item in (kind, other))
    return bool(np.issubdtype(kind, other)) if known else UNKNOWN


_ABSTRACT: Final = ("generic", "number", "integer", "signedinteger", "unsignedinteger", "inexact", "floating")


def numpy_namespace(more: Mapping[str, Value]) -> Namespace:
    """Return the names of `numpy` that the interpreter knows, and `more`."""
    constants = {"inf": np.inf, "nan": np.nan, "pi": np.pi, "e": np.e, "newaxis": None}
    known = {name: getattr(np, name) for name in ("dtype", "finfo", "iinfo", "issubdtype", *_ABSTRACT)}
    return Namespace("numpy", {**_FUNCTIONS, **constants, **known, **more}, real=np)
