"""Arrays of the caller: NumPy, torch and jax go in, the same kind comes out.

torch and jax are never imported here: an argument of theirs proves that the caller has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, Literal

import ml_dtypes
import numpy as np

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.isa.dtype import FP8_E4M3, FP8_E4M3FN, DType, dtype_of

Kind = Literal["numpy", "torch", "jax"]
Array = np.ndarray[Any, Any]

# Types of torch that NumPy has no number for: seen through integers of their width.
_TORCH_VIEWS: Final = {
    "bfloat16": ("int16", ml_dtypes.bfloat16),
    "float8_e4m3fn": ("uint8", ml_dtypes.float8_e4m3fn),
    "float8_e5m2": ("uint8", ml_dtypes.float8_e5m2),
    "float8_e8m0fnu": ("uint8", ml_dtypes.float8_e8m0fnu),
    # Older releases of torch cannot hand these to NumPy.
    "uint16": ("int16", np.uint16),
    "uint32": ("int32", np.uint32),
}


def kind_of(value: object) -> Kind | None:
    """Return the library whose array `value` is; None for anything else."""
    if isinstance(value, np.ndarray):
        return "numpy"
    kinds: tuple[tuple[Kind, str], ...] = (("torch", "Tensor"), ("jax", "Array"))
    for kind, name in kinds:
        library = sys.modules.get(kind)
        if library is not None and isinstance(value, getattr(library, name, ())):
            return kind
    return None


def host_array(value: Any, kind: Kind, name: str) -> tuple[Array, DType]:
    """The values of an array argument as NumPy sees them, with their NKI dtype.

    The result may share the caller's memory and is not to be written. NKI001 names the argument where the array has
    no place on the chip: a 64-bit, complex or object dtype, no elements, no values.
    """
    array = plain(value, kind, name)
    dtype = _dtype(array.dtype, name, of_torch=kind == "torch")
    _check_elements(array.shape, name)
    return array, dtype


def is_shaped(value: object) -> bool:
    """Whether a value that is no array has the shape and dtype of one, as `jax.ShapeDtypeStruct` has."""
    return isinstance(getattr(value, "shape", None), tuple) and hasattr(value, "dtype")


def shape_and_dtype(value: Any, kind: Kind | None, name: str) -> tuple[tuple[int, ...], DType]:
    """The shape and the NKI dtype of an array argument, which may be without values; refused as by `host_array`."""
    if kind == "numpy":
        array, dtype = host_array(value, kind, name)
        return array.shape, dtype
    try:
        shape = tuple(int(size) for size in value.shape)
    except Exception:  # noqa: BLE001 - each framework has an exception of its own for a size that is a symbol
        shown = tuple(map(str, value.shape))
        raise refused(
            name,
            f"an array of shape ({', '.join(shown)}), whose sizes are not all numbers",
            "call the kernel with arrays of known shape",
            limit="a kernel is compiled for sizes that are numbers",
        ) from None
    if kind == "torch":
        label = _torch_label(value, name)
        host = _TORCH_VIEWS[label][1] if label in _TORCH_VIEWS else label
    else:
        host = value.dtype
    try:
        dtype = _dtype(np.dtype(host), name, of_torch=kind == "torch")
    except TypeError as error:
        if isinstance(error, NkiError):
            raise
        raise refused(name, f"an array of {value.dtype}", "pass an array of numbers") from None
    _check_elements(shape, name)
    return shape, dtype


def scalar(value: Any, kind: Kind | None, name: str) -> bool | int | float:
    """The number in an array without dimensions, which a kernel takes as a constant; NKI001 where it is not known."""
    traced = kind == "jax" and _is_tracer(value)
    if traced or kind is None or type(value).__name__ == "FakeTensor" or str(getattr(value, "device", "")) == "meta":
        what = "traced scalar" if traced else "scalar without a value"
        raise refused(
            name,
            f"a {what}, of shape () and dtype {value.dtype}",
            f"pass a Python number (under jax.jit name it in static_argnames), or reshape {name} to (1, 1)",
            limit="a scalar is a constant of the compiled kernel: its value is known before the kernel runs",
        )
    if kind == "torch":
        check_gradient(value, name)
    try:
        number = value.item()
    except Exception:  # noqa: BLE001 - dtypes without a number, and arrays whose memory is gone: each has its own
        raise refused(name, f"a scalar of {value.dtype}, whose value cannot be read", "pass a number") from None
    if not isinstance(number, (bool, int, float)):
        raise refused(name, f"a {type(number).__name__}", "pass a number")
    return number


def _check_elements(shape: tuple[int, ...], name: str) -> None:
    if 0 in shape:
        raise refused(name, f"an array of shape {shape}, without elements", "tensors have at least one element")


def plain(value: Any, kind: Kind, name: str) -> Array:
    """An array as NumPy sees it, whatever its dtype; it may share the caller's memory."""
    if kind == "torch":
        return _from_torch(value, name)
    if kind == "jax":
        return _from_jax(value, name)
    # NumPy imports its masked arrays when they are first named: who has one has done so.
    if type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray):
        raise refused(name, "a masked array", "pass its data and its mask as two arrays")
    return np.asarray(value)


def native(array: Array, dtype: DType) -> Array:
    """The array dense, in this machine's byte order and in the host dtype; copied only where it is not so already."""
    return np.ascontiguousarray(array, dtype=np.dtype(dtype.host))


def accepted_dtype(dtype: DType, generation: int) -> DType:
    """The dtype in which an input arrives: the open 8-bit format becomes Trainium's own where the chip lacks it."""
    return FP8_E4M3 if dtype is FP8_E4M3FN and generation < 4 else dtype


def _dtype(kind: np.dtype[Any], name: str, *, of_torch: bool = False) -> DType:
    try:
        return dtype_of(kind)
    except NkiError:
        pass
    help_text = {"c": "pass the real and the imaginary parts as two arrays"}.get(kind.kind, "")
    if kind.name in ("float64", "int64", "uint64"):
        narrow = f"{kind.name.removesuffix('64')}32"
        help_text = f"convert it: {name}.to(torch.{narrow})" if of_torch else f"convert it: {name}.astype(np.{narrow})"
    elif kind.kind in "OSUMm":
        help_text = "pass an array of numbers"
    elif not help_text:
        help_text = "convert it to a dtype of nki.language"
    raise refused(name, f"an array of {kind.name}", help_text, limit="arrays of NKI dtypes: at most 32 bits an element")


def refused(name: str, what: str, help_text: str, *, limit: str = "") -> NkiError:
    """The NKI001 error for the argument `name`, which is `what`."""
    limit = limit or "arguments are arrays, numbers, strings, dtypes, None, and tuples or NKIObjects of those"
    return coded_error("NKI001", f"argument {name} is {what}", operand=name, limit=limit, help=help_text)


def _from_torch(value: Any, name: str) -> Array:
    import torch

    check_tensor(value, name)
    plain = value.detach()
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    label = _torch_label(plain, name)
    try:
        if label in _TORCH_VIEWS:
            through, meant = _TORCH_VIEWS[label]
            return plain.contiguous().view(getattr(torch, through)).numpy().view(meant)
        return plain.numpy()
    except TypeError:  # a dtype of fewer than eight bits, or half complex
        raise refused(name, f"a torch tensor of {label}", "convert it to a dtype of nki.language") from None
    except RuntimeError:  # a subclass that only torch's dispatcher can read, a fake tensor among them
        raise refused(
            name, f"a {type(value).__name__} without values of its own", "pass a plain torch.Tensor"
        ) from None


def check_tensor(value: Any, name: str) -> None:
    """Check that a torch tensor is dense and on the CPU: NKI001. One that torch traces needs no values."""
    import torch

    if value.layout is not torch.strided or value.is_nested:
        what, remedy = f"a torch tensor of layout {value.layout}", f"pass {name}.to_dense()"
        if value.is_nested:
            what, remedy = "a nested torch tensor", f"pass torch.nested.to_padded_tensor({name}, 0.0)"
        raise refused(name, what, remedy, limit="tensors of kernels are dense")
    if value.is_quantized:
        remedy = f"pass {name}.int_repr() and its scale, or {name}.dequantize()"
        raise refused(name, f"a quantized torch tensor ({value.dtype})", remedy)
    kind = value.device.type
    if kind == "meta":
        remedy = "give it values; nki_lab.profile and nki_lab.compile take nki_lab.spec(shape, dtype) instead"
        raise refused(name, "a torch tensor on meta, without values", remedy, limit="a run needs values")
    if kind != "cpu":
        remedy = f"pass {name}.cpu()"
        raise refused(name, f"a torch tensor on {value.device}", remedy, limit="the simulator runs on the CPU")


def check_gradient(value: Any, name: str) -> None:
    """Check that no gradient is lost where a torch tensor goes into a kernel: NKI029 names the ways out."""
    import torch

    if value.requires_grad and torch.is_grad_enabled():
        what, rule, out = "requires a gradient", "backward", "call it under torch.no_grad() or "
    elif torch.autograd.forward_ad._current_level >= 0 and _has_tangent(value):
        what, rule, out = "has a tangent", "jvp", ""
    else:
        return
    raise coded_error(
        "NKI029",
        f"argument {name} is a torch tensor that {what}",
        operand=name,
        limit="a kernel has no derivative of its own",
        help=f"call the kernel in the forward of a torch.autograd.Function whose {rule} calls another kernel;"
        f" without gradients, {out}pass {name}.detach()",
    )


def _has_tangent(value: Any) -> bool:
    """Whether derivatives in forward mode go through a torch tensor."""
    import torch

    low = torch._C._functorch
    while low.is_batchedtensor(value):
        value = low.get_unwrapped(value)
    return torch.autograd.forward_ad.unpack_dual(value).tangent is not None


def torch_dtype(dtype: DType) -> Any:
    """Return torch's dtype of the tensors in which results of an NKI dtype come back."""
    import torch

    kind = nameable(np.dtype(dtype.host))
    return getattr(torch, "float8_e4m3fn" if kind == ml_dtypes.float8_e4m3 else kind.name)


def _torch_label(value: Any, name: str) -> str:
    """The name of a torch tensor's dtype; NKI001 for one that NKI lacks and NumPy cannot name."""
    label = str(value.dtype).removeprefix("torch.")
    if label not in _TORCH_VIEWS and label.startswith(("float8", "float4", "q", "bits")):
        raise refused(name, f"a torch tensor of {label}", "NKI has float8_e4m3fn, float8_e5m2 and float8_e8m0fnu")
    return label


def _is_tracer(value: Any) -> bool:
    import jax

    return isinstance(value, jax.core.Tracer)


def _from_jax(value: Any, name: str) -> Array:
    if _is_tracer(value):
        raise refused(name, "a jax tracer: an array without values", f"call the kernel itself: kernel({name})")
    if value.is_deleted():
        remedy = f"pass a copy of {name} to the function that it is donated to"
        raise refused(name, "a jax array that was deleted or donated", remedy, limit="a run needs values")
    try:
        return np.asarray(value)
    except TypeError:  # keys of random numbers
        raise refused(name, f"a jax array of {value.dtype}", f"pass jax.random.key_data({name})") from None


def give_back(array: Array, kind: Kind) -> Any:
    """A result as the caller's library has it. Results without such a dtype there come as the nearest that has."""
    if kind == "torch":
        return _to_torch(array)
    if kind == "jax":
        import jax.numpy as jnp

        return jnp.asarray(array.view(nameable(array.dtype)))
    return array


def nameable(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the same bits that frameworks have a name for: packed elements are unsigned integers."""
    return dtype[0] if dtype.fields else dtype


def _to_torch(array: Array) -> Any:
    import torch

    array = np.ascontiguousarray(array)
    if array.dtype == ml_dtypes.float8_e4m3:  # torch has the open format only; every finite value is in it
        array = array.astype(ml_dtypes.float8_e4m3fn)
    array = array.view(nameable(array.dtype))
    label = array.dtype.name
    if label in _TORCH_VIEWS and (label not in ("uint16", "uint32") or hasattr(torch, label)):
        through, _ = _TORCH_VIEWS[label]
        return torch.from_numpy(_owned(array).view(through)).view(getattr(torch, label))
    return torch.from_numpy(_owned(array))


def _owned(array: Array) -> Array:
    return array if array.flags.writeable else array.copy()


def frozen(original: Any, kind: Kind) -> str:
    """Return what an array is that cannot be changed, as messages have it; empty for one that can."""
    if kind == "jax":
        return "a jax array"
    if kind == "numpy":
        flags = getattr(original, "flags", None)  # a TensorSpec has none
        return "" if flags is None or flags.writeable else "a read-only array"
    import torch

    if original.is_inference() and not torch.is_inference_mode_enabled():
        return "a tensor of torch.inference_mode, outside of it"
    if any(step == 0 and size > 1 for step, size in zip(original.stride(), original.shape, strict=True)):
        return "an expanded torch tensor, whose elements share memory"
    return ""


def changed(original: Any, values: Array, kind: Kind) -> bool:
    """Write `values` into the caller's array; False where it cannot be changed."""
    if frozen(original, kind):
        return False
    if kind == "torch":
        import torch

        with torch.no_grad():
            original.copy_(_to_torch(values).reshape(original.shape))
        return True
    named = original.dtype.fields is not None  # packed, or tfloat32: the same bits under another name
    np.copyto(original, values.view(original.dtype) if named else values.astype(original.dtype, copy=False))
    return True


def map_leaves(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """A kernel's result with each leaf replaced; tuples, lists and dicts are walked."""
    if not isinstance(value, (tuple, list, dict)):
        return leaf(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_leaves(item, leaf) for item in value))
    if isinstance(value, dict):
        return {key: map_leaves(item, leaf) for key, item in value.items()}
    return type(value)(map_leaves(item, leaf) for item in value)
