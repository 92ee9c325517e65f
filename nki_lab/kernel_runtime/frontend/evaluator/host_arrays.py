"""Functions of NumPy and its kin on the arrays of launching code: what comes out is a shape and a dtype."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from nki_lab.kernel_runtime.frontend.evaluator import calls, host, natives
from nki_lab.kernel_runtime.frontend.evaluator.machine import Machine
from nki_lab.kernel_runtime.frontend.evaluator.values import UNKNOWN, Frame, Special, has_unknown
from nki_lab.kernel_runtime.issue.arguments import TensorSpec

Make = Callable[[list[Any], dict[str, Any]], Any]

_ELEMENTWISE: Final = (
    "abs", "absolute", "add", "ceil", "clip", "cos", "exp", "exp2", "expm1", "floor", "log", "log1p", "log2", "maximum",
    "minimum", "multiply", "negative", "power", "reciprocal", "rint", "round", "sign", "sin", "sqrt", "square",
    "subtract", "tan", "tanh", "arctan", "divide", "true_divide", "nan_to_num", "ascontiguousarray", "flip", "roll",
    "sort", "tril", "triu",
)  # fmt: skip
_REAL: Final = frozenset({
    "cos", "exp", "exp2", "expm1", "log", "log1p", "log2", "reciprocal", "sin", "sqrt", "tan", "tanh", "arctan",
    "divide", "true_divide",
})  # fmt: skip
_REDUCTIONS: Final = ("sum", "mean", "max", "min", "amax", "amin", "prod", "std", "var", "argmax", "argmin", "median")


def item(value: TensorSpec, key: Any) -> Any:
    """A part of a host array; UNKNOWN where its shape depends on values, for a single element too."""
    if has_unknown(key) or any(isinstance(part, TensorSpec | list) for part in _parts(key)):
        return UNKNOWN
    try:
        shape = np.broadcast_to(np.int8(0), value.shape)[key].shape
    except (IndexError, TypeError, ValueError):
        return UNKNOWN
    return spec(shape, value.dtype)


def _parts(key: Any) -> tuple[Any, ...]:
    return key if type(key) is tuple else (key,)


def spec(shape: Iterable[int], dtype: Any) -> Any:
    """The array of that shape, UNKNOWN for a single number and for one without elements."""
    sizes = tuple(int(size) for size in shape)
    return TensorSpec(sizes, dtype) if sizes and all(size > 0 for size in sizes) else UNKNOWN


def matmul(left: Any, right: Any) -> Any:
    """`left @ right`."""
    if not isinstance(left, TensorSpec) or not isinstance(right, TensorSpec) or left.dtype is not right.dtype:
        return UNKNOWN
    if left.ndim < 2 or right.ndim < 2 or left.shape[-1] != right.shape[-2]:
        return UNKNOWN
    try:
        outer = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        return UNKNOWN
    return spec((*outer, left.shape[-2], right.shape[-1]), left.dtype)


def _elementwise(name: str) -> Make:
    def make(args: list[Any], kwargs: dict[str, Any]) -> Any:
        found = args[0]
        for other in args[1:] if name not in ("flip", "roll", "sort", "tril", "triu", "round", "clip") else ():
            found = host.arithmetic(found, other)
        if not isinstance(found, TensorSpec) or "dtype" in kwargs or "axis" in kwargs:
            return UNKNOWN
        return host.real(found) if name in _REAL else found

    return make


def _reduction(name: str) -> Make:
    def make(args: list[Any], kwargs: dict[str, Any]) -> Any:
        value = args[0]
        axis = kwargs.get("axis", args[1] if len(args) > 1 else None)
        if axis is None or has_unknown(axis) or kwargs.keys() - {"axis", "keepdims"} or name.startswith("arg"):
            return UNKNOWN
        axes = {number % value.ndim for number in _parts(axis)}
        keep = kwargs.get("keepdims") is True
        shape = [1 if i in axes else n for i, n in enumerate(value.shape) if keep or i not in axes]
        return spec(shape, host.real(value).dtype if name in ("mean", "std", "var", "median") else value.dtype)

    return make


def _joined(args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`concatenate`: the sizes along one axis add up."""
    parts, axis = list(args[0]), kwargs.get("axis", kwargs.get("dim", args[1] if len(args) > 1 else 0))
    first = parts[0]
    rest = [part for part in parts if isinstance(part, TensorSpec) and part.dtype is first.dtype]
    if len(rest) != len(parts) or type(axis) is not int:
        return UNKNOWN
    axis %= first.ndim
    total = sum(part.shape[axis] for part in parts)
    return spec((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)


def _stacked(args: list[Any], kwargs: dict[str, Any]) -> Any:
    parts, axis = list(args[0]), kwargs.get("axis", kwargs.get("dim", args[1] if len(args) > 1 else 0))
    if any(part != parts[0] for part in parts) or type(axis) is not int:
        return UNKNOWN
    shape = list(parts[0].shape)
    shape.insert(axis % (len(shape) + 1), len(parts))
    return spec(shape, parts[0].dtype)


def _outer(args: list[Any], kwargs: dict[str, Any]) -> Any:
    left, right = args
    found = (
        host.arithmetic(left, right)
        if left.shape == right.shape
        else host.arithmetic(left, TensorSpec((1,), right.dtype))
    )
    dtype = found.dtype if isinstance(found, TensorSpec) else left.dtype
    return spec((math.prod(left.shape), math.prod(right.shape)), dtype)


def _expanded(args: list[Any], kwargs: dict[str, Any]) -> Any:
    axis = kwargs.get("axis", kwargs.get("dim", args[1] if len(args) > 1 else UNKNOWN))
    if type(axis) is not int:
        return UNKNOWN
    shape = list(args[0].shape)
    shape.insert(axis % (len(shape) + 1), 1)
    return spec(shape, args[0].dtype)


def _spread(args: list[Any], kwargs: dict[str, Any]) -> Any:
    shape = kwargs.get("shape", args[1] if len(args) > 1 else UNKNOWN)
    return UNKNOWN if has_unknown(shape) or not isinstance(shape, tuple | list) else spec(shape, args[0].dtype)


def _tiled(args: list[Any], kwargs: dict[str, Any]) -> Any:
    value, times = args
    counts = [times] if type(times) is int else list(times)
    if any(type(count) is not int for count in counts):
        return UNKNOWN
    rank = max(value.ndim, len(counts))
    shape = [1] * (rank - value.ndim) + list(value.shape)
    counts = [1] * (rank - len(counts)) + counts
    return spec((size * count for size, count in zip(shape, counts, strict=True)), value.dtype)


def _repeated(args: list[Any], kwargs: dict[str, Any]) -> Any:
    value, times = args[:2]
    axis = kwargs.get("axis", args[2] if len(args) > 2 else None)
    if type(times) is not int or type(axis) is not int:
        return UNKNOWN
    shape = list(value.shape)
    shape[axis] *= times
    return spec(shape, value.dtype)


def _where(args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 3:
        return UNKNOWN
    chosen = host.arithmetic(args[1], args[2]) if any(isinstance(a, TensorSpec) for a in args[1:]) else UNKNOWN
    if not isinstance(chosen, TensorSpec) or not isinstance(args[0], TensorSpec):
        return UNKNOWN
    try:
        return spec(np.broadcast_shapes(args[0].shape, chosen.shape), chosen.dtype)
    except ValueError:
        return UNKNOWN


def _reshaped(args: list[Any], kwargs: dict[str, Any]) -> Any:
    return host.reshaped(args[0], args[1] if len(args) > 1 else kwargs.get("shape", UNKNOWN))


_OTHERS: Final[dict[str, Make]] = {
    "concatenate": _joined, "concat": _joined, "cat": _joined, "stack": _stacked, "outer": _outer,
    "expand_dims": _expanded, "unsqueeze": _expanded, "broadcast_to": _spread, "tile": _tiled, "repeat": _repeated,
    "where": _where, "reshape": _reshaped, "matmul": lambda args, kwargs: matmul(*args[:2]),
    "dot": lambda args, kwargs: matmul(*args[:2]),
}  # fmt: skip


def _special(name: str, make: Make) -> Special:
    plain = natives.NATIVES.get(id(getattr(np, name, None)))

    def run(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
        parts = args[0] if args and isinstance(args[0], tuple | list) else args
        if any(isinstance(part, TensorSpec) for part in parts):
            try:
                return make(args, kwargs)
            except (TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError):
                return UNKNOWN  # the arrays do not fit, or are used in a way that is not followed
        return UNKNOWN if plain is None else calls.call_native(m, frame, node, plain, args, kwargs)

    return Special(name, run)


def functions() -> dict[str, Special]:
    """The functions by name; on numbers those of NumPy compute as ever."""
    made = {name: _special(name, _elementwise(name)) for name in _ELEMENTWISE}
    made |= {name: _special(name, _reduction(name)) for name in _REDUCTIONS}
    return made | {name: _special(name, make) for name, make in _OTHERS.items()}
