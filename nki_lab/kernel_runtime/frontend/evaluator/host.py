"""NumPy, torch and jax as launching code uses them: arrays are known by shape and dtype, and nothing is computed."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import NkiError
from nki_lab.isa.dtype import DType, dtype_of
from nki_lab.kernel_runtime.frontend.evaluator.machine import Machine
from nki_lab.kernel_runtime.frontend.evaluator.values import UNKNOWN, Frame, Namespace, Special, has_unknown
from nki_lab.kernel_runtime.issue.arguments import TensorSpec

_NARROW: Final = {
    "float64": "float32", "double": "float32", "float": "float32", "half": "float16", "int64": "int32", "long": "int32",
    "int": "int32", "short": "int16", "uint64": "uint32", "bool": "bool_", "float8_e4m3fnuz": "float8_e4m3fn",
}  # fmt: skip


def host_dtype(dtype: Any, default: str = "float32") -> DType | None:
    """The NKI dtype of a host array: 64-bit types count as their 32-bit relatives; None for what has none."""
    if dtype is None:
        return dtype_of(default)
    if isinstance(dtype, TensorSpec):
        return dtype.dtype
    name = dtype.__name__ if isinstance(dtype, type) else getattr(dtype, "name", dtype)
    text = str(name).removeprefix("torch.")
    try:
        return dtype_of(_NARROW.get(text, text))
    except NkiError:
        return None


def array(shape: Any, dtype: Any, default: str = "float32") -> Any:
    """The spec of a host array; UNKNOWN where shape or dtype is not known."""
    sizes = (shape,) if isinstance(shape, int) else shape
    if not isinstance(sizes, tuple | list) or not sizes or has_unknown(sizes) or dtype is UNKNOWN:
        return UNKNOWN
    if any(not isinstance(size, int | np.integer) or size < 1 for size in sizes):
        return UNKNOWN
    kind = host_dtype(dtype, default)
    return UNKNOWN if kind is None else TensorSpec(tuple(int(size) for size in sizes), kind)


def _special(name: str, make: Callable[[list[Any], dict[str, Any]], Any]) -> Special:
    def run(m: Machine, frame: Frame, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return make(args, kwargs)

    return Special(name, run)


def _shaped(default: str = "float32", *, dtype_at: int | None = None, keyword: str = "shape") -> Callable[..., Any]:
    """A constructor that takes the shape as first argument, or by keyword."""

    def make(args: list[Any], kwargs: dict[str, Any]) -> Any:
        shape = kwargs.get(keyword, args[0] if args else UNKNOWN)
        at = args[dtype_at] if dtype_at is not None and len(args) > dtype_at else None
        return array(shape, kwargs.get("dtype", at), default)

    return make


def _spread(args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`rand(128, 512)`, and torch's `zeros(128, 512)`: sizes one by one, or in one tuple."""
    if args and isinstance(args[0], int):
        return array(tuple(args), kwargs.get("dtype"))
    return array(kwargs.get("size", args[0] if args else UNKNOWN), kwargs.get("dtype"))


def _like(args: list[Any], kwargs: dict[str, Any]) -> Any:
    if not args or not isinstance(args[0], TensorSpec):
        return UNKNOWN
    return array(args[0].shape, kwargs.get("dtype") or args[0].dtype)


def _sized(place: int, default: str = "float32") -> Callable[..., Any]:
    """A random draw whose shape is `size=`, or the argument at `place`."""

    def make(args: list[Any], kwargs: dict[str, Any]) -> Any:
        shape = kwargs.get("size", args[place] if len(args) > place else UNKNOWN)
        return array(shape, kwargs.get("dtype"), default)

    return make


def _arange(args: list[Any], kwargs: dict[str, Any]) -> Any:
    if not args or any(type(item) is not int for item in args):
        return UNKNOWN
    return array(len(range(*args[:3])), kwargs.get("dtype"), "int32")


def _eye(args: list[Any], kwargs: dict[str, Any]) -> Any:
    return array((args[0], args[1] if len(args) > 1 else args[0]) if args else UNKNOWN, kwargs.get("dtype"))


def _literal(args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`np.array([[1, 2], [3, 4]])`."""
    if args and isinstance(args[0], TensorSpec):
        return _like(args, kwargs)
    shape: list[int] = []
    item = args[0] if args else UNKNOWN
    while isinstance(item, list | tuple) and item and len(shape) < 8:
        shape.append(len(item))
        item = item[0]
    if not shape or not isinstance(item, int | float):
        return UNKNOWN
    return array(tuple(shape), kwargs.get("dtype"), "float32" if isinstance(item, float) else "int32")


def _transposed(args: list[Any], kwargs: dict[str, Any]) -> Any:
    if not args or not isinstance(args[0], TensorSpec):
        return UNKNOWN
    axes = kwargs.get("axes", args[1] if len(args) > 1 else None)
    return _permuted(args[0], axes)


def _permuted(value: TensorSpec, axes: Any) -> Any:
    order = (
        tuple(reversed(range(value.ndim))) if axes is None else tuple(axes) if isinstance(axes, tuple | list) else ()
    )
    if sorted(order) != list(range(value.ndim)):
        return UNKNOWN
    return TensorSpec(tuple(value.shape[i] for i in order), value.dtype)


def reshaped(value: TensorSpec, shape: Any) -> Any:
    """The array in another shape, one of whose sizes may be -1."""
    if not isinstance(shape, tuple | list) or any(type(size) is not int for size in shape):
        return UNKNOWN
    total, known = math.prod(value.shape), math.prod(size for size in shape if size != -1)
    sizes = tuple(total // known if size == -1 and known > 0 else size for size in shape)
    return TensorSpec(sizes, value.dtype) if math.prod(sizes) == total and all(s > 0 for s in sizes) else UNKNOWN


def _method(value: TensorSpec, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    first = args[0] if args else None
    match name:
        case "astype" | "type" | "to" | "view_as":
            wanted = kwargs.get("dtype", first)
            kind = None if wanted is UNKNOWN else host_dtype(wanted)
            if kind is None:  # .to(device)
                return value if name == "to" else UNKNOWN
            return TensorSpec(value.shape, kind)
        case "reshape" | "view":
            return reshaped(value, first if len(args) == 1 and isinstance(first, tuple | list) else args)
        case "transpose" | "permute":
            if name == "transpose" and len(args) == 2 and all(type(item) is int for item in args):
                return _swapped(value, args[0], args[1])
            return _permuted(value, None if not args else first if isinstance(first, tuple | list) else args)
        case "bfloat16" | "half" | "float" | "int":
            kind = host_dtype(name)
            return UNKNOWN if kind is None else TensorSpec(value.shape, kind)
        case _:
            return value


def _swapped(value: TensorSpec, a: int, b: int) -> Any:
    order = list(range(value.ndim))
    if not (-value.ndim <= a < value.ndim and -value.ndim <= b < value.ndim):
        return UNKNOWN
    order[a], order[b] = order[b], order[a]
    return _permuted(value, order)


_KEEP: Final = frozenset({"copy", "clone", "detach", "contiguous", "cuda", "cpu", "numpy", "requires_grad_"})
_CHANGE: Final = frozenset(
    {"astype", "to", "type", "reshape", "view", "transpose", "permute", "bfloat16", "half", "float", "int"}
)


def attribute(value: TensorSpec, name: str) -> Any:
    """An attribute of a host array."""
    match name:
        case "shape":
            return value.shape
        case "dtype":
            return value.dtype.host
        case "ndim":
            return value.ndim
        case "size":
            return math.prod(value.shape)
        case "T":
            return _permuted(value, None)
    if name in _KEEP | _CHANGE:
        return _special(name, lambda args, kwargs: _method(value, name, args, kwargs))
    return UNKNOWN


def real(value: TensorSpec) -> TensorSpec:
    """The array that a function of real numbers makes of one."""
    whole = value.dtype.kind in ("int", "uint", "bool")
    kind = dtype_of("float32") if whole else value.dtype
    return TensorSpec(value.shape, kind)


def arithmetic(left: Any, right: Any, *, divides: bool = False) -> Any:
    """The result of an operator on host arrays: the shape broadcasts, the dtype is the array's, or the wider one."""
    kinds = [item for item in (left, right) if isinstance(item, TensorSpec)]
    shapes = [item.shape if isinstance(item, TensorSpec) else () for item in (left, right)]
    if any(not isinstance(item, TensorSpec | int | float | np.generic) for item in (left, right)):
        return UNKNOWN
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        return UNKNOWN
    dtype = kinds[0].dtype if len({item.dtype for item in kinds}) == 1 else _wider(kinds)
    if dtype is None:
        return UNKNOWN
    found = TensorSpec(shape, dtype)
    number = any(isinstance(item, float | np.floating) for item in (left, right))
    return real(found) if divides or number else found


def _wider(kinds: list[TensorSpec]) -> DType | None:
    try:
        return host_dtype(str(np.result_type(*(item.dtype.host for item in kinds))))
    except TypeError:
        return None


_RANDOM: Final = {
    "rand": _spread, "randn": _spread, "random": _sized(0), "random_sample": _sized(0), "standard_normal": _sized(0),
    "uniform": _sized(2), "normal": _sized(2), "randint": _sized(2, "int32"), "integers": _sized(2, "int32"),
}  # fmt: skip


def _generator(args: list[Any], kwargs: dict[str, Any]) -> Any:
    return Namespace("generator", {name: _special(name, make) for name, make in _RANDOM.items()})


def namespaces(functions: Mapping[str, Any]) -> dict[str, Any]:
    """The modules that launching code imports, by dotted name; names to add to NumPy's under "numpy".

    `functions` are those on arrays.
    """
    shaped = {name: _special(name, _shaped(dtype_at=1)) for name in ("zeros", "ones", "empty")}
    likes = {f"{name}_like": _special(name, _like) for name in ("zeros", "ones", "empty", "full")}
    others = {
        "full": _special("full", _shaped(dtype_at=2)), "arange": _special("arange", _arange),
        "eye": _special("eye", _eye), "identity": _special("identity", _eye), "array": _special("array", _literal),
        "asarray": _special("asarray", _literal), "transpose": _special("transpose", _transposed),
    }  # fmt: skip
    draws = {name: _special(name, make) for name, make in _RANDOM.items()}
    draws |= {"default_rng": _special("default_rng", _generator), "RandomState": _special("RandomState", _generator)}
    torch: dict[str, Any] = (
        {**functions} | likes | {name: _special(name, _spread) for name in ("zeros", "ones", "empty", "rand", "randn")}
    )
    torch |= {"full": _special("full", _shaped()), "arange": _special("arange", _arange), "eye": _special("eye", _eye)}
    torch |= {"tensor": _special("tensor", _literal), "randint": _special("randint", _torch_randint)}
    torch |= {name: name for name in _TORCH_DTYPES}
    keyed = {name: _special(name, _keyed) for name in ("normal", "uniform")}
    return {
        "numpy": {**functions} | shaped | likes | others,
        "numpy.random": Namespace("numpy.random", draws),
        "torch": Namespace("torch", torch),
        "jax.numpy": Namespace("jax.numpy", {**functions} | shaped | likes | others),
        "jax.random": Namespace("jax.random", keyed),
    }


_TORCH_DTYPES: Final = (
    "float32", "float16", "bfloat16", "float64", "float8_e4m3fn", "float8_e5m2", "int8", "int16", "int32", "int64",
    "uint8", "half", "float", "long",
)  # fmt: skip


def _torch_randint(args: list[Any], kwargs: dict[str, Any]) -> Any:
    shape = next((item for item in (kwargs.get("size"), *args) if isinstance(item, tuple | list)), UNKNOWN)
    return array(shape, kwargs.get("dtype"), "int32")


def _keyed(args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`jax.random.normal(key, shape, dtype)`."""
    return array(kwargs.get("shape", args[1] if len(args) > 1 else UNKNOWN),
                 kwargs.get("dtype", args[2] if len(args) > 2 else None))  # fmt: skip
