"""Values of names in evaluated code, in the words and numbers that an editor shows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from nki_lab.isa.dtype import DType
from nki_lab.kernel_runtime.interpreter.values import EnumMember, Instance, Value
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.kernel_runtime.tensor.register import VirtualRegister
from nki_lab.kernel_runtime.vocabulary import MEMORIES, MEMORY_OF

MOST_OTHERS: Final = 4
"""Other shapes that are told of a name; one more is kept, to say that there are more."""

VariableKind = Literal["tensor", "tensors", "register", "loop", "value"]


@dataclass(frozen=True, slots=True)
class Variable:
    """The value of a name when it was first bound, as `text`.

    `kind` is that of the value: a tensor, several of them, a register, the variable of a loop, or any other value that
    is known while a kernel is specialised. Shape, dtype and memory are known for tensors. Of a tensor with a shape that
    is known in part, `sizes` has the dimensions as words, and `shape` is empty. `trips` are the most iterations of a
    loop each time that it was entered, 0 for other names. `others` are tensors of other shapes, dtypes or memories that
    the name was bound to at the same place later on, not all of them where they are many.
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
    others: tuple[Variable, ...] = ()

    def joined(self, later: Variable) -> Variable:
        """Return this with the tensors among its `others` that another evaluation has at the same place."""
        if not self.shape or not later.shape:
            return self
        new = {(item.shape, item.dtype, item.memory): item for item in (later, *later.others)}
        for item in (self, *self.others):
            new.pop((item.shape, item.dtype, item.memory), None)
        plain = (replace(item, others=()) for item in new.values())
        return replace(self, others=(*self.others, *plain)[: MOST_OTHERS + 1]) if new else self

    @property
    def others_text(self) -> str:
        """Return what the name stands for at other times, as far as that differs; empty where it does not."""
        known = self.others[:MOST_OTHERS]
        texts = [
            str(item.shape) if (item.dtype, item.memory) == (self.dtype, self.memory) else item.text for item in known
        ]
        more = [] if len(self.others) <= MOST_OTHERS else ["others"]
        return f"at other times {' or '.join([*texts, *more])}" if texts else ""


def is_alike(one: NkiTensor, other: NkiTensor) -> bool:
    """Return whether two tensors have one shape, dtype and memory."""
    return one._shape == other._shape and one._dtype is other._dtype and one._buffer.space is other._buffer.space


def is_telling(value: Value) -> bool:
    """Return whether there is something to say about a value."""
    return isinstance(
        value, NkiTensor | VirtualRegister | int | float | str | tuple | list | dict | Instance | EnumMember | np.dtype
    )


def variable_of(
    name: str, value: Value, others: Iterable[NkiTensor] = (), span: tuple[float, float] | None = None
) -> Variable:
    """Return the summary of a value, and of tensors that are bound at the same place later. Of numbers that are bound
    there the `span` has the least and the largest.
    """
    if isinstance(value, NkiTensor):
        buffer = value._buffer
        memory = MEMORIES[MEMORY_OF[buffer.space.name]]
        width = math.prod(value._shape[1:]) * value._dtype.nbytes if buffer.on_chip else 0
        text = f"{value._shape} {value._dtype.name} in {memory}"
        later = tuple(variable_of(name, item) for item in others)
        return Variable(name, text, value._shape, value._dtype, memory, width, "tensor", others=later)
    if isinstance(value, VirtualRegister):
        return Variable(name, "a register, which has its value in a run only", kind="register")
    if isinstance(value, list | tuple | dict):
        text, inner = f"{type(value).__name__} of {len(value)}", value.values() if isinstance(value, dict) else value
        if inner is value and value and all(isinstance(item, NkiTensor) for item in value):
            return Variable(name, f"{text}: {variable_of('', value[0]).text}", kind="tensors")
        if len(value) > 16 or any(isinstance(item, list | tuple | dict | NkiTensor) for item in inner):
            return Variable(name, text, kind="tensors" if any(map(_is_tensor, inner)) else "value")
    text = str(value) if isinstance(value, np.dtype) else repr(value)[:200]
    return Variable(name, text if span is None else f"{text} at first, from {span[0]!r} to {span[1]!r} in all")


def _is_tensor(value: object) -> bool:
    return isinstance(value, NkiTensor)
