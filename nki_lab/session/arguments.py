"""From the caller's arguments to the kernel's: arrays become input tensors, everything else stays a constant."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import FunctionType
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from nki_lab.diagnostic import NkiError, coded_error, diagnose
from nki_lab.isa.dtype import DType, NamedDType
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.language.objects import NKIObject
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor
from nki_lab.late_annotations import signature_of
from nki_lab.session.arrays import (
    Array,
    Kind,
    accepted_dtype,
    check_gradient,
    check_tensor,
    host_array,
    is_shaped,
    kind_of,
    native,
    refused,
    scalar,
    shape_and_dtype,
)

Arguments = tuple[object, ...]
Keywords = Mapping[str, object]

_PLAIN: Final = (type(None), bool, int, float, str, bytes, slice, type(Ellipsis), range)
_CONSTANTS: Final = (*_PLAIN, Enum, np.dtype, NamedDType, DType, type, np.generic, np.ufunc)


def bound(function: Callable[..., object], args: Arguments, kwargs: Keywords) -> inspect.BoundArguments:
    """Return the arguments by parameter name; a `*args` parameter holds a tuple, `**kwargs` a dict.

    NKI003 where a parameter gets no value, NKI002 where a value gets no parameter.
    """
    signature = _signature_of(function)
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise _misfit(function, signature, args, kwargs, str(error)) from None


def _signature_of(function: Callable[..., object]) -> inspect.Signature:
    plain = isinstance(function, FunctionType) and not function.__dict__
    parts = (function.__code__, function.__defaults__, function.__kwdefaults__) if plain else ()
    known = _signatures.get(function) if plain else None
    if known is not None and all(now is then for now, then in zip(parts, known[0], strict=True)):
        return known[1]
    try:
        signature = signature_of(function)
    except (TypeError, ValueError):  # a callable without a signature, such as a C function
        kinds = inspect.Parameter
        signature = inspect.Signature([kinds("args", kinds.VAR_POSITIONAL), kinds("kwargs", kinds.VAR_KEYWORD)])
    if plain:
        _signatures[function] = (parts, signature)
    return signature


_signatures: WeakKeyDictionary[Callable[..., object], tuple[tuple[object, ...], inspect.Signature]] = (
    WeakKeyDictionary()
)
"""Signatures of functions, with the parts that they were read from: editors exchange those in place."""


def _misfit(
    function: Callable[..., object],
    signature: inspect.Signature,
    args: Arguments,
    kwargs: Keywords,
    reason: str,
) -> NkiError:
    name = getattr(function, "__name__", "kernel")
    limit = f"{name}{signature}"
    parameters = signature.parameters
    variadic = any(item.kind is item.VAR_KEYWORD for item in parameters.values())
    unknown = [] if variadic else [key for key in kwargs if key not in parameters]
    if unknown:
        message = f"{name} got an unexpected keyword argument {unknown[0]!r}"
        near = did_you_mean(unknown[0], parameters)
        return coded_error("NKI002", message, operand=unknown[0], limit=limit, help=near)
    named = [item for item in parameters.values() if item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)]
    positional = [item for item in named if item.kind is not item.KEYWORD_ONLY]
    given = {item.name for item in positional[: len(args)]} | set(kwargs)
    missing = [item.name for item in named if item.default is item.empty and item.name not in given]
    if missing and len(args) <= len(positional):
        plural = "argument" if len(missing) == 1 else "arguments"
        message = f"{name} is called without its {plural} {', '.join(missing)}"
        return coded_error("NKI003", message, limit=limit, help=f"pass {missing[0]}")
    if len(args) > len(positional):
        reason = f" takes {len(positional)} positional arguments, {len(args)} were given"
    else:
        reason = f": {reason}"
    return coded_error("NKI002", f"{name}{reason}", limit=limit)


@dataclasses.dataclass(slots=True)
class Input:
    """One input tensor: its buffer, the values it starts with (None without values), and the caller's array."""

    name: str
    tensor: NkiTensor
    values: Array | None
    original: Any
    kind: Kind


class Intake:
    """Turns arguments into what the kernel sees, and remembers which array became which input.

    The same array passed twice is one tensor, which the program calls shared. Containers are copied where an array
    sits in them, so that the caller's keep their arrays. Without `values` an array is only its shape and dtype.
    """

    def __init__(self, builder: Builder, *, shared: bool, dialect: str, values: bool = True) -> None:
        self.builder = builder
        self.values = values
        self.space = MemoryRegion.shared_hbm if shared else MemoryRegion.private_hbm
        self.lists_allowed = dialect == "beta1"
        self.inputs: list[Input] = []
        self._known: dict[int, NkiTensor] = {}
        self._open: list[int] = []

    @property
    def kind(self) -> Kind:
        """The library whose arrays the results become: torch before jax before NumPy."""
        kinds = {item.kind for item in self.inputs}
        return next((kind for kind in ("torch", "jax") if kind in kinds), "numpy")

    def take(self, name: str, value: object) -> object:
        """The argument `name` as the kernel gets it; NKI001 for what no kernel can take."""
        if isinstance(value, list) and not self.lists_allowed:
            limit = "a kernel argument is a tensor or an immutable constant"
            note = diagnose(
                "NKI114", f"argument {name} is a list", operand=name, limit=limit, help=f"pass a tuple: tuple({name})"
            )
            self.builder.note(note, self.builder.site())
        return self._take(name, value)

    def _take(self, name: str, value: object) -> object:
        if kind := kind_of(value):
            return self._array(name, value, kind)
        if isinstance(value, TensorSpec):
            return self._enter(name, value.shape, value.dtype, None, value, "numpy")
        if isinstance(value, _CONSTANTS) or value is None:
            return value
        if isinstance(value, NkiTensor):
            raise refused(name, "a tensor of another kernel", "return it from that kernel, and pass the array you get")
        if is_container(value):
            return self._container(name, value)
        if not self.values and is_shaped(value):
            return self._array(name, value, None)
        if callable(value) or (type(value).__module__ == "torch" and type(value).__name__ in ("dtype", "Size")):
            return value
        if isinstance(value, (set, frozenset)):
            remedy = "pass a tuple: a set has no order"
        elif hasattr(value, "__array__"):
            remedy = f"pass np.asarray({name})"
        elif hasattr(value, "__next__") or hasattr(value, "read"):
            remedy = f"pass tuple({name}), or an array"
        elif self.lists_allowed:  # Beta 1 hands any object on to the kernel
            return value
        elif is_shaped(value):
            remedy = "give it values; nki_lab.profile and nki_lab.compile take shapes"
        else:
            remedy = "derive the class from nl.NKIObject, or make it a dataclass"
        raise refused(name, f"a {type(value).__name__}", remedy)

    def _array(self, name: str, value: Any, kind: Kind | None) -> object:
        known = self._known.get(id(value))
        if known is not None:
            self.builder.program.shared_inputs.add(known._buffer.id)
            return known
        if kind == "torch" and value.is_nested:  # which has no shape
            check_tensor(value, name)
        if not value.shape:
            return scalar(value, kind, name)
        if kind == "torch" and self.values:
            check_gradient(value, name)
        if kind is None or not self.values:
            shape, dtype = shape_and_dtype(value, kind, name)
            arriving = accepted_dtype(dtype, self.builder.arch.generation)
            return self._enter(name, shape, arriving, None, value, kind or "numpy")
        array, dtype = host_array(value, kind, name)
        arriving = accepted_dtype(dtype, self.builder.arch.generation)
        return self._enter(name, array.shape, arriving, native(array, arriving), value, kind)

    def _enter(
        self, name: str, shape: tuple[int, ...], dtype: DType, values: Array | None, original: object, kind: Kind
    ) -> NkiTensor:
        tensor = self.builder.allocate(shape, dtype, self.space, name=name, kind="input")
        self._known[id(original)] = tensor
        self.inputs.append(Input(name, tensor, values, original, kind))
        self.builder.program.inputs.append(tensor._buffer)
        return tensor

    def _container(self, name: str, value: object) -> object:
        if id(value) in self._open:
            raise refused(name, f"a {type(value).__name__} that contains itself", "pass nested tuples")
        self._open.append(id(value))
        try:
            return with_items(name, value, self._take)
        finally:
            self._open.pop()


def is_container(value: object) -> bool:
    """Whether an argument may hold arrays: a tuple, list, dict, NKIObject or dataclass."""
    return isinstance(value, (tuple, list, dict, NKIObject)) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    )


def with_items(name: str, value: Any, take: Callable[[str, object], object]) -> object:
    """Return a container with what `take` gives for the name and value of each of its items; itself if none changes."""
    if isinstance(value, (tuple, list)):
        taken: list[Any] = [take(f"{name}[{i}]", item) for i, item in enumerate(value)]
        if all(new is old for new, old in zip(taken, value, strict=True)):
            return value
        kind: Any = type(value)
        return kind(*taken) if hasattr(value, "_fields") else kind(taken)
    if isinstance(value, dict):
        found = {key: take(f"{name}[{key!r}]", item) for key, item in value.items()}
        return found if any(found[key] is not value[key] for key in value) else value
    return _with_fields(name, value, take)


def _with_fields(name: str, value: object, take: Callable[[str, object], object]) -> object:
    """A dataclass or NKIObject: a shallow copy with tensors for arrays; `__post_init__` is not run again."""
    fields = {field: getattr(value, field, None) for field in _fields(value)}
    taken = {field: take(f"{name}.{field}", item) for field, item in fields.items()}
    changes = {field: item for field, item in taken.items() if item is not fields[field]}
    record = copy.copy(value) if changes else value
    for field, item in changes.items():
        object.__setattr__(record, field, item)
    return record


def used_as_tensor(error: NkiError, arguments: Keywords) -> NkiError | None:
    """Return the error of a list or tuple that the kernel used like a tensor, which it is by what it raised."""
    cause = error.__cause__
    if not isinstance(cause, AttributeError) or cause.name not in dir(NkiTensor):
        return None
    for name, value in arguments.items():
        if value is cause.obj and isinstance(value, (list, tuple)):
            limit = f"the kernel takes {name}.{cause.name}, which tensors have"
            return refused(
                name, f"a {type(value).__name__}", f"pass an array: np.array({name}, np.float32)", limit=limit
            )
    return None


def _fields(value: Any) -> Iterable[str]:
    names = [item.name for item in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    return dict.fromkeys([*names, *getattr(value, "__dict__", ())])
