"""Values of names in evaluated code, in the words and numbers that an editor shows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nki_lab.isa.dtype import DType
from nki_lab.kernel_runtime.interpreter.values import EnumMember, Instance, Value
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.kernel_runtime.tensor.register import VirtualRegister
from nki_lab.kernel_runtime.vocabulary import MEMORIES, MEMORY_OF

VariableKind = Literal["tensor", "tensors", "register", "loop", "value"]


@dataclass(frozen=True, slots=True)
class Variable:
    """The value of a name when it was first bound, as `text`.

    `kind` is that of the value: a tensor, several of them, a register, the variable of a loop, or any other value that
    is known while a kernel is specialised. Shape, dtype and memory are known for tensors. Of a tensor with a shape that
    is known in part, `sizes` has the dimensions as words, and `shape` is empty. `trips` are the most iterations of a
    loop each time that it was entered, 0 for other names.
    """

    name: str
    text: str
    shape: tuple[int, ...] = ()
    dtype: DType | None = None
    memory: str = ""
    partition_bytes: int = 0
    kind: VariableKind = "value"
    trips: int = 0
    sizes: tuple[str, ...] = ()


def is_telling(value: Value) -> bool:
    """Return whether there is something to say about a value."""
    return isinstance(
        value, NkiTensor | VirtualRegister | int | float | str | tuple | list | dict | Instance | EnumMember | np.dtype
    )


def variable_of(name: str, value: Value) -> Variable:
    """Return the summary of a value."""
    if isinstance(value, NkiTensor):
        buffer = value._buffer
        memory = MEMORIES[MEMORY_OF[buffer.space.name]]
        width = math.prod(value._shape[1:]) * value._dtype.nbytes if buffer.on_chip else 0
        text = f"{value._shape} {value._dtype.name} in {memory}"
        return Variable(name, text, value._shape, value._dtype, memory, width, "tensor")
    if isinstance(value, VirtualRegister):
        return Variable(name, "a register, which has its value in a run only", kind="register")
    if isinstance(value, list | tuple | dict):
        text, inner = f"{type(value).__name__} of {len(value)}", value.values() if isinstance(value, dict) else value
        if inner is value and value and all(isinstance(item, NkiTensor) for item in value):
            return Variable(name, f"{text}: {variable_of('', value[0]).text}", kind="tensors")
        if len(value) > 16 or any(isinstance(item, list | tuple | dict | NkiTensor) for item in inner):
            return Variable(name, text, kind="tensors" if any(map(_is_tensor, inner)) else "value")
    return Variable(name, str(value) if isinstance(value, np.dtype) else repr(value)[:200])


def _is_tensor(value: object) -> bool:
    return isinstance(value, NkiTensor)
