"""A kernel's arguments as values of an evaluation: arrays become inputs, the user's objects their records."""

from __future__ import annotations

import dataclasses
import enum
import reprlib
from collections.abc import Mapping
from types import FunctionType
from typing import Final

import numpy as np

from nki_lab.diagnostic import Span
from nki_lab.isa.dtype import DType, NamedDType
from nki_lab.kernel_runtime.interpreter.array_shapes import host_dtype
from nki_lab.kernel_runtime.interpreter.interpreter import Function, Interpreter
from nki_lab.kernel_runtime.interpreter.values import UNKNOWN, EnumMember, Instance, UserClass, Value, modest
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.language.scheduling import Pair
from nki_lab.kernel_runtime.tensor import DynamicSlice, MemoryRegion, NkiTensor


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One way a kernel is called: TensorSpecs for arrays, other values as they are.

    `grid` is the launch grid, None where it is not known, `schedule` the edges of `with_schedule`, `span` the call in
    the source where it was found. An `assumed` call is one that the source does not show for sure: findings under it
    count unless the kernel itself refuses it. A kernel that another function makes is what it was at its `launch` of
    that number, from 0 on, with the constants `around` it; -1 is of kernels at module level.
    """

    args: tuple[Value, ...] = ()
    kwargs: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    grid: tuple[int, ...] | None = ()
    schedule: tuple[Pair, ...] = ()
    span: Span | None = None
    assumed: bool = False
    launch: int = -1
    around: str = ""

    def __str__(self) -> str:
        parts = [shown(item) for item in self.args]
        parts += [f"{name}={shown(item)}" for name, item in self.kwargs.items()]
        grid = "[?]" if self.grid is None else f"[{', '.join(map(str, self.grid))}]" if self.grid else ""
        return f"{grid}({', '.join(parts)}){self.around and f' with {self.around}'}"


_SHOWN: Final = 60
_FEW: Final = 8
_EXCERPT: Final = reprlib.Repr()
_EXCERPT.maxlevel, _EXCERPT.maxstring = 3, _SHOWN
_EXCERPT.maxlist = _EXCERPT.maxtuple = _EXCERPT.maxdict = _EXCERPT.maxset = _EXCERPT.maxfrozenset = 2 * _FEW


def shown(value: Value, depth: int = 3) -> str:
    """Return the beginning of a value's text; of one that is nested deeply, not all of it is made first."""
    if isinstance(value, tuple | list) and len(value) <= _FEW and depth:
        return f"({', '.join(shown(item, depth - 1) for item in value)})"
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, str | bytes):
        value = value[:_SHOWN]
    return (_EXCERPT.repr(value) if type(value) in _CONTAINERS else repr(value))[:_SHOWN]


_CONTAINERS: Final = frozenset((list, tuple, dict, set, frozenset))


@dataclasses.dataclass(frozen=True, slots=True)
class TileSpec:
    """A tile on the chip that is an argument of a helper: its shape and dtype, and its memory."""

    spec: TensorSpec
    memory: MemoryRegion

    def __repr__(self) -> str:
        return f"{self.spec!r} in {self.memory.upper()}"


_STEPS: Final = 4
"""Steps of a value that is looked at."""


class Intake:
    """Turns a signature's values into the evaluator's: arrays become inputs, the user's objects their records."""

    def __init__(self, interpreter: Interpreter, builder: Builder, space: MemoryRegion) -> None:
        self.interpreter = interpreter
        self.builder = builder
        self.space = space

    def adopt(self, value: Value) -> Value:
        """Return a value from the caller, or from another evaluation, as a value of this one."""
        self.interpreter.meter.spend(_STEPS)
        match value:
            case (
                None
                | bool()
                | int()
                | float()
                | str()
                | TensorSpec()
                | TileSpec()
                | NamedDType()
                | np.dtype()
                | np.generic()
            ):
                if not _is_member(value):
                    return value
            case slice() | range() | DynamicSlice():
                return value
            case DType():
                return value.host
            case tuple() | list():
                return type(value)(self.adopt(item) for item in value) if type(value) in (tuple, list) else UNKNOWN
            case dict():
                return {key: self.adopt(item) for key, item in value.items()}
            case Instance(cls=cls, fields=fields):
                return self._record(cls.name, fields)
            case EnumMember(cls=cls, name=name):
                return self._member(cls.name, name)
            case Function(name=name) | FunctionType(__name__=name):
                return self._known(name, Function)
            case _:
                pass
        if isinstance(value, enum.Enum):
            return self._member(type(value).__name__, value.name) if _is_member(value) else value
        if (array := spec_of(value)) is not None:
            return array
        if isinstance(value, type):
            return value if value.__module__ in ("builtins", "numpy", "ml_dtypes") else UNKNOWN
        if dataclasses.is_dataclass(value) or self._known(type(value).__name__, UserClass) is not UNKNOWN:
            return self._record(
                type(value).__name__, {name: modest(item)[0] for name, item in getattr(value, "__dict__", {}).items()}
            )
        return UNKNOWN

    def _known(self, name: str, kind: type) -> Value:
        """Return the class or function of that name: the module's, else one of a module that it imports."""
        for module in (self.interpreter.main, *self.interpreter.modules.scopes.values()):
            if isinstance(module.globals.get(name), kind):
                return module.globals[name]
        return UNKNOWN

    def _record(self, name: str, fields: Mapping[str, Value]) -> Value:
        cls = self._known(name, UserClass)
        if not isinstance(cls, UserClass):
            return UNKNOWN
        return Instance(cls, {key: self.adopt(item) for key, item in fields.items()})

    def _member(self, cls: str, name: str) -> Value:
        found = self._known(cls, UserClass)
        return found.members.get(name, UNKNOWN) if isinstance(found, UserClass) else UNKNOWN

    def take(self, name: str, value: Value) -> Value:
        """Return the argument `name` with input tensors in place of arrays."""
        self.interpreter.meter.spend(1)
        match value:
            case TensorSpec():
                space = MemoryRegion(value.memory) if value.memory else self.space
                tensor = self.builder.allocate(value.shape, value.dtype, space, name=name, kind="input")
                self.builder.program.inputs.append(tensor._buffer)
                return tensor
            case TileSpec(spec=spec, memory=memory):
                tile = self.builder.allocate(spec.shape, spec.dtype, memory, name=name, kind="input")
                self.builder.program.inputs.append(tile._buffer)
                return tile
            case tuple() | list():
                return type(value)(self.take(f"{name}[{i}]", item) for i, item in enumerate(value))
            case dict():
                return {key: self.take(f"{name}[{key!r}]", item) for key, item in value.items()}
            case Instance():
                fields = {key: self.take(f"{name}.{key}", item) for key, item in value.fields.items()}
                return Instance(value.cls, fields)
            case _:
                return value


def _is_member(value: object) -> bool:
    """Return whether a value is a member of an enumeration of the user's."""
    return isinstance(value, enum.Enum) and not type(value).__module__.startswith("nki_lab.")


def spec_of(value: Value) -> TensorSpec | None:
    """Return the spec of a NumPy, torch or jax array; None for other values. No method of the value's is called."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(value, type) or shape is None or dtype is None or isinstance(value, NkiTensor):
        return None
    sizes = tuple(int(size) for size in shape)
    kind = host_dtype(str(dtype))
    return TensorSpec(sizes, kind) if kind is not None and sizes and all(sizes) else None
