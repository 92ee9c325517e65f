"""Libraries of code that launches kernels: arrays are known by shape and dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from nki_lab.isa.dtype import DTYPES
from nki_lab.kernel_runtime.interpreter.array_shapes import array, cast
from nki_lab.kernel_runtime.interpreter.builtins.numpy_functions import ARRAY_FUNCTIONS, numpy_namespace
from nki_lab.kernel_runtime.interpreter.builtins.test_frameworks import framework_modules
from nki_lab.kernel_runtime.interpreter.calls import CallSite, adapted
from nki_lab.kernel_runtime.interpreter.namespaces import special
from nki_lab.kernel_runtime.interpreter.values import UNKNOWN, Names, Namespace, Special, Value
from nki_lab.kernel_runtime.issue.arguments import TensorSpec


def _specials(functions: dict[str, Callable[..., Value]]) -> Names:
    return {name: Special(name, adapted(function)) for name, function in functions.items()}


# -- new arrays --------------------------------------------------------------------------------------------------------


def _made(*parameters: str) -> Callable[..., Value]:
    """Return a function of these parameters, which makes an array of its `shape` and `dtype`."""

    def make(site: CallSite, *args: Value, **kwargs: Value) -> Value:
        given = dict(zip(parameters, args, strict=False)) | kwargs
        return array(given.get("shape", given.get("size", UNKNOWN)), given.get("dtype"))

    return make


_shaped, _filled, _drawn = _made("shape", "dtype"), _made("shape", "fill_value", "dtype"), _made("size", "dtype")
_between, _keyed = _made("low", "high", "size"), _made("key", "shape", "dtype")


def _counted(site: CallSite, *numbers: Value, dtype: Value = None, **_: Value) -> Value:
    if not numbers or any(type(number) is not int for number in numbers):
        return UNKNOWN
    return array(len(range(*numbers[:3])), dtype, "int32")


def _eye(site: CallSite, rows: Value, columns: Value = None, *_: Value, dtype: Value = None, **__: Value) -> Value:
    return array((rows, rows if columns is None else columns), dtype)


def _literal(site: CallSite, value: Value, *_: Value, dtype: Value = None, **__: Value) -> Value:
    """Return `np.array([[1, 2], [3, 4]])`, and arrays like another one."""
    if isinstance(value, TensorSpec):
        return array(value.shape, dtype or value.dtype)
    shape: list[int] = []
    while isinstance(value, list | tuple) and value and len(shape) < 8:
        shape.append(len(value))
        value = value[0]
    if not isinstance(value, int | float):
        return UNKNOWN
    return array(tuple(shape), dtype, "float32" if isinstance(value, float) else "int32")


def _sizes(site: CallSite, *sizes: Value, size: Value = UNKNOWN, dtype: Value = None, **_: Value) -> Value:
    """Return `rand(128, 512)`, and torch's `zeros(128, 512)`: sizes one by one, or in one tuple."""
    given = sizes if sizes and isinstance(sizes[0], int) else sizes[0] if sizes and size is UNKNOWN else size
    return array(given, dtype)


def _integers(
    site: CallSite, low: Value = 0, high: Value = 0, size: Value = UNKNOWN, dtype: Value = None, **_: Value
) -> Value:
    size = next((item for item in (size, low, high) if isinstance(item, tuple | list)), size)  # torch: also first
    return array(size, dtype, "int32")


def _cast(site: CallSite, value: Value, dtype: Value = UNKNOWN, **_: Value) -> Value:
    """Return an array with its elements converted."""
    return cast(value, dtype) if isinstance(value, TensorSpec) else UNKNOWN


_HOST_DTYPES: Final[Names] = {name: kind.host for name, kind in DTYPES.items()}
_DRAWS: Final = _specials({
    "rand": _sizes, "randn": _sizes, "random": _drawn, "random_sample": _drawn, "standard_normal": _drawn,
    "uniform": _between, "normal": _between, "randint": _integers, "integers": _integers,
})  # fmt: skip
_GENERATOR: Final = Special("generator", lambda *_: Namespace("generator", _DRAWS))
_LIKES: Final = _specials(dict.fromkeys(("zeros_like", "ones_like", "empty_like", "full_like"), _literal))
_NUMPY: Final = _LIKES | _specials({
    "zeros": _shaped, "ones": _shaped, "empty": _shaped, "full": _filled, "arange": _counted, "eye": _eye,
    "identity": _eye, "array": _literal, "asarray": _literal,
})  # fmt: skip
_TORCH: Final = _LIKES | _specials({
    **dict.fromkeys(("zeros", "ones", "empty", "rand", "randn"), _sizes), "full": _filled, "arange": _counted,
    "eye": _eye, "tensor": _literal, "randint": _integers,
})  # fmt: skip
_TORCH_DTYPES: Final = (
    "float32", "float16", "bfloat16", "float64", "float8_e4m3fn", "float8_e5m2", "int8", "int16", "int32", "int64",
    "uint8", "half", "float", "long",
)  # fmt: skip


def host_modules() -> Names:
    """Return the modules that code which launches kernels imports, by dotted name."""
    lab = {name: special(f"nki_lab.{name}") for name in ("run", "profile", "compile")}
    torch = ARRAY_FUNCTIONS | {"cat": np.concatenate, "unsqueeze": np.expand_dims} | _TORCH
    return {
        "numpy": numpy_namespace(_NUMPY),
        "numpy.random": Namespace("numpy.random", _DRAWS | dict.fromkeys(("default_rng", "RandomState"), _GENERATOR)),
        "torch": Namespace("torch", torch | {name: name for name in _TORCH_DTYPES}),
        "jax.numpy": Namespace("jax.numpy", ARRAY_FUNCTIONS | _NUMPY),
        "jax.random": Namespace("jax.random", _specials({"normal": _keyed, "uniform": _keyed})),
        "nki_lab": Namespace("nki_lab", lab | _specials({"spec": _shaped})),
        "neuron_dtypes": Namespace(
            "neuron_dtypes", {name: kind.host for name, kind in DTYPES.items()} | _specials({"static_cast": _cast})
        ),
        **framework_modules(),
    }
