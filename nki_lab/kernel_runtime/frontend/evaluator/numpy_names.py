"""`numpy` as kernels may use it: dtypes, constants, and functions of compile-time numbers."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from nki_lab.kernel_runtime.frontend.evaluator.machine import Machine
from nki_lab.kernel_runtime.frontend.evaluator.natives import native
from nki_lab.kernel_runtime.frontend.evaluator.operations import LARGEST_ARRAY, fits, power, unwrapped
from nki_lab.kernel_runtime.frontend.evaluator.values import UNKNOWN, Frame, Namespace

_DTYPES: Final = (
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool_",
)  # fmt: skip
_SCALAR: Final = (
    "ceil", "floor", "sqrt", "exp", "exp2", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "tanh",
    "arctan", "abs", "absolute", "sign", "square", "reciprocal", "rint", "trunc", "isnan", "isinf", "isfinite", "add",
    "negative",
    "subtract", "multiply", "divide", "true_divide", "floor_divide", "mod", "fmod", "maximum", "minimum", "greater",
    "greater_equal", "less", "less_equal", "equal", "not_equal", "logical_and", "logical_or", "logical_not",
    "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "gcd", "lcm",
)  # fmt: skip
_FOLDS: Final = ("prod", "sum", "max", "min", "amax", "amin", "mean", "any", "all", "cumsum", "argmax", "argmin")
_CONSTANTS: Final = {"inf": np.inf, "nan": np.nan, "pi": np.pi, "e": np.e, "newaxis": None}


def _number(value: Any) -> bool:
    return isinstance(value, int | float | np.generic)


def _small(value: Any) -> bool:
    """Whether a value is a number, or an array of few numbers."""
    return _number(value) or (type(value) is np.ndarray and value.size <= LARGEST_ARRAY and value.dtype.kind in "biuf")


def _enter_scalar(function: Any) -> None:
    @native(function, deep=True)
    def run(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
        values = [unwrapped(value) for value in args]
        if kwargs or not all(_small(value) for value in values) or not fits(*values):
            return UNKNOWN
        result = function(*values)
        return result if _small(result) else UNKNOWN


def _enter_fold(function: Any) -> None:
    @native(function, deep=True)
    def run(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) == 1 and _small(args[0]) and not kwargs.keys() - {"dtype", "axis", "keepdims"}:
            return function(args[0], **kwargs)
        if len(args) != 1 or kwargs.keys() - {"dtype"} or not isinstance(args[0], tuple | list):
            return UNKNOWN
        m.meter.sized(len(args[0]))
        if not all(_number(value) for value in args[0]):
            return UNKNOWN
        result = function(args[0], **kwargs)
        return result if isinstance(result, np.generic) else UNKNOWN


for _name in _SCALAR:
    _enter_scalar(getattr(np, _name))
for _name in _FOLDS:
    _enter_fold(getattr(np, _name))


def _enter_maker(function: Any) -> None:
    @native(function, deep=True)
    def run(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
        values = [unwrapped(value) for value in args]
        given = (*values, *kwargs.values())
        sizes = [size for value in given for size in (value if type(value) is tuple else (value,))]
        if any(isinstance(size, int) and abs(size) > LARGEST_ARRAY for size in sizes) or kwargs.keys() - _MAKING:
            return UNKNOWN
        shape = values[0] if values and isinstance(values[0], tuple | list) else ()
        if math.prod(size for size in shape if type(size) is int) > LARGEST_ARRAY or any(
            not isinstance(value, int | float | np.generic | tuple | list | type | np.dtype) for value in values
        ):
            return UNKNOWN
        m.meter.walked(values)
        made = function(*values, **kwargs)
        return made if _small(made) else UNKNOWN


_MAKING: Final = frozenset({"dtype", "shape", "num", "start", "stop", "step", "endpoint", "k", "fill_value", "N", "M"})
_MAKERS: Final = ("array", "asarray", "arange", "linspace", "zeros", "ones", "full", "eye", "identity", "tri")
for _name in _MAKERS:
    _enter_maker(getattr(np, _name))


@native(np.power, deep=True)
def _power(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 2 or kwargs or not all(_number(value) for value in args):
        return UNKNOWN
    power(args[0], args[1], m.meter)
    return np.power(*args)


@native(np.dtype, deep=True)
def _dtype(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or kwargs or isinstance(args[0], list | tuple | dict):
        return UNKNOWN
    return np.dtype(args[0])


def _enter_type(kind: Any) -> None:
    @native(kind, deep=True)
    def run(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) != 1 or kwargs or not _number(args[0]):
            return UNKNOWN
        return kind(args[0])


for _name in _DTYPES:
    _enter_type(getattr(np, _name))


@native(np.finfo, np.iinfo, deep=True)
def _limits(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or kwargs or isinstance(args[0], list | tuple | dict):
        return UNKNOWN
    kind = np.dtype(args[0])
    if kind.kind in "iu":
        whole = np.iinfo(kind)
        return Namespace("numpy.iinfo", {"min": int(whole.min), "max": int(whole.max), "bits": whole.bits})
    if kind.kind != "f" or kind.type not in (np.float16, np.float32, np.float64):
        return UNKNOWN
    real = np.finfo(kind)
    names = ("min", "max", "eps", "tiny", "smallest_normal", "bits")
    return Namespace("numpy.finfo", {name: getattr(real, name) for name in names})


def numpy_namespace(more: Mapping[str, Any]) -> Namespace:
    """The names of `numpy` that the evaluator knows, and `more`."""
    known = (*_DTYPES, *_SCALAR, *_FOLDS, *_MAKERS, "power", "dtype", "finfo", "iinfo")
    names = {name: getattr(np, name) for name in known}
    return Namespace("numpy", names | _CONSTANTS | dict(more), real=np)
